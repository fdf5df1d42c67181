package app

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/qwatch/qwatch/queue"
)

// The states of a Depth.
const (
	DepthOK          = "ok"
	DepthMissing     = "missing"     // the service says the queue is not there
	DepthUnreachable = "unreachable" // the service could not be asked, or refused
)

// Depth is what one look at a queue and its poison queue saw. What is not known is nil,
// and absent from its JSON.
type Depth struct {
	Account              string   `json:"account"`
	Queue                string   `json:"queue"`
	Status               string   `json:"status"`
	ApproximateMessages  *int64   `json:"approximateMessages,omitempty"`
	Visible              *int     `json:"visible,omitempty"`
	VisibleSaturated     bool     `json:"visibleSaturated,omitempty"` // the peek was full: there may be more than Visible, and older ones
	OldestVisibleSeconds *float64 `json:"oldestVisibleSeconds,omitempty"`
	PoisonQueue          string   `json:"poisonQueue,omitempty"`
	PoisonMessages       *int64   `json:"poisonMessages,omitempty"`
	OldestPoisonSeconds  *float64 `json:"oldestPoisonSeconds,omitempty"`
	PoisonSaturated      bool     `json:"poisonSaturated,omitempty"` // the peek at the poison queue was full
	// PoisonSharedWith is the queue at which the numbers of the poison queue stand, where several share it: it was
	// looked at once, and sums count it once.
	PoisonSharedWith string `json:"poisonSharedWith,omitempty"`
	Error            string `json:"error,omitempty"`

	err error
}

// Err returns why the queue or its poison queue could not be read, or that it is missing: then it
// is a queue.ErrQueueNotFound.
func (d Depth) Err() error { return d.err }

// ErrNoAnswer is that storage did not answer within the time it was given.
var ErrNoAnswer = errors.New("no answer in time")

// atOnce is how many queues are looked at at a time.
const atOnce = 16

// Depths looks at every queue given, in that order: by count and peek, which change
// nothing. A queue that cannot be read says so in its own Depth. A poison queue that several share is looked at with the
// first of them. A look may take as long as given;
// once one took longer, no other queue of its account is waited for.
func Depths(ctx context.Context, queues []FleetQueue, patience time.Duration) []Depth {
	type account struct {
		ctx    context.Context
		giveUp context.CancelCauseFunc
	}
	accounts := map[string]account{}
	for _, q := range queues {
		if _, ok := accounts[q.Config.Account]; !ok {
			ctx, giveUp := context.WithCancelCause(ctx)
			defer giveUp(nil)
			accounts[q.Config.Account] = account{ctx, giveUp}
		}
	}
	depths := make([]Depth, len(queues))
	holders := poisonHolders(queues)
	var g errgroup.Group
	g.SetLimit(atOnce)
	for i, q := range queues {
		g.Go(func() error {
			a := accounts[q.Config.Account]
			ctx, cancel := context.WithTimeoutCause(a.ctx, patience, ErrNoAnswer)
			defer cancel()
			depths[i] = depthOf(ctx, q, holders[i])
			if errors.Is(depths[i].err, ErrNoAnswer) {
				a.giveUp(ErrNoAnswer)
			}
			return nil
		})
	}
	_ = g.Wait() // the errors are in the depths
	return depths
}

// DepthOf looks at one queue and its poison queue. When ctx ends meanwhile for ErrNoAnswer,
// that is the error.
func DepthOf(ctx context.Context, q FleetQueue) Depth { return depthOf(ctx, q, "") }

// poisonHolders returns, for each queue whose poison queue an earlier one has too, the name of the first that has it.
func poisonHolders(queues []FleetQueue) []string {
	holders := make([]string, len(queues))
	first := map[string]string{}
	for i, q := range queues {
		if q.Poison() == nil {
			continue
		}
		name := fullName(q.Config.Account, q.Poison().Name())
		if _, ok := first[name]; !ok {
			first[name] = q.Name()
			continue
		}
		holders[i] = first[name]
	}
	return holders
}

// depthOf is DepthOf, without a look at the poison queue when that is told with another queue.
func depthOf(ctx context.Context, q FleetQueue, holder string) Depth {
	d := Depth{Account: q.Config.Account, Queue: q.Name(), Status: DepthOK}
	count, visible, oldest, err := look(ctx, q.Queue, q.Config.CountsOnly)
	switch {
	case errors.Is(err, queue.ErrQueueNotFound):
		d.Status, d.err = DepthMissing, err
	case err != nil:
		d.fail(ctx, err)
	default:
		d.ApproximateMessages, d.Visible, d.OldestVisibleSeconds = &count, visible, oldest
		d.VisibleSaturated = full(visible)
	}
	p := q.Poison()
	if p == nil {
		return d
	}
	d.PoisonQueue, d.PoisonSharedWith = p.Name(), holder
	if holder != "" {
		return d
	}
	poisonCount, visible, oldest, err := look(ctx, p, q.Config.CountsOnly)
	switch {
	case errors.Is(err, queue.ErrQueueNotFound):
		d.PoisonMessages = new(int64) // nothing was ever poisoned
	case err != nil:
		d.fail(ctx, err)
	default:
		d.PoisonMessages, d.OldestPoisonSeconds, d.PoisonSaturated = &poisonCount, oldest, full(visible)
	}
	return d
}

// fail keeps the first thing that went wrong. A missing queue is less than that.
func (d *Depth) fail(ctx context.Context, err error) {
	if d.Error != "" {
		return
	}
	if cause := context.Cause(ctx); errors.Is(cause, ErrNoAnswer) {
		err = cause
	}
	d.Status, d.Error, d.err = DepthUnreachable, err.Error(), err
}

func full(visible *int) bool { return visible != nil && *visible == queue.MaxReceive }

// look asks for the count and peeks. visible and oldest are nil when countsOnly.
func look(ctx context.Context, q *queue.Queue, countsOnly bool) (count int64, visible *int, oldest *float64, err error) {
	props, err := q.Properties(ctx)
	if err != nil {
		return 0, nil, nil, err
	}
	if countsOnly {
		return props.ApproximateMessages, nil, nil, nil
	}
	// Counting must not fetch bodies from their store, nor unpack them.
	light, err := q.Account().Queue(q.Name(), queue.Config{NoPoison: true, MaxBodyBytes: 1})
	if err != nil {
		light = q // the account's URL names another queue
	}
	peeked, err := light.PeekPacked(ctx, queue.MaxReceive)
	if err != nil {
		return 0, nil, nil, err
	}
	n := len(peeked.Messages)
	var age time.Duration
	for _, m := range peeked.Messages {
		age = max(age, m.Age())
	}
	seconds := age.Seconds()
	return props.ApproximateMessages, &n, &seconds, nil
}
