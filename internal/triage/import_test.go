package triage_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/qwatch/qwatch/internal/triage"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// A line is at fault for what is wrong with it, and not for storage that fails when it is sent.
func TestALineIsNotAtFaultForStorage(t *testing.T) {
	onRig(t, func(r *rig) {
		if err := r.orders.Poison().Create(r.Context()); err != nil {
			t.Fatal(err)
		}
		good := `{"format":"qwatch-poison/1","text":"x"}` + "\n"
		for name, tc := range map[string]struct {
			lines string
			line  bool
			fault queuetest.Fault
		}{
			"a line that is none":        {good + "x\n", true, queuetest.Fault{}},
			"a line of another queue":    {good + strings.Replace(good, `"text"`, `"queue":"bills","text"`, 1), true, queuetest.Fault{}},
			"storage that refuses":       {good + good, false, queuetest.Fault{Operation: queuetest.OpSend, Skip: 1, Status: 403, Code: "AuthorizationFailure"}},
			"storage that does not last": {good + good, false, queuetest.Fault{Operation: queuetest.OpSend, Skip: 1, Status: 503, Code: "ServerBusy"}},
		} {
			remove := func() {}
			if tc.fault.Status > 0 {
				remove = r.service.Inject(tc.fault)
			}
			done, err := triage.Import(r.Context(), triage.Queue{Queue: r.orders}, strings.NewReader(tc.lines), triage.ImportOptions{})
			remove()
			if errors.As(err, new(*triage.LineError)) != tc.line || errors.As(err, new(*queue.StorageError)) == tc.line ||
				done.Imported != 1 || done.Next != 2 || !strings.HasPrefix(err.Error(), "line 2: ") {
				t.Errorf("%s: %+v, %v", name, done, err)
			}
		}
	})
}
