package web

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/qwatch/qwatch/internal/triage"
)

// Large bodies are unpacked one after the other, whoever asks; small ones wait for nobody. What answers keep is bounded
// over all of them, and free again at their ends.
func TestTheRoomForBodiesIsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoom()
		done, err := r.unpack(t.Context(), triage.MaxShown)
		if err != nil {
			t.Fatal(err)
		}
		small, err := r.unpack(t.Context(), largeBody)
		if err != nil {
			t.Fatal(err)
		}
		small()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := r.unpack(ctx, largeBody+1); err == nil {
			t.Error("two large ones at once")
		}
		done()
		if done, err = r.unpack(t.Context(), 100*triage.MaxShown); err != nil { // a queue may allow more
			t.Fatal(err)
		}
		done()

		one, two := r.answer(), r.answer()
		if !one.hold(maxKept-1) || !two.hold(1) || two.hold(1) {
			t.Error("what is kept is not bounded")
		}
		one.end()
		if !two.hold(maxKept - 1) {
			t.Error("what ended is kept")
		}
		two.end()
		two.end()
	})
}
