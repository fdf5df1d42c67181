package test_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/poison"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/test/peer"
)

// marker is in every body and nowhere else: where it is found, a body leaked.
const marker = "eyes-only-5f1c94e07bd2"

// ordersConfig is the example of the documentation, quicker: a consumed queue, and one that is only watched.
const ordersConfig = `
accounts:
  - name: orders
    connectionString: ${ORDERS_CONNECTION_STRING}
    queues:
      - name: orders
        poisonQueue: orders-poison
        encoding: none
        objective: {timeInQueue: 5m, target: 0.99}
        team: payments
        tier: 1
        consumer:
          handler:
            http: {url: "%s/orders", timeout: 30s}
          concurrency: 16
          visibilityTimeout: 1m
          maxDequeueCount: 5
          maxAge: 24h
          retry: {initial: 1s, max: 5m}
          drainTimeout: 30s
      - name: audit
defaults: [{match: "aud*", tier: 3}]
watch: {interval: 1s}
`

func TestRunConsumesQuarantinesAndWatches(t *testing.T) {
	azurite := peer.Azurite(t)
	account := openAccount(t, azurite)
	orders := createQueue(t, account, "orders")
	audit, auditPoison := createQueue(t, account, "audit"), createQueue(t, account, "audit-poison")
	send(t, audit, bodies("audit", 3, marker))
	send(t, auditPoison, bodies("dead", 2, marker))
	send(t, orders, bodies("good", 200, marker))
	send(t, orders, bodies("bad", 7, marker))
	send(t, orders, bodies("flaky", 5, marker))

	handling := make(chan struct{})
	handler := newEndpoint(t, marker, func(id string, call int) answer {
		kind, _, _ := strings.Cut(id, "-")
		switch {
		case kind == "bad":
			return answer{http.StatusUnprocessableEntity, "no such article: " + id}
		case kind == "flaky" && call < 3:
			return answer{status: http.StatusInternalServerError}
		case kind == "last":
			close(handling)
			time.Sleep(2 * time.Second)
		}
		return answer{status: http.StatusNoContent}
	})
	env := "ORDERS_CONNECTION_STRING=" + azurite.ConnectionString()
	s := serve(t, fmt.Sprintf(ordersConfig, handler.URL), env)

	eventually(t, 2*time.Minute, "205 processed, 7 quarantined", func() bool {
		m := scrapeOf(t, s)
		return m.is(205, "queue_messages_processed_total", "queue_name", "orders") &&
			m.is(7, "queue_messages_dead_lettered_total", "queue_name", "orders")
	})
	t.Run("each message came as often as it should", func(t *testing.T) {
		want := make(map[string]int)
		for kind, times := range map[string]struct{ messages, calls int }{"good": {200, 1}, "bad": {7, 1}, "flaky": {5, 3}} {
			for _, b := range bodies(kind, times.messages, marker) {
				want[b.ID] = times.calls
			}
		}
		if diff := cmp.Diff(want, handler.seen()); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		handler.check(t)
	})
	t.Run("the metrics say the same", func(t *testing.T) {
		m := scrapeOf(t, s)
		on := []string{"account", "orders", "queue_name", "orders"}
		m.want(t, 222, append([]string{"queue_messages_received_total"}, on...)...)
		m.want(t, 212, append([]string{"queue_messages_started_total"}, on...)...)
		m.want(t, 17, append([]string{"queue_messages_failed_total"}, on...)...)
		m.want(t, 7, append([]string{"queue_messages_dead_lettered_total", "queue_dead_letter_reason", "handler"}, on...)...)
		m.want(t, 10, append([]string{"queue_message_retries_total"}, on...)...)
		m.want(t, 205, append([]string{"queue_message_processing_duration_seconds", "queue_outcome", "completed"}, on...)...)
	})
	t.Run("the poison holds reason and body", func(t *testing.T) { checkPoison(t, s, env, orders) })
	t.Run("the watched queue is counted and left alone", func(t *testing.T) {
		checkWatched(t, s, map[string]*queue.Queue{"main": audit, "poison": auditPoison})
	})

	// What anyone can read while it runs.
	public := map[string]string{}
	for _, path := range []string{"/", "/metrics", "/api/v1/queues", "/api/v1/queues/orders/orders", "/readyz?verbose", "/livez?verbose"} {
		status, text, err := get(t.Context(), s.main+path)
		if err != nil || status >= http.StatusInternalServerError {
			t.Errorf("GET %s: status %d, %v", path, status, err)
		}
		public[path] = string(text)
	}

	t.Run("SIGTERM lets the running handler finish", func(t *testing.T) {
		send(t, orders, bodies("last", 1, marker))
		select {
		case <-handling:
		case <-time.After(40 * time.Second): // an idle queue is polled every 30 s
			t.Fatal("the last message was not taken")
		}
		s.Signal(t, syscall.SIGTERM)
		if status := s.Wait(t, 30*time.Second); status != 0 {
			t.Errorf("exit status %d", status)
		}
		if n := handler.seen()["last-0"]; n != 1 {
			t.Errorf("the last message came %d times", n)
		}
		if left := drain(t, orders); len(left) > 0 || count(t, orders) != 0 {
			t.Errorf("%d messages are left on the queue, of them visible: %d", count(t, orders), len(left))
		}
	})

	public["stdout"], public["stderr"] = s.Stdout(), s.Stderr()
	for where, text := range public {
		for what, secret := range map[string]string{"a body": marker, "the key": peer.AccountKey} {
			if strings.Contains(text, secret) {
				t.Errorf("%s holds %s", where, what)
			}
		}
	}
	if !strings.Contains(s.Stderr(), "level") {
		t.Errorf("the log is empty, so that it keeps bodies out proves nothing: %q", s.Stderr())
	}
}

