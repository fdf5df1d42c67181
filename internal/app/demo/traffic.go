package demo

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/qwatch/qwatch/queue"
)

// body is what the demo's producers send.
type body struct {
	Number   int       `json:"number"`
	Customer string    `json:"customer"`
	Amount   float64   `json:"amount"`
	At       time.Time `json:"at"`
}

var customers = [...]string{"Ada", "Björk", "Chidi", "Dolores", "Eun-ji", "Farid", "Grace", "Hiro"}

// mangled are bodies that no reader of these queues can read: an envelope of a version
// yet to come, and one that breaks the rules.
var mangled = [...]string{
	`{"$azqs-envelope":9,"body":{"number":1}}`,
	`{"$azqs-envelope":1,"body":{"number":1},"body64":"eyJudW1iZXIiOjF9"}`,
}

// producer sends one character's messages.
type producer struct {
	character
	when troubles
	q    *queue.Queue
	now  func() time.Time
	dice *dice
	sent int
}

// run sends until ctx ends. A send that fails is left out: the next one is near.
func (p *producer) run(ctx context.Context) error {
	if p.every == 0 {
		return nil
	}
	// Bursts start soon, so that there is something to see.
	wait := time.NewTimer(min(p.every, 2*time.Second))
	defer wait.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-wait.C:
		}
		p.burstOf(ctx, p.burst)
		wait.Reset(p.every)
	}
}

func (p *producer) burstOf(ctx context.Context, n int) {
	var g errgroup.Group
	g.SetLimit(8)
	for range n {
		p.sent++
		number := p.sent
		g.Go(func() error {
			_ = p.send(ctx, number) // left out, as run says
			return nil
		})
	}
	_ = g.Wait()
}

func (p *producer) send(ctx context.Context, number int) error {
	opts := queue.SendOptions{Delay: p.delay}
	if p.dice.chance(p.when.now(p.character).mangled) {
		_, err := p.q.SendText(ctx, mangled[p.dice.n(len(mangled))], opts)
		return err
	}
	if p.dice.chance(0.2) {
		opts.Headers = map[string]string{"tenant": "north", "priority": "high"}
	}
	_, err := p.q.Send(ctx, body{
		Number: number, Customer: customers[p.dice.n(len(customers))],
		Amount: float64(p.dice.n(100000)) / 100, At: p.now().UTC().Truncate(time.Millisecond),
	}, opts)
	return err
}
