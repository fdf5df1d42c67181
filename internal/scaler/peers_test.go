package scaler

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/qwatch/qwatch/collector"
	"github.com/qwatch/qwatch/processor"
)

// town is the consumers behind a headless service.
type town struct {
	mu      sync.Mutex
	pods    map[string]string // metrics by host:port; "hang" and "503" do that
	failing error             // of the name's resolution
	asked   map[string]int
}

func (w *town) set(address, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if text == "" {
		delete(w.pods, address)
		return
	}
	w.pods[address] = text
}

func (w *town) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failing = err
}

func (w *town) lookup(_ context.Context, host string) ([]string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failing != nil {
		return nil, w.failing
	}
	var out []string
	for a := range w.pods {
		out = append(out, strings.TrimSuffix(a, ":9780"))
	}
	if len(out) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return out, nil
}

// RoundTrip implements http.RoundTripper.
func (w *town) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	text := w.pods[r.URL.Host]
	w.asked[r.URL.Host]++
	w.mu.Unlock()
	status := http.StatusOK
	switch text {
	case "", "refused":
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	case "hang":
		<-r.Context().Done()
		return nil, r.Context().Err()
	case "503":
		status = http.StatusServiceUnavailable
	}
	if r.URL.Path != "/metrics" || r.Method != http.MethodGet {
		status = http.StatusNotFound
	}
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(text)), Header: http.Header{}, Request: r}, nil
}

// exposition is what one consumer exports.
func exposition(handlers, slots, held, handled int, seconds float64) string {
	l := `{account="acct",queue_name="orders"`
	return fmt.Sprintf(`# TYPE queue_processor_active_handlers gauge
queue_processor_active_handlers%[1]s} %[2]d
# TYPE queue_processor_max_handlers gauge
queue_processor_max_handlers%[1]s} %[3]d
# TYPE queue_processor_held_messages gauge
queue_processor_held_messages%[1]s} %[4]d
# TYPE queue_message_processing_duration_seconds histogram
queue_message_processing_duration_seconds_bucket%[1]s,queue_outcome="completed",le="+Inf"} %[5]d
queue_message_processing_duration_seconds_sum%[1]s,queue_outcome="completed"} %[6]g
queue_message_processing_duration_seconds_count%[1]s,queue_outcome="completed"} %[5]d
queue_message_processing_duration_seconds_bucket%[1]s,queue_outcome="abandoned",le="+Inf"} 0
queue_message_processing_duration_seconds_sum%[1]s,queue_outcome="abandoned"} 0
queue_message_processing_duration_seconds_count%[1]s,queue_outcome="abandoned"} 0
`, l, handlers, slots, held, handled, seconds)
}

// peered is a scaler of one queue whose consumers are a town.
type peered struct {
	*Scaler
	town  *town
	state collector.QueueState
	stop  context.CancelFunc
	ended chan struct{}
}

func startPeered(t *testing.T) *peered {
	t.Helper()
	p := &peered{town: &town{pods: map[string]string{}, asked: map[string]int{}}, ended: make(chan struct{})}
	p.state = collector.QueueState{Account: "acct", Queue: "orders", Objective: time.Minute}
	p.Scaler = New(Config{
		State: func(_, _ string) (collector.QueueState, bool) {
			s := p.state
			s.Count.Known, s.Peek.Known, s.Count.At, s.Peek.At = true, true, time.Now(), time.Now()
			return s, true
		},
		Known: func(account, queue string) (Settings, bool) {
			return Settings{}, account == "acct" && queue == "orders"
		},
		Peers: NewPeers(PeersConfig{
			Hosts: []string{"workers"}, Lookup: p.town.lookup, Transport: p.town,
			Self: func(a string) bool { return a == "10.0.0.9:9780" },
		}),
	})
	return p
}

func (p *peered) run(t *testing.T) {
	t.Helper()
	var ctx context.Context
	ctx, p.stop = context.WithCancel(t.Context())
	go func() {
		defer close(p.ended)
		_ = p.Run(ctx, func() []Consumer { return nil })
	}()
}

func (p *peered) end() {
	p.stop()
	<-p.ended
}

func (p *peered) want(t *testing.T, s Strategy, want int64) {
	t.Helper()
	a, err := p.Own("acct", "orders", s)
	if want < 0 {
		if e, ok := errors.AsType[*Error](err); !ok || e.Kind != Unknown {
			t.Errorf("%s: %+v, %v; want it to be unknown", s, a, err)
		}
		return
	}
	if err != nil || a.Value != want {
		t.Errorf("%s: %+v, %v; want %d", s, a, err, want)
	}
}

