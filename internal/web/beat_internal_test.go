package web

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/qwatch/qwatch/internal/triage"
	"github.com/qwatch/qwatch/poison"
)

// listener is read while it is written to.
type listener struct {
	*httptest.ResponseRecorder

	mu sync.Mutex
}

// Write implements http.ResponseWriter.
func (l *listener) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ResponseRecorder.Write(b)
}

func (l *listener) heard() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Body.String()
}

// A stream of events is never quiet for long, for what stands between may cut it off, and says nothing after its end.
func TestAStreamIsNotQuietForLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAdmin(&handler{Options: Options{Logger: slog.New(slog.DiscardHandler)}})
		w := &listener{ResponseRecorder: httptest.NewRecorder()}
		r := &storageRequest{Request: httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)}
		a.stream(w, r, triage.Replay, triage.Command{DryRun: true}, func(_ context.Context, tell func(triage.Event) error) error {
			time.Sleep(time.Minute) // nothing is known yet that could be said
			synctest.Wait()
			if got := w.heard(); got != "" {
				t.Errorf("said %q", got)
			}
			if err := tell(triage.Event{Progress: &triage.Progress{Done: 1, Of: 9}}); err != nil {
				return err
			}
			for i := range 20 { // the canaries are watched
				time.Sleep(18 * time.Second)
				synctest.Wait()
				if n := strings.Count(w.heard(), "\n"); n < i+2 {
					t.Fatalf("%d lines after %d times 18 s", n, i+1)
				}
			}
			return tell(triage.Event{Result: &poison.Result{Chosen: 9, Done: 9}})
		})
		time.Sleep(time.Hour)
		lines := strings.Split(strings.TrimSpace(w.heard()), "\n")
		for _, line := range lines[:len(lines)-1] {
			if line != `{"progress":{"done":1,"of":9}}` {
				t.Errorf("said %s", line)
			}
		}
		if last := lines[len(lines)-1]; !strings.HasPrefix(last, `{"result":`) || len(lines) > 30 {
			t.Errorf("%d lines, the last %s", len(lines), last)
		}
	})
}
