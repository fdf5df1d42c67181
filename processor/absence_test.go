package processor_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
)

// blinking is a shelf that does not answer one fetch.
type blinking struct {
	shelf

	absent atomic.Bool
}

func (s *blinking) Fetch(ctx context.Context, ref json.RawMessage, limit int) ([]byte, error) {
	if s.absent.Swap(false) {
		return nil, errors.New("503 ServerBusy")
	}
	return s.shelf.Fetch(ctx, ref, limit)
}

// The deliveries that an outage of the handler's cost say nothing about the store of large bodies: its
// first absence does not poison a message that was readable all along.
func TestOneAbsenceOfTheStoreIsNoMessagesFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &blinking{shelf: shelf{bodies: map[string][]byte{}}}
		r := newRig(t, queue.Config{BodyStore: store, BodyStoreThreshold: 1})
		r.send("a large body")
		var down atomic.Bool
		down.Store(true)
		run := r.start(processor.Config{}, r.handle(func(context.Context, *processor.Message) error {
			if down.Load() {
				return processor.Unavailable(errors.New("connection refused"))
			}
			return nil
		}))
		time.Sleep(10 * time.Minute)
		down.Store(false)
		store.absent.Store(true)
		time.Sleep(time.Hour)
		r.end(run)
		r.left(0, 0)
		if r.calls.count() < 6 {
			t.Errorf("%d attempts: too few for the test to tell", r.calls.count())
		}
	})
}
