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
	VisibleIsFloor       bool     `json:"visibleIsFloor,omitempty"` // there may be more than Visible
	OldestVisibleSeconds *float64 `json:"oldestVisibleSeconds,omitempty"`
	PoisonQueue          string   `json:"poisonQueue,omitempty"`
	PoisonMessages       *int64   `json:"poisonMessages,omitempty"`
	OldestPoisonSeconds  *float64 `json:"oldestPoisonSeconds,omitempty"`
	Error                string   `json:"error,omitempty"`
}

// atOnce is how many queues are looked at at a time.
const atOnce = 16

// Depths looks at every queue given, in that order: by count and peek, which change
// nothing. A queue that cannot be read says so in its own Depth.
func Depths(ctx context.Context, queues []FleetQueue) []Depth {
	depths := make([]Depth, len(queues))
	var g errgroup.Group
	g.SetLimit(atOnce)
	for i, q := range queues {
		g.Go(func() error {
			depths[i] = DepthOf(ctx, q)
			return nil
		})
	}
	_ = g.Wait() // the errors are in the depths
	return depths
}

// DepthOf looks at one queue and its poison queue.
func DepthOf(ctx context.Context, q FleetQueue) Depth {
	d := Depth{Account: q.Config.Account, Queue: q.Name(), Status: DepthOK}
	count, visible, oldest, err := look(ctx, q.Queue, q.Config.CountsOnly)
	switch {
	case errors.Is(err, queue.ErrQueueNotFound):
		d.Status = DepthMissing
	case err != nil:
		d.Status, d.Error = DepthUnreachable, err.Error()
	default:
		d.ApproximateMessages, d.Visible, d.OldestVisibleSeconds = &count, visible, oldest
		d.VisibleIsFloor = visible != nil && *visible == queue.MaxReceive
	}
	p := q.Poison()
	if p == nil {
		return d
	}
	d.PoisonQueue = p.Name()
	poisonCount, _, oldest, err := look(ctx, p, q.Config.CountsOnly)
	switch {
	case errors.Is(err, queue.ErrQueueNotFound):
		d.PoisonMessages = new(int64) // nothing was ever poisoned
	case err != nil:
		if d.Error == "" {
			d.Status, d.Error = DepthUnreachable, err.Error()
		}
	default:
		d.PoisonMessages, d.OldestPoisonSeconds = &poisonCount, oldest
	}
	return d
}

// look asks for the count and peeks. visible and oldest are nil when countsOnly.
func look(ctx context.Context, q *queue.Queue, countsOnly bool) (count int64, visible *int, oldest *float64, err error) {
	props, err := q.Properties(ctx)
	if err != nil {
		return 0, nil, nil, err
	}
	if countsOnly {
		return props.ApproximateMessages, nil, nil, nil
	}
	peeked, err := q.Peek(ctx, queue.MaxReceive)
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