func TestPeersTellWhatRunsAndHowLongItTakes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := startPeered(t)
		p.state.Count.Messages, p.state.Peek.Visible = 20, 20
		p.want(t, StrategyInflight, -1) // nobody has been asked
		if e, ok := p.Elsewhere("acct", "orders"); !ok || e != (Elsewhere{Unknown: "the peers have not been asked yet"}) {
			t.Errorf("%+v, %t", e, ok)
		}
		p.town.set("10.0.0.1:9780", exposition(3, 4, 0, 1000, 30_000))
		p.town.set("10.0.0.2:9780", exposition(1, 4, 0, 10, 300))
		p.town.set("10.0.0.9:9780", exposition(100, 100, 100, 1, 1)) // this process
		p.run(t)
		defer p.end()
		time.Sleep(time.Second)
		p.want(t, StrategyInflight, 24)
		p.want(t, StrategyDrain, 3) // 24 × 30 s ÷ (4 × 60 s)
		if e, ok := p.Elsewhere("acct", "orders"); !ok || e.Age > 2*time.Second || e != (Elsewhere{Replicas: 2, Handlers: 4, Slots: 8, Age: e.Age}) {
			t.Errorf("%+v, %t", e, ok)
		}
		if e, ok := p.Elsewhere("acct", "emails"); !ok || e != (Elsewhere{}) {
			t.Errorf("of a queue that nobody consumes: %+v, %t", e, ok)
		}
		if e, ok := New(Config{}).Elsewhere("acct", "orders"); ok {
			t.Errorf("without peers: %+v", e)
		}
		if p.town.asked["10.0.0.9:9780"] > 0 {
			t.Error("it asks itself")
		}

		// Handling gets slower: a hundred messages later it is known.
		p.town.set("10.0.0.1:9780", exposition(4, 4, 0, 1200, 30_000+200*60))
		time.Sleep(10 * time.Second)
		if a, err := p.Own("acct", "orders", StrategyDrain); err != nil || a.Value < 4 || a.Value > 6 {
			t.Errorf("%+v, %v", a, err)
		}
		// A consumer that starts anew counts from the beginning.
		p.town.set("10.0.0.1:9780", exposition(0, 4, 0, 5, 5))
		p.town.set("10.0.0.2:9780", "")
		time.Sleep(10 * time.Second)
		p.want(t, StrategyInflight, 20)

		// All of them are gone, and the name with them: nothing runs, and what they took is remembered.
		p.town.set("10.0.0.1:9780", "")
		p.town.set("10.0.0.9:9780", "")
		time.Sleep(10 * time.Second)
		p.want(t, StrategyInflight, 20)
		if mean, ok := p.mean(key{"acct", "orders"}); !ok || mean < 10*time.Second {
			t.Errorf("mean %v, %v", mean, ok)
		}
	})
}

func TestPeersThatDoNotAnswerAreUnknownInTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := startPeered(t)
		p.state.Count.Messages, p.state.Peek.Visible = 20, 20
		p.town.set("10.0.0.1:9780", exposition(3, 4, 0, 100, 3000))
		p.town.set("10.0.0.2:9780", exposition(2, 4, 0, 100, 3000))
		p.run(t)
		defer p.end()
		time.Sleep(time.Second)
		for name, text := range map[string]string{"it hangs": "hang", "it is busy": "503", "it says nonsense": "queue_processor_active_handlers{"} {
			p.town.set("10.0.0.2:9780", text)
			time.Sleep(25 * time.Second)
			p.want(t, StrategyInflight, 25) // what it said last
			time.Sleep(15 * time.Second)
			p.want(t, StrategyInflight, -1)
			if _, err := p.Own("acct", "orders", StrategyInflight); !strings.Contains(err.Error(), "peer 10.0.0.2:9780 does not answer") {
				t.Errorf("%s: %v", name, err)
			}
			// What waits calls for replicas all the same, and the rest is not taken away while nobody knows.
			p.want(t, StrategyDrain, 3)
			p.state.Peek.Visible = 0
			p.want(t, StrategyDrain, -1)
			p.want(t, StrategyVisible, 0)
			p.state.Peek.Visible = 20
			p.town.set("10.0.0.2:9780", exposition(2, 4, 0, 100, 3000))
			time.Sleep(11 * time.Second)
			p.want(t, StrategyInflight, 25)
		}
		// The resolver fails: those that were known are asked on, until the list is too old.
		p.town.fail(&net.DNSError{Err: "server misbehaving", IsTemporary: true})
		time.Sleep(25 * time.Second)
		p.want(t, StrategyInflight, 25)
		time.Sleep(15 * time.Second)
		p.want(t, StrategyInflight, -1)
		p.town.fail(nil)
		time.Sleep(11 * time.Second)
		p.want(t, StrategyInflight, 25)
	})
}

// What peers hide is not taken for a backlog, though a full peek cannot tell.
func TestPeersTellWhatTheyHide(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := startPeered(t)
		p.state.Count.Messages, p.state.Peek.Visible, p.state.Peek.Full = 500, 32, true
		p.town.set("10.0.0.1:9780", exposition(4, 4, 400, 100, 3000))
		p.run(t)
		defer p.end()
		time.Sleep(time.Second)
		p.want(t, StrategyAll, 500)
		p.want(t, StrategyVisible, 100)
		p.want(t, StrategyInflight, 104)
	})
}

