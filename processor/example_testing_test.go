package processor_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// charge stands for the code under test: it fails while the bank is away.
func charge(away time.Time) processor.Handler {
	return processor.Typed(func(context.Context, *processor.Job[string]) error {
		if time.Now().Before(away) {
			return errors.New("the bank is away")
		}
		return nil
	})
}

// In your package this is a test: func TestChargesAreRetried(t *testing.T).
func chargesAreRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // time moves when everything waits
		srv := queuetest.New(queuetest.Options{})
		account, err := queue.NewAccount(queue.AccountConfig{
			Name:             "shop",
			ConnectionString: queue.Secret(srv.ConnectionString()),
			Transport:        srv, // no socket, or the bubble's time would stand still
		})
		if err != nil {
			t.Fatal(err)
		}
		charges, err := account.Queue("charges", queue.Config{CreateIfMissing: true})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := charges.Send(t.Context(), "order 42", queue.SendOptions{}); err != nil {
			t.Fatal(err)
		}
		p, err := processor.New(charges, charge(time.Now().Add(10*time.Second)), processor.Config{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Minute) // of fake time: milliseconds
		defer stop()
		if err := p.Run(ctx); err != nil {
			t.Error(err)
		}
		if n := srv.Len(queuetest.AccountName, "charges"); n != 0 {
			t.Errorf("%d messages are left", n)
		}
		if n := srv.Len(queuetest.AccountName, "charges-poison"); n != 0 {
			t.Errorf("%d messages were given up", n)
		}
	})
}

// A handler is tested with its retries, in the time of a testing/synctest bubble: ten minutes take milliseconds.
func Example_testing() {
	all := func(string, string) (bool, error) { return true, nil }
	ok := testing.RunTests(all, []testing.InternalTest{{Name: "TestChargesAreRetried", F: chargesAreRetried}}) // go test does this
	fmt.Println("passed:", ok)
	// Output:
	// passed: true
}
