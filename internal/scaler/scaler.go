// Package scaler answers KEDA: how many messages, or how many replicas, a queue calls for.
//
// It owns the strategies, what they need to know about consumers here and in other pods, KEDA's
// external scaler and gRPC health on one gRPC server, and the age of the signal. Every answer comes from
// what is known already: the collector's state, the processors', and what peers said last. No request of any
// kind calls storage, and what is not known is an error, never 0.
//
//go:generate go test -run ^TestSimulation$ . -update
package scaler

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/qwatch/qwatch/collector"
	"github.com/qwatch/qwatch/processor"
)

// callTimeout bounds every question, one that is forwarded included.
const callTimeout = 900 * time.Millisecond

// Settings are what the configuration says about a queue for `drain`, for as long as nothing was measured.
type Settings struct {
	// HandlingTime is how long one message takes. Default 0: not known.
	HandlingTime time.Duration
	// Concurrency is how many messages one replica handles at a time. Default 0: not known.
	Concurrency int
}

// Config says what a Scaler asks. State and Known are required.
type Config struct {
	// State returns what is known about a main queue; false when it is not watched here.
	State func(account, queue string) (collector.QueueState, bool)
	// Known says whether the queue is configured, or may be found by discovery, and what is set for it.
	Known func(account, queue string) (Settings, bool)
	// Local returns the status of the queue's consumer in this process; false when it has none. Nil: none has.
	Local func(account, queue string) (processor.Status, bool)
	// Asked is told of every question about a queue. It must be fast. Nil: nobody is told.
	Asked func(account, queue string)
	// Peers know the consumers in other processes. Nil: there are none, or nobody knows them.
	Peers *Peers
	// Forward asks whoever owns the queue; false: this process does. It must return within half a second.
	// Nil: this process owns every queue.
	Forward func(ctx context.Context, account, queue string, s Strategy) (Answer, bool, error)
	// Logger gets one line an incident. Nil discards.
	Logger *slog.Logger
}

// Scaler answers questions about queues. Its methods are safe for concurrent use.
type Scaler struct {
	cfg   Config
	log   *slog.Logger
	start time.Time

	mu       sync.Mutex
	handling map[key]*handling // of queues consumed here or by peers
	pruned   time.Time         // when what is not needed was last taken out of handling
	asked    map[key]question
}

type key struct{ account, queue string }

// question is the last one about a queue.
type question struct {
	at       time.Time
	strategy Strategy
}

