package processor_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// large is an envelope of some kilobytes whose body decompresses to n bytes.
func large(t *testing.T, n int) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(make([]byte, n)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return `{"$azqs-envelope":1,"encoding":"gzip","body64":"` + base64.StdEncoding.EncodeToString(b.Bytes()) + `"}`
}

// Bodies that decompress a thousandfold wait for each other: a receive of 32 of them would fill half a
// gigabyte.
func TestLargeBodiesAreUnpackedAFewAtATime(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		const size, messages = 15 << 20, 24
		text := large(t, size)
		for range messages {
			if _, err := r.q.SendText(t.Context(), text, queue.SendOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		var now, most, handled atomic.Int64
		p := r.start(processor.Config{Concurrency: 32}, processor.HandlerFunc(func(_ context.Context, m *processor.Message) error {
			n := now.Add(1)
			for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
			}
			time.Sleep(10 * time.Second)
			now.Add(-1)
			if len(m.Body) == size {
				handled.Add(1)
			}
			return nil
		}))
		time.Sleep(2 * time.Minute) // six at a time would be over sooner than the leases
		p.stop()
		if err := <-p.done; err != nil {
			t.Error(err)
		}
		if handled.Load() != messages || most.Load() > 4 || r.srv.Len(queuetest.AccountName, "orders") != 0 {
			t.Errorf("%d handled, %d at once, %d left", handled.Load(), most.Load(), r.srv.Len(queuetest.AccountName, "orders"))
		}
	})
}

// A process that such bodies kill leaves them to the next one, which must not decompress them again before
// it looks at how often they were delivered.
func TestWhatWasDeliveredTooOftenIsNotUnpacked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, queue.Config{})
		text := large(t, 15<<20)
		for range 32 {
			if _, err := r.q.SendText(t.Context(), text, queue.SendOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		for range 3 { // deliveries of a process that died of them
			if _, err := r.q.ReceivePacked(t.Context(), 32, time.Second); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		p := r.start(processor.Config{Concurrency: 32, MaxDequeueCount: 3}, processor.HandlerFunc(func(context.Context, *processor.Message) error {
			t.Error("the handler was called")
			return nil
		}))
		time.Sleep(10 * time.Minute)
		p.stop()
		if err := <-p.done; err != nil {
			t.Error(err)
		}
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > 64<<20 {
			t.Errorf("%d MiB were allocated", used>>20)
		}
		if n := r.srv.Len(queuetest.AccountName, "orders-poison"); n != 32 {
			t.Errorf("%d on the poison queue, want 32", n)
		}
	})
}

// A large body that still waits for its turn when the drain is over is given back, not unpacked.
func TestWhatWaitsToBeUnpackedIsGivenBackAtTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		text := large(t, 15<<20)
		for range 16 {
			if _, err := r.q.SendText(t.Context(), text, queue.SendOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		var entered, late atomic.Int64
		run := r.start(processor.Config{Concurrency: 16, DrainTimeout: 5 * time.Second}, processor.HandlerFunc(func(ctx context.Context, _ *processor.Message) error {
			entered.Add(1)
			if ctx.Err() != nil {
				late.Add(1)
			}
			<-ctx.Done()
			return context.Cause(ctx)
		}))
		time.Sleep(time.Minute)
		r.end(run)
		if entered.Load() > 4 || late.Load() > 0 {
			t.Errorf("%d handlers entered, %d of them after they were cancelled", entered.Load(), late.Load())
		}
		r.left(16, 0)
	})
}

type typedNil struct{ text string }

func (e *typedNil) Error() string { return e.text }

// An error that panics when it is asked what it is would end the process outside of the handler.
func TestAnErrorThatPanicsIsAPanicOfTheHandlers(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("x")
		r.runFor(10*time.Minute, processor.Config{MaxDequeueCount: 2}, r.handle(func(context.Context, *processor.Message) error {
			var e *typedNil
			return e
		}))
		r.left(0, 1)
		r.counted(map[string]float64{"queue_message_retries_total{category=panic}": 1})
	})
}
