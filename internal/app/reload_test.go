package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/internal/web"
	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// reload puts a text in the file and has it read.
func (r *rig) reload(text string) {
	r.t.Helper()
	r.file.Store(&text)
	r.hangup <- nil
	synctest.Wait()
}

// post posts to POST /-/reload as an operator.
func (r *rig) post() (status int, done web.Reloaded, body string) {
	r.t.Helper()
	status, body = r.operate("-/reload")
	if status == http.StatusOK {
		if err := json.Unmarshal([]byte(body), &done); err != nil {
			r.t.Fatal(err)
		}
	}
	return status, done, body
}

// lacks checks that an answer does not have a part.
func (r *rig) lacks(url, part string) {
	r.t.Helper()
	if _, body := r.get(url); strings.Contains(body, part) {
		r.t.Errorf("GET %s has %q", url, part)
	}
}

// consuming is the file of an account with queues, each given by its settings.
func consuming(queues ...string) string {
	return "accounts:\n  - name: acct\n    connectionString: ${STORAGE}\n    queues:\n      - " + strings.Join(queues, "\n      - ") + "\n"
}

// consumed is a queue with a consumer of that concurrency.
func consumed(name string, concurrency int) string {
	return fmt.Sprintf(`{name: %s, createIfMissing: true, consumer: {handler: {http: {url: "http://handler.invalid/"}}, concurrency: %d}}`, name, concurrency)
}

// tally is a handler that keeps what it handled, and takes its time.
type tally struct {
	takes time.Duration

	mu             sync.Mutex
	handled        map[string]int
	interrupted    int
	running, worst int
}

func newTally(takes time.Duration) *tally { return &tally{takes: takes, handled: map[string]int{}} }

// Handle implements processor.Handler.
func (h *tally) Handle(ctx context.Context, m *processor.Message) error {
	h.mu.Lock()
	h.running++
	h.worst = max(h.worst, h.running)
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.running--
	}()
	select {
	case <-time.After(h.takes):
	case <-ctx.Done():
		h.mu.Lock()
		defer h.mu.Unlock()
		h.interrupted++
		return ctx.Err()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.handled[string(m.Body)]++
	return nil
}

// TestAReloadLosesNoMessageAndNoCount: queues and consumers come, change and go while messages flow.
func TestAReloadLosesNoMessageAndNoCount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		changed, stays, added := newTally(3*time.Second), newTally(20*time.Second), newTally(time.Second)
		handlers := map[string]processor.Handler{"acct/changed": changed, "acct/stays": stays, "acct/added": added}
		r := start(t, consuming(consumed("changed", 2), consumed("stays", 1), "{name: watched}"), handlers)
		r.create("added")
		r.send("watched", "lies there")
		settle(5 * time.Minute)
		r.want("http://main/metrics", 200, `queue_approximate_messages{account="acct",queue_kind="main",queue_name="watched"} 1`)

		const messages = 400
		var producer sync.WaitGroup
		producer.Go(func() {
			for i := range messages {
				for _, name := range []string{"changed", "stays", "added"} {
					if name == "stays" && i%20 > 0 {
						continue
					}
					r.send(name, fmt.Sprint(i))
				}
				time.Sleep(time.Second)
			}
		})
		polls := `queue_polls_total{account="acct",queue_kind="main",queue_name="stays"} `
		for i := range 12 {
			settle(30 * time.Second)
			before := r.value(polls)
			r.reload(consuming(consumed("changed", 2+i%2), consumed("stays", 1), consumed("added", 3)))
			if after := r.value(polls); after < before {
				t.Errorf("the count of polls fell from %v to %v", before, after)
			}
			if i == 0 {
				r.lacks("http://main/metrics", `queue_name="watched"`)
				r.lacks("http://main/api/v1/queues", `"watched"`)
			}
		}
		producer.Wait()
		settle(20 * time.Minute)

		for name, h := range map[string]*tally{"changed": changed, "stays": stays, "added": added} {
			want := messages
			if name == "stays" {
				want = messages / 20
			}
			for body, n := range h.handled {
				if n != 1 {
					t.Errorf("%s: message %s was handled %d times", name, body, n)
				}
			}
			if len(h.handled) != want || h.interrupted != 0 {
				t.Errorf("%s: %d messages were handled of %d, and %d interrupted", name, len(h.handled), want, h.interrupted)
			}
			r.want("http://main/metrics", 200, fmt.Sprintf("queue_messages_processed_total{account=\"acct\",queue_name=%q} %d\n", name, want))
			if n := r.storage.Len(queuetest.AccountName, name); n != 0 {
				t.Errorf("%s: %d messages are left", name, n)
			}
		}
		if changed.worst > 3 {
			t.Errorf("%d handlers ran at once of a consumer that may have 3", changed.worst)
		}
		if n := strings.Count(r.logs.String(), `"msg":"configuration reloaded"`); n != 12 {
			t.Errorf("%d reloads are in the log, want 12", n)
		}
		// Two handles count one queue's handlers while one of them drains, and no longer.
		r.want("http://main/metrics", 200, `queue_processor_max_handlers{account="acct",queue_name="changed"} 3`)
		r.want("http://probes/livez?verbose", 200, "[+]processor acct/added ok")
		r.end()
	})
}