// checkPoison reads the seven bad messages through the command and as they lie on the queue.
func checkPoison(t *testing.T, s *service, env string, orders *queue.Queue) {
	want := make(map[string]string) // body's id to reason
	for _, b := range bodies("bad", 7, marker) {
		want[b.ID] = "no such article: " + b.ID
	}

	r := run(t, []string{env}, "poison", "list", "orders/orders", "-c", s.config, "-o", "json", "--body")
	var entries []struct {
		poison.Entry
		Body string `json:"body"`
	}
	if err := json.Unmarshal([]byte(r.stdout), &entries); r.status != 0 || err != nil {
		t.Fatalf("poison list: status %d, %v\n%s", r.status, err, r.stderr)
	}
	listed, ids := make(map[string]string), make(map[string]bool)
	for _, e := range entries {
		var b body
		if err := json.Unmarshal([]byte(e.Body), &b); err != nil || b.Note != marker {
			t.Errorf("body %q: %v", e.Body, err)
		}
		listed[b.ID] = e.Reason
		ids[e.MessageID] = true
		if e.Category != poison.CategoryHandler || e.DequeueCount != 1 || e.Queue != "orders" || e.DeadLetteredAt == nil {
			t.Errorf("entry %+v", e.Entry)
		}
	}
	if diff := cmp.Diff(want, listed); diff != "" {
		t.Errorf("reasons as listed (-want +got):\n%s", diff)
	}
	if r := run(t, []string{env}, "poison", "list", "orders/orders", "-c", s.config, "-o", "json"); r.status != 0 || strings.Contains(r.stdout, marker) {
		t.Errorf("without --body: status %d\n%s", r.status, r.stdout)
	}

	peeked, err := orders.Poison().Peek(t.Context(), 32)
	if err != nil {
		t.Fatal(err)
	}
	raw := make(map[string]string)
	for _, m := range peeked.Messages {
		var envelope struct {
			Version    int  `json:"$azqs-envelope"`
			Body       body `json:"body"`
			DeadLetter struct {
				Reason    string `json:"reason"`
				MessageID string `json:"messageId"`
				Queue     string `json:"queue"`
			} `json:"deadLetter"`
		}
		if err := json.Unmarshal([]byte(m.Text), &envelope); err != nil || envelope.Version != 1 || envelope.Body.Note != marker {
			t.Errorf("poison text %s: %v", m.Text, err)
		}
		if d := envelope.DeadLetter; !ids[d.MessageID] || d.Queue != "orders" {
			t.Errorf("record %+v", d)
		}
		raw[envelope.Body.ID] = envelope.DeadLetter.Reason
		if m.ExpiresAt.Year() < 9999 {
			t.Errorf("the poison expires at %v", m.ExpiresAt)
		}
	}
	if diff := cmp.Diff(want, raw); diff != "" {
		t.Errorf("reasons on the queue (-want +got):\n%s", diff)
	}
}

// checkWatched compares what is known of the audit queue with what lies there.
func checkWatched(t *testing.T, s *service, queues map[string]*queue.Queue) {
	var m scrape
	eventually(t, 30*time.Second, "both were polled", func() bool {
		m = scrapeOf(t, s)
		return m.is(2, "queue_up", "queue_name", "audit") // main and poison, 1 each
	})
	for kind, messages := range map[string]int{"main": 3, "poison": 2} {
		on := []string{"account", "orders", "queue_name", "audit", "queue_kind", kind}
		m.want(t, float64(messages), append([]string{"queue_approximate_messages"}, on...)...)
		m.want(t, float64(messages), append([]string{"queue_peeked_messages"}, on...)...)
		m.want(t, 0, append([]string{"queue_peeked_delivery_attempts_max"}, on...)...)
		m.want(t, 1, append([]string{"queue_info", "mode", "watch", "tier", "3"}, on...)...)
		if age, ok := m.value(append(series{"queue_oldest_visible_message_age_seconds"}, on...)); !ok || age <= 0 {
			t.Errorf("oldest age of %s: %v, %v", kind, age, ok)
		}

		peeked, err := queues[kind].Peek(t.Context(), 32)
		if err != nil {
			t.Fatal(err)
		}
		if len(peeked.Messages) != messages {
			t.Errorf("%d messages are visible on %s, want %d", len(peeked.Messages), kind, messages)
		}
		for _, message := range peeked.Messages {
			if message.DequeueCount != 0 {
				t.Errorf("a message on %s was received %d times", kind, message.DequeueCount)
			}
		}
	}
	for name := range maps.Keys(m) {
		if strings.HasPrefix(name, "queue_messages_") && m.has(name, "queue_name", "audit") {
			t.Errorf("%s exists for a queue without a consumer", name)
		}
	}
}
