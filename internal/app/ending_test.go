package app_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/qwatch/qwatch/poison"
	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

const asAnn = "- {name: ann, role: operator, token: " + operatorToken + "}\n"

// deadLettered puts messages on the poison queue of the queue of that name.
func (r *rig) deadLettered(name string, n int) {
	r.t.Helper()
	a, err := queue.NewAccount(queue.AccountConfig{Name: "test", ConnectionString: queue.Secret(r.storage.ConnectionString()), Transport: r.storage})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(a.Close)
	q, err := a.Queue(name, queue.Config{CreateIfMissing: true})
	if err != nil {
		r.t.Fatal(err)
	}
	for i := range n {
		if _, err := q.Send(r.t.Context(), fmt.Sprint(i), queue.SendOptions{}); err != nil {
			r.t.Fatal(err)
		}
		ms, err := q.Receive(r.t.Context(), 1, 0)
		if err != nil || len(ms) != 1 {
			r.t.Fatalf("received %d, %v", len(ms), err)
		}
		if err := poison.Move(r.t.Context(), ms[0], poison.CategoryHandler, "refused"); err != nil {
			r.t.Fatal(err)
		}
	}
}

// answer is what an operator's request came to.
type answer struct {
	status int
	done   int
	fault  string
	err    error
}

// asking posts to the API as an operator, in the background.
func (r *rig) asking(path string, body io.Reader) <-chan answer {
	out := make(chan answer, 1)
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, "http://main/api/v1/poison/"+path, body)
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+operatorToken)
	go func() {
		var a answer
		defer func() { out <- a }()
		resp, err := r.client.Do(req)
		if a.err = err; err != nil {
			return
		}
		defer resp.Body.Close()
		a.status = resp.StatusCode
		var v struct {
			Done, Imported int
			Error          string
		}
		a.err = json.NewDecoder(resp.Body).Decode(&v)
		a.done, a.fault = v.Done+v.Imported, v.Error
	}()
	return out
}

// visible counts the messages that a consumer could take now.
func (r *rig) visible(name string) int {
	r.t.Helper()
	n := 0
	for {
		ms, err := r.queue(name).Receive(r.t.Context(), 32, time.Minute)
		if err != nil {
			r.t.Fatal(err)
		}
		if n += len(ms); len(ms) == 0 {
			return n
		}
	}
}

// TestTheEndEndsAReplayCleanly: at the next message, with nothing held, an answer, and the audit log's last line.
func TestTheEndEndsAReplayCleanly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := start(t, withTokens(t, oneQueue, asAnn), idle())
		r.deadLettered("watched", 20)
		got := r.asking("acct/watched/replay", strings.NewReader(`{"all":true,"rate":1}`))
		settle(5500 * time.Millisecond)
		began := time.Now()
		r.end()
		if took := time.Since(began); took > time.Second {
			t.Errorf("the end took %v: the replay went on", took)
		}
		a := <-got
		if a.err != nil || a.done < 4 || a.done > 7 || !strings.HasPrefix(a.fault, "qwatch is ending: ") || strings.Contains(a.fault, "canceled") {
			t.Errorf("the operator was told %+v, want a result", a)
		}
		if main, dead := r.visible("watched"), r.visible("watched-poison"); main != a.done || dead != 20-a.done {
			t.Errorf("%d messages were replayed, %d are visible there and %d on the poison queue, of 20", a.done, main, dead)
		}
		if log := r.logs.String(); !strings.Contains(log, `"msg":"operator command ended early","component":"web","operation":"replay","account":"acct","queue":"watched","operator":"ann"`) ||
			!strings.Contains(log, `"error":"qwatch is ending: `) {
			t.Errorf("the audit log does not tell how it ended:\n%s", log)
		}
	})
}

// TestTheEndWaitsForWhatIsBegun: a message that is just being sent again is not left half done.
func TestTheEndWaitsForWhatIsBegun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := start(t, withTokens(t, oneQueue, asAnn), idle())
		r.deadLettered("watched", 3)
		r.storage.Inject(queuetest.Fault{Queue: "watched", Operation: "send", Delay: 8 * time.Second})
		got := r.asking("acct/watched/replay", strings.NewReader(`{"all":true}`))
		settle(time.Second)
		r.end()
		select {
		case a := <-got:
			if a.err != nil || a.done != 1 {
				t.Errorf("the operator was told %+v, want a result of 1", a)
			}
		default:
			t.Error("the process ended before the replay")
		}
		if !strings.Contains(r.logs.String(), "operator command ended early") {
			t.Error("the audit log does not tell how it ended")
		}
		if main, dead := r.visible("watched"), r.visible("watched-poison"); main != 1 || dead != 2 {
			t.Errorf("%d messages on the queue and %d on the poison queue, want 1 and 2", main, dead)
		}
	})
}

// TestTheEndWaitsForNobodysUpload: an import whose client sends nothing more ends as well.
func TestTheEndWaitsForNobodysUpload(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := start(t, withTokens(t, oneQueue, asAnn), idle())
		body, upload := io.Pipe()
		defer func() { _ = upload.Close() }()
		got := r.asking("acct/watched/import", body)
		settle(time.Minute)
		began := time.Now()
		r.end()
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("the end took %v", took)
		}
		_ = upload.Close()
		<-got
		if !strings.Contains(r.logs.String(), `"msg":"operator command ended early","component":"web","operation":"import"`) {
			t.Errorf("the audit log does not tell how it ended:\n%s", r.logs)
		}
	})
}

// TestNothingIsBegunAtTheEnd: while handlers drain, operators are told to come again.
func TestNothingIsBegunAtTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := start(t, withTokens(t, oneQueue, asAnn), map[string]processor.Handler{"acct/orders": newTally(20 * time.Second)})
		r.send("orders", "at work")
		settle(10 * time.Second)
		r.stop()
		settle(time.Second)
		if a := <-r.asking("acct/watched/replay", strings.NewReader(`{"all":true}`)); a.status != 503 || !strings.Contains(a.fault, "qwatch is ending") {
			t.Errorf("a replay at the end: %+v, want 503", a)
		}
		r.end()
	})
}