// value returns the value of a series that is there, by its line's beginning.
func (r *rig) value(series string) (v float64) {
	r.t.Helper()
	_, body := r.get("http://main/metrics")
	_, rest, ok := strings.Cut(body, "\n"+series)
	if !ok {
		r.t.Fatalf("there is no %s", series)
	}
	if _, err := fmt.Sscan(rest, &v); err != nil {
		r.t.Fatal(err)
	}
	return v
}

// TestAReloadTouchesOnlyWhatChanged: a handler at work is not disturbed by what happens to other queues, nor by
// settings that are about watching.
func TestAReloadTouchesOnlyWhatChanged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow := newTally(10 * time.Minute) // longer than a drain would wait
		r := start(t, consuming(consumed("stays", 1), consumed("goes", 1)), map[string]processor.Handler{"acct/stays": slow, "acct/goes": newTally(time.Second)})
		settle(5 * time.Minute)
		evidence := strings.Count(r.evidence("stays"), `"at"`)
		r.send("stays", "long")
		settle(time.Minute)
		r.reload(strings.Replace(consuming(consumed("stays", 1), "{name: other, team: payments}"), "stays, createIfMissing: true", "stays, createIfMissing: true, team: ops, tier: 1", 1))
		r.want("http://main/metrics", 200, `queue_info{account="acct",mode="consume",physical_name="stays",poison_queue="stays-poison",queue_kind="main",queue_name="stays",storage_account="devstoreaccount1",team="ops",tier="1"} 1`)
		if n := strings.Count(r.evidence("stays"), `"at"`); n < evidence {
			t.Errorf("%d samples are left of %d", n, evidence)
		}
		settle(20 * time.Minute)
		if slow.interrupted != 0 || slow.handled["long"] != 1 {
			t.Errorf("the handler was interrupted %d times: %v", slow.interrupted, slow.handled)
		}
		r.end()
	})
}

// evidence returns what the API shows of a queue.
func (r *rig) evidence(name string) string {
	r.t.Helper()
	_, body := r.get("http://main/api/v1/queues/acct/" + name)
	return body
}

