package queuetest

import (
	"context"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// Op says what a request is about.
type Op struct {
	Account, Queue string // "" if the request names none
	Operation      Operation
}

// Fault is something that goes wrong with the requests it matches. What it does happens
// in the order of the fields below; the zero Fault does nothing. A request meets at most
// one fault: the first injected one that matches and still has some Times left.
type Fault struct {
	// Account, Queue and Operation choose requests; an empty one matches all.
	Account, Queue string
	Operation      Operation
	// Match, if set, must be true as well. It may be called concurrently.
	Match func(Op) bool

	// Skip lets that many matching requests pass first.
	Skip int
	// Times is how many requests meet the fault after that; 0 is all until it is removed.
	Times int

	// Delay passes before the request is looked at.
	Delay time.Duration
	// Hang keeps the request until its context is done, which it then answers like a
	// client would, or until the fault is removed, after which it goes on.
	Hang bool
	// Refuse fails the request like a closed port. Over a socket the connection breaks.
	Refuse bool
	// Status, with Code, answers instead of the service. Default with a Code,
	// CommitThenFail or RetryAfter: 500, or 503 with RetryAfter.
	Status int
	// Code is the service's error code. Default: ServerBusy for 503 and 429,
	// OperationTimedOut for 408 and 504, else InternalError.
	Code string
	// RetryAfter adds a Retry-After header of whole seconds, rounded up.
	RetryAfter time.Duration
	// CommitThenFail carries the request out before it is answered with Status.
	CommitThenFail bool
	// DropResponse carries the request out, then breaks the connection.
	DropResponse bool
	// Truncate breaks the connection amid the response's body.
	Truncate bool
}

// Busy is the fault of a throttled account: 503 ServerBusy, with a Retry-After header
// unless after is 0.
func Busy(after time.Duration) Fault {
	return Fault{Status: http.StatusServiceUnavailable, RetryAfter: after}
}

// fault is an injected Fault.
type fault struct {
	Fault
	seen    atomic.Int64
	removed chan struct{}
}

// Inject makes requests meet f from now on, until it is used up or removed. Removing it
// twice does nothing.
func (s *Server) Inject(f Fault) (remove func()) {
	in := &fault{Fault: f, removed: make(chan struct{})}
	s.faultMu.Lock()
	defer s.faultMu.Unlock()
	var all []*fault
	if old := s.faults.Load(); old != nil {
		all = append(all, *old...)
	}
	all = append(all, in)
	s.faults.Store(&all)
	return func() { s.remove1(in) }
}

// RemoveFaults removes all faults.
func (s *Server) RemoveFaults() {
	for {
		all := s.faults.Load()
		if all == nil {
			return
		}
		s.remove1((*all)[0])
	}
}

func (s *Server) remove1(f *fault) {
	s.faultMu.Lock()
	defer s.faultMu.Unlock()
	old := s.faults.Load()
	if old == nil {
		return
	}
	var rest []*fault
	for _, o := range *old {
		if o == f {
			close(f.removed)
			continue
		}
		rest = append(rest, o)
	}
	if rest == nil {
		s.faults.Store(nil)
	} else {
		s.faults.Store(&rest)
	}
}

// match returns the fault that the request meets, or nil.
func (s *Server) match(c *call) *fault {
	all := s.faults.Load()
	if all == nil {
		return nil
	}
	op := Op{Account: c.account, Queue: c.queue, Operation: c.operation()}
	for _, f := range *all {
		if f.meets(op) {
			return f
		}
	}
	return nil
}

func (f *fault) meets(op Op) bool {
	if f.Account != "" && f.Account != op.Account ||
		f.Queue != "" && f.Queue != op.Queue ||
		f.Operation != "" && f.Operation != op.Operation ||
		f.Match != nil && !f.Match(op) {
		return false
	}
	n := int(f.seen.Add(1)) - f.Skip
	return n > 0 && (f.Times == 0 || n <= f.Times)
}

// wait carries out the delay and the hang.
func (f *fault) wait(ctx context.Context) error {
	if f.Delay > 0 {
		t := time.NewTimer(f.Delay)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if f.Hang {
		select {
		case <-f.removed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// fails reports whether the answer is an error of the fault's.
func (f *fault) fails() bool {
	return f != nil && (f.Status != 0 || f.Code != "" || f.RetryAfter != 0 || f.CommitThenFail)
}

// instead reports whether the request is answered with an error without happening.
func (f *fault) instead() bool { return f.fails() && !f.CommitThenFail }

// after reports whether it is answered with an error though it happens.
func (f *fault) after() bool { return f.fails() && f.CommitThenFail }

func (f *fault) failure() *failure {
	out := &failure{status: f.Status, code: f.Code}
	if out.status == 0 {
		out.status = http.StatusInternalServerError
		if f.RetryAfter > 0 {
			out.status = http.StatusServiceUnavailable
		}
	}
	if out.code == "" {
		switch out.status {
		case http.StatusServiceUnavailable, http.StatusTooManyRequests:
			out.code = "ServerBusy"
		case http.StatusRequestTimeout, http.StatusGatewayTimeout:
			out.code = "OperationTimedOut"
		default:
			out.code = "InternalError"
		}
	}
	if f.RetryAfter > 0 {
		seconds := (f.RetryAfter + time.Second - 1) / time.Second
		out.headers = []pair{{"Retry-After", strconv.FormatInt(int64(seconds), 10)}}
	}
	return out
}
