package web

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"
)

// errEnding is why work that was not over is cut short.
var errEnding = errors.New("qwatch is ending")

// Work is what requests of operators have storage do at the moment, so that a process which ends can have
// it end cleanly and wait for it. The zero value is ready. Safe for concurrent use.
type Work struct {
	mu      sync.Mutex
	ended   bool
	running map[*piece]struct{}
	over    chan struct{} // closed once it has ended and nothing runs; nil: nobody waits yet
}

// piece is the work of one request.
type piece struct {
	cancel context.CancelCauseFunc
	unread func() // has a read of the request's body fail that waits for the client
}

// End cancels what runs and refuses what comes, then waits until nothing runs any more: each piece of work
// ends at its next step, gives back the messages it holds, writes its line of the audit log and answers.
// Calling it again waits again. The error is the context's, when that ends first.
func (w *Work) End(ctx context.Context) error {
	w.mu.Lock()
	w.ended = true
	if w.over == nil {
		w.over = make(chan struct{})
		w.settle()
	}
	for p := range w.running {
		p.cancel(errEnding)
		p.unread()
	}
	over := w.over
	w.mu.Unlock()
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// begin notes a request's work; r is to be used in place of the request, and done to be called when it is
// over. Not ok: the end has begun.
func (w *Work) begin(rw http.ResponseWriter, r *http.Request) (_ *http.Request, done func(), ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return r, nil, false
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	p := &piece{cancel: cancel, unread: func() {
		_ = http.NewResponseController(rw).SetReadDeadline(time.Unix(1, 0)) // where there is none, nothing is read from afar
	}}
	if w.running == nil {
		w.running = map[*piece]struct{}{}
	}
	w.running[p] = struct{}{}
	return r.WithContext(ctx), func() {
		cancel(nil)
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.running, p)
		w.settle()
	}, true
}

// settle tells those who wait, once nothing runs. mu is held.
func (w *Work) settle() {
	if w.ended && w.over != nil && len(w.running) == 0 {
		select {
		case <-w.over:
		default:
			close(w.over)
		}
	}
}
