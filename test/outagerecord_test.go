package test_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/test/peer"
)

// An outage uses up what two processes allow their messages. A third, that starts when it is over, spares them by what
// the first two have left in the queue's metadata, and dead-letters them where that is off.
func TestAnOutageIsKnownToAProcessStartedAfterIt(t *testing.T) {
	for name, tt := range map[string]struct {
		private bool
		poison  int
	}{
		"from the metadata": {false, 0},
		"not at all":        {true, 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			azurite := peer.Azurite(t)
			account := openAccount(t, azurite)
			orders := createQueue(t, account, "orders")
			if err := orders.SetMetadata(t.Context(), map[string]string{"ownerTeam": "mail"}); err != nil {
				t.Fatal(err)
			}
			send(t, orders, bodies("order", 4, marker))
			cfg := processor.Config{
				MaxDequeueCount: 2, Retry: processor.RetryConfig{Initial: time.Second, Max: time.Second},
				EmptyBackoffMin: 100 * time.Millisecond, EmptyBackoffMax: 100 * time.Millisecond,
				Breaker: processor.BreakerConfig{After: processor.Off, MaxPause: time.Second, NoRecord: tt.private},
			}
			consume := func(d time.Duration, processes int, handler processor.HandlerFunc) {
				ctx, stop := context.WithTimeout(t.Context(), d)
				defer stop()
				ended := make(chan error)
				for range processes {
					q, err := openAccount(t, azurite).Queue("orders", queue.Config{})
					if err != nil {
						t.Fatal(err)
					}
					p, err := processor.New(q, handler, cfg)
					if err != nil {
						t.Fatal(err)
					}
					go func() { ended <- p.Run(ctx) }()
				}
				for range processes {
					if err := <-ended; err != nil {
						t.Error(err)
					}
				}
			}
			consume(10*time.Second, 2, func(context.Context, *processor.Message) error {
				return processor.Unavailable(errors.New("the shop is shut"))
			})
			if n := count(t, orders); n != 4 {
				t.Fatalf("%d messages left by the outage, want 4", n)
			}
			time.Sleep(2 * time.Second) // the last retry delays
			seen, err := orders.Peek(t.Context(), 32)
			if err != nil || len(seen.Messages) != 4 {
				t.Fatalf("%d messages, error %v", len(seen.Messages), err)
			}
			for _, m := range seen.Messages {
				if m.DequeueCount < 2 {
					t.Errorf("a message was delivered %d times only", m.DequeueCount)
				}
			}
			consume(8*time.Second, 1, func(context.Context, *processor.Message) error { return nil })
			if n := count(t, orders); n != 0 {
				t.Errorf("%d messages left", n)
			}
			if n := len(drain(t, orders.Poison())); n != tt.poison {
				t.Errorf("%d messages on the poison queue, want %d", n, tt.poison)
			}
			got, err := orders.NamedMetadata(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got["ownerTeam"] != "mail" || (got[processor.MetadataOutage] == "") != tt.private {
				t.Errorf("metadata %v", got)
			}
		})
	}
}