// TestABadFileChangesNothing: and everybody is told, without secrets.
func TestABadFileChangesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		good := withTokens(t, oneQueue, "- {name: ann, role: operator, token: "+operatorToken+"}\n")
		r := start(t, good, idle())
		settle(time.Minute)
		_, before := r.get("http://main/api/v1/queues/acct/orders")
		for name, tt := range map[string]struct {
			text   string
			faults []string
		}{
			"faults of the file": {strings.NewReplacer("concurrency: 2", "concurrency: none", "- name: watched", "- nam: watched").Replace(good), []string{
				`qwatch.yaml:7: accounts[0].queues[0].consumer.concurrency: `, `qwatch.yaml:8: accounts[0].queues[1]`,
			}},
			"faults of what it describes": {strings.Replace(good, "${STORAGE}", "AccountName=x;AccountKey=hunter2", 1), []string{`qwatch.yaml:4: accounts[0].connectionString: `}},
			"an empty file":               {"", []string{"qwatch.yaml:1: the file is empty"}},
		} {
			r.file.Store(&tt.text)
			status, _, body := r.post()
			if status != http.StatusUnprocessableEntity || !strings.Contains(body, "the one before stays in use") || strings.Contains(body, "hunter2") {
				t.Errorf("%s: %d %s", name, status, body)
			}
			var refused struct{ Faults []string }
			if err := json.Unmarshal([]byte(body), &refused); err != nil {
				t.Error(err)
			}
			for _, want := range tt.faults {
				if !strings.Contains(strings.Join(refused.Faults, "\n"), want) {
					t.Errorf("%s: no fault %q in %q", name, want, refused.Faults)
				}
			}
			if len(refused.Faults) < len(tt.faults) {
				t.Errorf("%s: %d faults in one: %q", name, len(tt.faults), refused.Faults)
			}
			r.want("http://main/metrics", 200, "qwatch_config_last_reload_successful 0")
			r.want("http://main/readyz?verbose", 200, "[!]config degraded: config: the file was refused at ")
			if _, after := r.get("http://main/api/v1/queues/acct/orders"); after != before {
				t.Errorf("%s: the queue changed from\n%s\nto\n%s", name, before, after)
			}
		}
		if strings.Contains(r.logs.String(), "hunter2") {
			t.Error("the log shows a secret")
		}
		// The same by signal, and mended.
		bad := "accounts: {}\n"
		r.reload(bad)
		r.want("http://main/metrics", 200, "qwatch_config_last_reload_successful 0")
		r.reload(good)
		r.want("http://main/metrics", 200, "qwatch_config_last_reload_successful 1")
		r.want("http://main/readyz?verbose", 200, "[+]config ok\n")
		r.send("orders", "handled all the same")
		settle(time.Minute)
		r.holds("orders", 0)
		r.end()
	})
}

// TestAReloadTellsWhatItDid: in its answer, to operators alone.
func TestAReloadTellsWhatItDid(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tokens := func(text string) string {
			return withTokens(t, text, "- {name: ann, role: operator, token: "+operatorToken+"}\n- {name: bob, role: reader, token: only-a-readers-token}\n")
		}
		text := tokens(consuming(consumed("changed", 1), consumed("gone", 1), "{name: same}", "{name: tier-only}"))
		r := start(t, text, map[string]processor.Handler{"acct/changed": newTally(0), "acct/gone": newTally(0), "acct/new": newTally(0)})
		settle(time.Minute)

		resp, err := r.client.Post("http://main/-/reload", "", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("without a token: %d", resp.StatusCode)
		}
		r.want("http://main/-/reload", http.StatusMethodNotAllowed, "use POST")

		if status, done, _ := r.post(); status != 200 || done.Changes() != "none" || len(done.Restart) > 0 {
			t.Errorf("nothing changed: %d %+v", status, done)
		}
		next := consuming(consumed("changed", 2), consumed("new", 1), "{name: same}", "{name: tier-only, tier: 1}") +
			"  - {name: second, connectionString: \"${STORAGE}\", discovery: {}}\n"
		next = strings.Replace(tokens(next), "server: {listen: \"127.0.0.1:9780\"", "server: {listen: \"127.0.0.1:9999\", strictReadiness: true", 1)
		r.file.Store(&next)
		status, done, body := r.post()
		want := web.Reloaded{
			Accounts:  web.Difference{Added: []string{"second"}},
			Queues:    web.Difference{Added: []string{"acct/new"}, Changed: []string{"acct/changed", "acct/tier-only"}, Removed: []string{"acct/gone"}},
			Consumers: web.Difference{Added: []string{"acct/new"}, Changed: []string{"acct/changed"}, Removed: []string{"acct/gone"}},
		}
		told := done.Restart
		done.Restart = nil
		if diff := cmp.Diff(want, done); status != 200 || diff != "" {
			t.Errorf("%d %s\n%s", status, body, diff)
		}
		for i, setting := range []string{"server.listen", "server.tokensFile", "server.strictReadiness"} {
			if i >= len(told) || !strings.Contains(told[i], setting+": restart qwatch to apply it") {
				t.Errorf("%s is not told: %q", setting, told)
			}
		}
		var waiting []string
		for _, text := range told {
			setting, _, _ := strings.Cut(text, ": restart qwatch")
			waiting = append(waiting, setting)
		}
		r.want("http://main/readyz?verbose", 200, "[+]config ok: waiting for a restart: "+strings.Join(waiting, ", ")+"\n")
		settle(time.Minute)
		r.want("http://main/metrics", 200, `queue_processor_max_handlers{account="acct",queue_name="changed"} 2`) // the one before has ended
		r.want("http://main/metrics", 200, `qwatch_discovery_queues{account="second"}`)
		r.want("http://main/metrics", 200, `qwatch_storage_request_duration_seconds_count{account="second",operation="list",result="ok"} 1`)

		// The account goes, and a while later what was counted of it.
		r.file.Store(&text)
		if status, done, body := r.post(); status != 200 || len(done.Accounts.Removed) != 1 {
			t.Errorf("%d %s", status, body)
		}
		r.lacks("http://main/metrics", `qwatch_discovery_queues{account="second"}`)
		r.want("http://main/metrics", 200, `qwatch_storage_request_duration_seconds_count{account="second",operation="list",result="ok"} 1`)
		settle(6 * time.Minute)
		r.lacks("http://main/metrics", `account="second"`)
		r.end()
	})
}