// A consumer that is no qwatch may not know how its account is called here.
func TestPeersNeedNotNameTheAccount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := startPeered(t)
		p.town.set("10.0.0.1:9780", strings.ReplaceAll(exposition(3, 4, 0, 100, 3000), `account="acct",`, ""))
		p.town.set("10.0.0.2:9780", strings.ReplaceAll(exposition(7, 7, 0, 100, 3000), "orders", "emails"))
		p.run(t)
		defer p.end()
		time.Sleep(time.Second)
		p.want(t, StrategyInflight, 3)
		if mean, ok := p.mean(key{"acct", "orders"}); !ok || mean != 30*time.Second {
			t.Errorf("mean %v, %v", mean, ok)
		}
	})
}

func TestManyPeersThatHangDoNotHoldEachOtherUpForLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := startPeered(t)
		for i := range 100 {
			p.town.set(fmt.Sprintf("10.0.1.%d:9780", i), "hang")
		}
		begin := time.Now()
		p.cfg.Peers.round(t.Context())
		if took := time.Since(begin); took > roundTimeout {
			t.Errorf("a round took %v", took)
		}
	})
}

// Consumers in this process are learned from without a request.
func TestConsumersHereAreMeasured(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var n uint64
		var total time.Duration
		var mu sync.Mutex
		s := New(Config{
			State: func(_, _ string) (collector.QueueState, bool) { return collector.QueueState{}, false },
			Known: func(_, _ string) (Settings, bool) { return Settings{}, true },
			Local: func(_, _ string) (processor.Status, bool) { return processor.Status{Handlers: 2, MaxHandlers: 4}, true },
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = s.Run(ctx, func() []Consumer {
				return []Consumer{{"acct", "orders", func() (uint64, time.Duration) {
					mu.Lock()
					defer mu.Unlock()
					return n, total
				}}}
			})
		}()
		time.Sleep(6 * time.Second)
		if _, ok := s.mean(key{"acct", "orders"}); ok {
			t.Error("a mean of nothing")
		}
		mu.Lock()
		n, total = 10, 20*time.Second
		mu.Unlock()
		time.Sleep(6 * time.Second)
		if mean, ok := s.mean(key{"acct", "orders"}); !ok || mean != 2*time.Second {
			t.Errorf("mean %v, %v", mean, ok)
		}
		if w := s.running("acct", "orders", time.Now()); w.handlers != 2 || w.slots != 4 || w.replicas != 1 || !w.known {
			t.Errorf("%+v", w)
		}
		cancel()
		<-done
	})
}

func FuzzParseWork(f *testing.F) {
	f.Add(exposition(3, 4, 0, 100, 3000))
	f.Add("queue_processor_active_handlers{queue_name=\"q\"} NaN\n")
	f.Add("queue_processor_active_handlers{queue_name=\"q\"} -1e300\nqueue_processor_max_handlers{queue_name=\"q\"} 1e300\n")
	f.Add("# TYPE queue_message_processing_duration_seconds histogram\nqueue_message_processing_duration_seconds_sum{queue_name=\"q\"} 1e300\n")
	f.Fuzz(func(t *testing.T, text string) {
		queues, err := parseWork(strings.NewReader(text))
		if err != nil {
			return
		}
		for k, w := range queues {
			if k.queue == "" || w.handlers < 0 || w.slots < 0 || w.held < 0 || w.total < 0 {
				t.Errorf("%q: %+v", k, w)
			}
		}
	})
}

// Names that nobody watches, which an account with discovery lets through, leave nothing behind.
func TestQuestionsAboutNothingAreForgotten(t *testing.T) {
	t.Parallel()
	asked := 0
	s := New(Config{
		State: func(_, queue string) (collector.QueueState, bool) {
			return collector.QueueState{Account: "acct", Queue: queue}, queue == "orders"
		},
		Known: func(_, _ string) (Settings, bool) { return Settings{}, true },
		Asked: func(_, _ string) { asked++ },
	})
	for i := range 1000 {
		if _, err := s.Ask(t.Context(), "acct", fmt.Sprint("nothing-", i), StrategyAll); err == nil {
			t.Fatal("a value of nothing")
		}
	}
	if _, err := s.Ask(t.Context(), "acct", "orders", StrategyAll); err == nil {
		t.Fatal("a value before the first poll")
	}
	var ages []string
	s.Ages(func(_, queue string, age time.Duration) {
		if age < 0 || age > time.Hour {
			t.Errorf("%s: %v", queue, age)
		}
		ages = append(ages, queue)
	})
	if len(ages) != 1 || ages[0] != "orders" || asked != 1 {
		t.Errorf("ages of %q, told of %d questions", ages, asked)
	}
}
