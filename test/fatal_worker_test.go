package test_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/poison"
	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/test/peer"
)

// fatalEnv makes a process of the test binary a worker that one message kills; its value is Azurite's
// connection string.
const fatalEnv = "QWATCH_TEST_FATAL"

func fatalWorker() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := consumeFatal(ctx, os.Getenv(fatalEnv)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func consumeFatal(ctx context.Context, connectionString string) error {
	account, err := queue.NewAccount(queue.AccountConfig{Name: "test", ConnectionString: queue.Secret(connectionString)})
	if err != nil {
		return err
	}
	defer account.Close()
	q, err := account.Queue("orders", queue.Config{})
	if err != nil {
		return err
	}
	p, err := processor.New(q, processor.Typed(func(_ context.Context, job *processor.Job[body]) error {
		time.Sleep(100 * time.Millisecond)
		if job.Value.ID == "fatal-0" {
			die()
		}
		return nil
	}), processor.Config{
		Concurrency: 16, VisibilityTimeout: 2 * time.Second,
		EmptyBackoffMin: 100 * time.Millisecond, EmptyBackoffMax: 100 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	return p.Run(ctx)
}

// A message that kills the process again and again, beside fifteen others at a time, is the only one that
// ends on the poison queue.
func TestAFatalMessageIsQuarantinedAlone(t *testing.T) {
	azurite := peer.Azurite(t)
	orders := createQueue(t, openAccount(t, azurite), "orders")
	send(t, orders, bodies("before", 10, marker))
	send(t, orders, bodies("fatal", 1, marker))
	send(t, orders, bodies("after", 30, marker))
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}

	var starts atomic.Int64
	var worker atomic.Pointer[peer.Process]
	over, ended := make(chan struct{}), make(chan struct{})
	go func() { // what starts it again, as a supervisor does
		defer close(ended)
		for {
			cmd := exec.Command(program)
			cmd.Env = append(os.Environ(), fatalEnv+"="+azurite.ConnectionString())
			p := peer.Start(t, "worker", cmd)
			worker.Store(p)
			starts.Add(1)
			status := p.Wait(t, time.Minute)
			select {
			case <-over:
				if status != 0 {
					t.Errorf("exit status %d after SIGTERM", status)
				}
				return
			default:
			}
		}
	}()
	eventually(t, time.Minute, "the queue is empty", func() bool { return count(t, orders) == 0 })
	close(over)
	worker.Load().Signal(t, syscall.SIGTERM)
	<-ended

	if n := starts.Load(); n != 6 {
		t.Errorf("the worker was started %d times, want 6: five deaths", n)
	}
	listing, err := poison.List(t.Context(), orders)
	if err != nil {
		t.Fatal(err)
	}
	var quarantined []string
	for _, e := range listing.Entries {
		b, err := queue.Decode[body](e.Message())
		if err != nil || e.Category != poison.CategoryMaxDequeue || e.DequeueCount != 6 {
			t.Errorf("entry %+v, %v", e, err)
		}
		quarantined = append(quarantined, b.ID)
	}
	if diff := cmp.Diff([]string{"fatal-0"}, quarantined); diff != "" {
		t.Errorf("quarantined (-want +got):\n%s", diff)
	}
}