// TestReloadsComeOneAfterTheOther: however many ask at once, by signal and by request.
func TestReloadsComeOneAfterTheOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		text := withTokens(t, oneQueue, "- {name: ann, role: operator, token: "+operatorToken+"}\n")
		r := start(t, text, idle())
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				next := strings.Replace(text, "concurrency: 2", fmt.Sprintf("concurrency: %d", 1+i%5), 1)
				r.file.Store(&next)
				if i%4 == 0 {
					r.hangup <- nil
					return
				}
				if status, _, body := r.post(); status != 200 {
					t.Errorf("%d %s", status, body)
				}
			})
		}
		all.Wait()
		r.reload(text)
		settle(time.Minute)
		if n := strings.Count(r.logs.String(), `"msg":"configuration reloaded"`); n != 21 {
			t.Errorf("%d reloads, want 21", n)
		}
		r.want("http://main/metrics", 200, `queue_processor_max_handlers{account="acct",queue_name="orders"} 2`)
		r.send("orders", "handled")
		settle(time.Minute)
		r.holds("orders", 0)
		r.end()
	})
}

// TestAReloadChangesHowQueuesAreWatched: intervals, the set of series, the price, and the sign-in.
func TestAReloadChangesHowQueuesAreWatched(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		text := consuming("{name: orders}")
		r := start(t, text+"watch: {interval: 1m, idleInterval: 1m}\n", nil)
		settle(5 * time.Minute)
		const interval = `queue_poll_interval_seconds{account="acct",queue_kind="main",queue_name="orders"} `
		r.want("http://main/metrics", 200, interval+"60")
		r.lacks("http://main/metrics", "qwatch_storage_estimated_monthly_cost")
		polls := r.value(`queue_polls_total{account="acct",queue_kind="main",queue_name="orders"} `)

		r.reload(text + "watch: {interval: 10s, idleInterval: 10s, series: compact, pricePer10kTransactions: 0.4}\ndefaults: [{match: \"o*\", tier: 1}]\n")
		if want := `"changes":"queues: 1 changed; settings: watch.interval, watch.idleInterval, watch.series, watch.pricePer10kTransactions, defaults"`; !strings.Contains(r.logs.String(), want) {
			t.Errorf("the log has no %s", want)
		}
		settle(5 * time.Minute)
		r.lacks("http://main/metrics", "queue_last_poll_duration_seconds")
		r.want("http://main/metrics", 200, `qwatch_storage_estimated_monthly_cost{account="acct"}`)
		r.want("http://main/api/v1/queues", 200, `"intervalSeconds":10`)

		// Another way to the same account: everything is new but what was seen and counted.
		r.reload(strings.Replace(text, "connectionString: ${STORAGE}",
			fmt.Sprintf("endpoint: %s\n    accountKey: %s\n    accountName: %s", r.storage.Endpoint(queuetest.AccountName), queuetest.AccountKey, queuetest.AccountName), 1))
		r.want("http://main/metrics", 200, interval+"300") // as an idle queue's by default
		if n := r.value(`queue_polls_total{account="acct",queue_kind="main",queue_name="orders"} `); n < polls+20 {
			t.Errorf("%v polls were counted after %v and five minutes at 10 s", n, polls)
		}
		r.want("http://main/metrics", 200, `queue_up{account="acct",queue_kind="main",queue_name="orders"} 1`)
		settle(5 * time.Minute)
		r.want("http://main/metrics", 200, `queue_up{account="acct",queue_kind="main",queue_name="orders"} 1`)
		r.end()
	})
}
