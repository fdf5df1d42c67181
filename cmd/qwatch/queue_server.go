package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/qwatch/qwatch/internal/app"
	"github.com/qwatch/qwatch/internal/client"
	"github.com/qwatch/qwatch/queue"
)

// watchedQueue is what a running qwatch knows of a queue, as far as the commands show it.
type watchedQueue struct {
	Account        string        `json:"account"`
	Queue          string        `json:"queue"`
	Mode           string        `json:"mode"`
	StorageAccount string        `json:"storageAccount"`
	Team           string        `json:"team"`
	Tier           int           `json:"tier"`
	Main           *watchedState `json:"main"`
	Poison         *watchedState `json:"poison"`
}

type watchedState struct {
	Name         string   `json:"name"`
	Status       string   `json:"status"`
	StatusRule   string   `json:"statusRule"`
	StatusSince  string   `json:"statusSince"`
	DrainSeconds *float64 `json:"drainSeconds"`
	LossSeconds  *float64 `json:"lossSeconds"`

	Up       *bool          `json:"up"`
	Exists   *bool          `json:"exists"`
	Error    string         `json:"error"`
	Messages *watchedNumber `json:"approximateMessages"`
	Visible  *watchedNumber `json:"visible"`
	Oldest   *watchedNumber `json:"oldestVisibleAgeSeconds"`
	Success  *float64       `json:"lastSuccessAgeSeconds"`
}

type watchedNumber struct {
	Value     float64 `json:"value"`
	Saturated bool    `json:"saturated"`
	Floor     bool    `json:"floor"`
}

// depthUnknown is the status of a queue that was not polled yet.
const depthUnknown = "unknown"

// depth is what it knows in the form of a look of one's own. The error says why it knows less.
func (w watchedQueue) depth() (app.Depth, error) {
	d := app.Depth{Account: w.Account, Queue: w.Queue, Status: app.DepthOK}
	var err error
	known := w.Main
	if known == nil && w.Poison != nil { // the poison queue is all that is left
		known = w.Poison
	}
	switch m := known; {
	case m == nil || m.Up == nil && m.Exists == nil:
		d.Status = depthUnknown
		err = errors.New("it was not polled yet")
	case w.Main != nil && m.Exists != nil && !*m.Exists:
		d.Status = app.DepthMissing
		err = queue.ErrQueueNotFound
	case m.Up != nil && !*m.Up:
		d.Status, d.Error = app.DepthUnreachable, m.Error
		err = errors.New(m.Error)
	}
	if m := w.Main; m != nil {
		d.ApproximateMessages = whole(m.Messages)
		if m.Visible != nil {
			d.Visible, d.VisibleSaturated = new(int(m.Visible.Value)), m.Visible.Saturated
		}
		if m.Oldest != nil {
			d.OldestVisibleSeconds = &m.Oldest.Value
		}
	}
	if p := w.Poison; p != nil {
		d.PoisonQueue, d.PoisonMessages = p.Name, whole(p.Messages)
		if p.Exists != nil && !*p.Exists {
			d.PoisonMessages = new(int64) // nothing was ever poisoned
		}
		if p.Oldest != nil {
			d.OldestPoisonSeconds, d.PoisonSaturated = &p.Oldest.Value, p.Oldest.Floor
		}
	}
	return d, err
}

func whole(n *watchedNumber) *int64 {
	if n == nil {
		return nil
	}
	return new(int64(n.Value))
}

// listOnServer is `queue list --server`: what the server knows already; storage is not asked.
func (c *cli) listOnServer(ctx context.Context, cl *client.Client, accounts []string) error {
	var answer struct {
		Queues []watchedQueue `json:"queues"`
	}
	if err := cl.Queues(ctx, &answer); err != nil {
		return err
	}
	list, found := []judged{}, len(accounts) == 0
	var failed error
	for _, w := range answer.Queues {
		if len(accounts) > 0 && w.Account != accounts[0] {
			continue
		}
		found = true
		d, err := w.depth()
		if err != nil {
			failed = errReported
			fmt.Fprintf(c.stderr, "qwatch: %s/%s: %s\n", clean(d.Account), clean(d.Queue), clean(err.Error()))
		}
		list = append(list, judged{d, w.trend()})
	}
	if !found {
		return usagef("the server watches no account %q", accounts[0])
	}
	if err := printList(c, list, depthTable); err != nil {
		return err
	}
	return failed
}

func (w watchedQueue) trend() *trend {
	if w.Main == nil {
		return nil
	}
	t := &trend{
		Status: w.Main.Status, StatusRule: w.Main.StatusRule, StatusSince: w.Main.StatusSince,
		DrainSeconds: w.Main.DrainSeconds, LossSeconds: w.Main.LossSeconds,
	}
	if p := w.Poison; p != nil {
		t.PoisonStatus, t.PoisonLossSeconds = p.Status, p.LossSeconds
	}
	return t
}

// watchedDescription is what `queue show --server` prints.
type watchedDescription struct {
	judged

	Mode              string   `json:"mode"`
	StorageAccount    string   `json:"storageAccount"`
	Team              string   `json:"team,omitempty"`
	Tier              int      `json:"tier,omitempty"`
	LastSuccessAgeSec *float64 `json:"lastSuccessAgeSeconds,omitempty"`
}

// showOnServer is `queue show --server`.
func (c *cli) showOnServer(ctx context.Context, cl *client.Client, account, name string) error {
	var w watchedQueue
	if err := cl.Queue(ctx, account, name, &w); err != nil {
		return err
	}
	depth, unknown := w.depth()
	d := watchedDescription{judged: judged{depth, w.trend()}, Mode: w.Mode, StorageAccount: w.StorageAccount, Team: w.Team, Tier: w.Tier}
	if w.Main != nil {
		d.LastSuccessAgeSec = w.Main.Success
	}
	if err := c.printOne(d, d.text); err != nil {
		return err
	}
	if unknown != nil {
		return fmt.Errorf("%s/%s: %w", account, name, unknown)
	}
	return nil
}

func (d watchedDescription) text(w io.Writer) {
	tw, line := queueLines(w, d.judged, d.Mode, d.StorageAccount)
	if s := d.LastSuccessAgeSec; s != nil {
		line("last polled", brief(time.Duration(*s*float64(time.Second)))+" ago")
	}
	_ = tw.Flush() // into memory
}
