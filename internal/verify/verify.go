// Package verify rehearses on a storage account what its users rely on: that a crashed worker's message comes
// back, that a renewed lease holds, that retries end in quarantine and can be seen, and that no crash window
// loses work or does it twice. It uses temporary queues of its own, and removes them.
package verify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/qwatch/qwatch/queue"
)

const defaultTimeout = time.Minute

// Options tune a rehearsal. The zero value is usable.
type Options struct {
	// Lease is the visibility timeout that the checks use: short, so that they end soon. Default 2 s.
	Lease time.Duration
	// Timeout bounds every check. Default 1 min. All of them, with the search for leftovers, take three times
	// as long at most, and the clean-up 30 s.
	Timeout time.Duration
	// Notice is told what happens besides: leftovers that are removed, and queues that are not.
	Notice func(string)
	// Over is told of each outcome when it is there, perhaps by several checks at a time. Nil: nobody is.
	Over func(Outcome)
	// Logger gets what the parts under test have to say. Nil discards.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.Lease == 0 {
		o.Lease = 2 * time.Second
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if o.Notice == nil {
		o.Notice = func(string) {}
	}
	if o.Over == nil {
		o.Over = func(Outcome) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Outcome is how a check ended.
type Outcome struct {
	Account string  `json:"account"`
	Check   string  `json:"check"`
	Expects string  `json:"expects"`
	OK      bool    `json:"ok"`
	Saw     string  `json:"saw,omitempty"` // the evidence
	Error   string  `json:"error,omitempty"`
	Seconds float64 `json:"seconds"`
}

// Checks lists what is rehearsed, in the order of the outcomes: name and expectation.
func Checks() [][2]string {
	all := make([][2]string, 0, len(checks()))
	for _, c := range checks() {
		all = append(all, [2]string{c.name, c.expects})
	}
	return all
}

// Run rehearses everything on the account, side by side, each check on a queue of its own. Whatever happens,
// the context's end included, it removes its queues before it returns; and at the beginning those that a run
// which was killed left behind. The error tells why nothing could be rehearsed, or what could not be removed;
// a check that fails is an outcome.
func Run(ctx context.Context, acct *queue.Account, o Options) (outcomes []Outcome, err error) {
	o = o.withDefaults()
	whole := ctx
	ctx, cancel := context.WithTimeoutCause(ctx, 3*o.Timeout, fmt.Errorf("it was not over within %v", 3*o.Timeout))
	defer cancel()
	if err := sweep(ctx, acct, o.Notice); err != nil {
		return nil, err
	}
	all := checks()
	outcomes = make([]Outcome, len(all))
	t := newTemporary(acct)
	defer func() {
		if left := t.remove(ctx); left != nil {
			err = errors.Join(err, left)
		}
	}()
	var running sync.WaitGroup
	for i, c := range all {
		running.Go(func() {
			outcomes[i] = t.rehearse(ctx, i, c, o)
			o.Over(outcomes[i])
		})
	}
	running.Wait()
	if err := whole.Err(); err != nil {
		return outcomes, err
	}
	return outcomes, context.Cause(ctx)
}

// rehearse runs one check.
func (t *temporary) rehearse(ctx context.Context, i int, c check, o Options) (out Outcome) {
	start := time.Now()
	out = Outcome{Account: t.acct.Name(), Check: c.name, Expects: c.expects}
	defer func() { out.Seconds = time.Since(start).Round(time.Millisecond).Seconds() }()
	ctx, cancel := context.WithTimeoutCause(ctx, o.Timeout, fmt.Errorf("it was not over within %v", o.Timeout))
	defer cancel()
	q, err := t.create(ctx, i)
	if err == nil {
		out.Saw, err = c.run(ctx, stage{q: q, Options: o})
	}
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	out.OK = err == nil
	if err != nil {
		out.Error = err.Error()
	}
	return out
}