// New returns a scaler. It makes no request; Run lets it learn how long handlers take.
func New(cfg Config) *Scaler {
	if cfg.Local == nil {
		cfg.Local = func(string, string) (processor.Status, bool) { return processor.Status{}, false }
	}
	if cfg.Asked == nil {
		cfg.Asked = func(string, string) {}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Scaler{
		cfg: cfg, log: cfg.Logger.With("component", "scaler"), start: time.Now(),
		handling: map[key]*handling{}, asked: map[key]question{},
	}
}

// Answer is what a strategy makes of a queue.
type Answer struct {
	Value     int64
	Strategy  Strategy
	Saturated bool // it may be more: the peek was full, or how long a message takes is not known
	Age       time.Duration
	Backlog   int64 // of StrategyDrain: the messages that Value replicas are for
}

// Active says whether the queue calls for at least one replica: more than activation messages.
func (a Answer) Active(activation float64) bool {
	n := a.Value
	if a.Strategy == StrategyDrain {
		n = a.Backlog // a threshold in messages means messages
	}
	return float64(n) > activation
}

// Kind tells errors apart.
type Kind int

// The kinds of errors.
const (
	Unknown       Kind = iota + 1 // it cannot be told now
	NotConfigured                 // nobody watches such a queue
	BadRequest                    // the question makes no sense
)

// Error is why there is no answer.
type Error struct {
	Kind Kind
	Text string
}

// Error implements error.
func (e *Error) Error() string { return e.Text }

func failed(k Kind, format string, args ...any) *Error {
	return &Error{k, fmt.Sprintf(format, args...)}
}

// Ask answers for a queue. Errors are *Error. It returns within a second.
func (s *Scaler) Ask(ctx context.Context, account, queue string, strategy Strategy) (Answer, error) {
	if _, ok := s.cfg.Known(account, queue); !ok {
		return Answer{}, failed(NotConfigured, "queue %s/%s is not configured", account, queue)
	}
	if s.cfg.Forward != nil {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		if a, forwarded, err := s.cfg.Forward(ctx, account, queue, strategy); forwarded {
			return a, err
		}
	}
	return s.Own(account, queue, strategy)
}

// Own is Ask for a queue that this process watches itself.
func (s *Scaler) Own(account, queue string, strategy Strategy) (Answer, error) {
	settings, ok := s.cfg.Known(account, queue)
	if !ok {
		return Answer{}, failed(NotConfigured, "queue %s/%s is not configured", account, queue)
	}
	now := time.Now()
	state, ok := s.cfg.State(account, queue)
	if !ok {
		return Answer{}, failed(Unknown, "queue %s/%s is not watched yet: discovery has not found it", account, queue)
	}
	s.note(key{account, queue}, question{now, strategy}) // of what is watched only: names are anybody's
	s.cfg.Asked(account, queue)
	a, err := decide(strategy, s.facts(state, settings, now))
	if err != nil {
		return Answer{}, failed(Unknown, "queue %s/%s: %s", account, queue, err)
	}
	return a, nil
}

// facts is what is known about a queue now.
func (s *Scaler) facts(state collector.QueueState, settings Settings, now time.Time) facts {
	f := facts{
		count: state.Count, peek: state.Peek, hidden: state.KnownHidden(), reason: reasonOf(state),
		running: s.running(state.Account, state.Queue, now), objective: state.Objective,
		handling: settings.HandlingTime, concurrency: settings.Concurrency, now: now,
	}
	f.hidden = max(f.hidden, int64(max(state.Held, 0)+f.running.heldElsewhere))
	if mean, ok := s.mean(key{state.Account, state.Queue}); ok {
		f.handling = mean
	}
	if f.running.replicas > 0 {
		f.concurrency = max(1, (f.running.slots+f.running.replicas-1)/f.running.replicas)
	}
	f.concurrency = max(1, f.concurrency)
	return f
}

// reasonOf says why a queue's numbers are missing.
func reasonOf(s collector.QueueState) string {
	switch {
	case s.Exists == collector.No:
		return "the queue does not exist"
	case s.LastPoll.IsZero():
		return "it has not been polled yet"
	case s.LastSuccess.IsZero():
		return "no poll has succeeded yet"
	case s.Reason != "":
		return "the last poll failed (" + string(s.Reason) + "), and what was known is older than " + s.StaleAfter.String()
	default:
		return "what was known is older than " + s.StaleAfter.String()
	}
}

// workers is what is known about a queue's consumers, here and elsewhere.
type workers struct {
	known         bool // false: peers are configured, and what they do is not known
	why           string
	age           time.Duration // of what peers said
	replicas      int           // with a consumer of the queue
	handlers      int           // running
	slots         int           // how many could run
	heldElsewhere int           // messages that peers hide: their leases and retry delays
}

func (s *Scaler) running(account, queue string, now time.Time) workers {
	w := workers{known: true}
	if s.cfg.Peers != nil {
		w = s.cfg.Peers.workers(key{account, queue}, now)
	}
	if p, ok := s.cfg.Local(account, queue); ok {
		w.replicas++
		w.handlers += p.Handlers
		w.slots += p.MaxHandlers
	}
	return w
}

// forgetAfter is how long a queue nobody asks about keeps its signal age.
const forgetAfter = 10 * time.Minute

func (s *Scaler) note(k key, q question) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[k] = q
}

// Ages reports the age of what each queue's answers rest on: of the queues asked about within the last
// ten minutes. It grows for as long as nothing new is learned.
func (s *Scaler) Ages(report func(account, queue string, age time.Duration)) {
	now := time.Now()
	s.mu.Lock()
	questions := make(map[key]question, len(s.asked))
	for k, q := range s.asked {
		if now.Sub(q.at) > forgetAfter {
			delete(s.asked, k)
			continue
		}
		questions[k] = q
	}
	s.mu.Unlock()
	for k, q := range questions {
		age := now.Sub(s.start)
		if state, ok := s.cfg.State(k.account, k.queue); ok {
			settings, _ := s.cfg.Known(k.account, k.queue)
			if a, err := decide(q.strategy, s.facts(state, settings, now)); err == nil {
				age = a.Age
			} else if !state.LastSuccess.IsZero() {
				age = now.Sub(state.LastSuccess)
			}
		}
		report(k.account, k.queue, age)
	}
}
