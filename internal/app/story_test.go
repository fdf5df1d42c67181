package app_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/qwatch/qwatch/processor"
)

// TestAQueuesTimelineHasWhatHappened: changes of state, reloads, refused ones too, and who paused.
func TestAQueuesTimelineHasWhatHappened(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		text := withTokens(t, strings.Replace(oneQueue, "handler.invalid/", "user:hunter2@handler.invalid/path?code=hunter2", 1), "- {name: ann, role: operator, token: "+operatorToken+"}\n")
		r := start(t, text, idle())
		defer r.end()
		r.send("watched", "lies there")
		settle(30 * time.Minute)
		r.reload(strings.Replace(text, "concurrency: 2", "concurrency: 3", 1))
		settle(time.Minute)
		r.reload("nonsense: true")
		settle(time.Minute)
		if status, body := r.command("acct/orders/pause"); status != http.StatusOK {
			t.Fatalf("pause: %d %s", status, body)
		}
		settle(2 * time.Minute)

		timeline := func(queue string) (events []string, text string) {
			status, body := r.get("http://main/api/v1/why/acct/" + queue)
			var s struct {
				Events []struct{ Text, By string }
			}
			if err := json.Unmarshal([]byte(body), &s); err != nil || status != http.StatusOK {
				t.Fatalf("why %s: %d, %v", queue, status, err)
			}
			for _, e := range s.Events {
				events = append(events, strings.TrimSpace(e.Text+" "+e.By))
			}
			slices.Reverse(events)
			return events, body
		}
		inOrder := func(queue string, events []string, parts ...string) {
			t.Helper()
			for _, e := range events {
				if len(parts) > 0 && strings.Contains(e, parts[0]) {
					parts = parts[1:]
				}
			}
			if len(parts) > 0 {
				t.Errorf("the timeline of %s lacks %q: %q", queue, parts, events)
			}
		}
		events, body := timeline("watched")
		inOrder("watched", events, "qwatch started", "status stalled", "configuration reloaded; changes: queues: 1 changed; consumers: 1 changed", "configuration refused: ")
		if !strings.Contains(body, "Nobody takes messages") || !strings.Contains(body, "qwatch queue peek acct/watched --max 5") {
			t.Errorf("the story of a queue that nobody consumes: %s", body)
		}
		events, body = timeline("orders")
		inOrder("orders", events, "configuration reloaded", "configuration refused", "consumer paused ann")
		if n := len(slices.DeleteFunc(events, func(e string) bool { return !strings.Contains(e, "paused") })); n != 1 {
			t.Errorf("the pause is told %d times", n)
		}
		if !strings.Contains(body, `"handler":"http://handler.invalid"`) || strings.Contains(body, "hunter2") {
			t.Errorf("the handler is not named, or with its secrets: %s", body)
		}
		r.want("http://main/api/v1/fleet", http.StatusOK, "acct/watched is stalled")
	})
}

// TestWhatHandlersDoBecomesAdvice: it is measured in the program, and outlives a reload.
func TestWhatHandlersDoBecomesAdvice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := start(t, oneQueue, map[string]processor.Handler{"acct/orders": newTally(50 * time.Second)})
		defer r.end()
		for range 250 {
			r.send("orders", "x")
		}
		settle(3 * time.Hour)
		r.want("http://main/api/v1/tune/acct/orders", http.StatusOK, `"setting":"visibilityTimeout","now":"1m","advised":"2m","verdict":"raise"`)
		r.reload(strings.Replace(oneQueue, "concurrency: 2", "concurrency: 2, visibilityTimeout: 2m", 1))
		settle(time.Minute)
		r.want("http://main/api/v1/tune/acct/orders", http.StatusOK, `"setting":"visibilityTimeout","now":"2m","advised":"2m","verdict":"keep"`)
	})
}
