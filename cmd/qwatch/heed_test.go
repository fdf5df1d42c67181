package main

import (
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// TestSignalsInQuickSuccessionAreOne: the second of a pair does not kill, a later one does.
func TestSignalsInQuickSuccessionAreOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		signals := make(chan os.Signal, 1)
		var ended, stopped atomic.Bool
		go heed(signals, func() { ended.Store(true) }, func() { stopped.Store(true) })
		time.Sleep(time.Hour)
		synctest.Wait()
		if ended.Load() || stopped.Load() {
			t.Fatal("it ended without a signal")
		}
		for range 10 {
			signals <- syscall.SIGTERM
			synctest.Wait()
			if !ended.Load() || stopped.Load() {
				t.Fatalf("ended %v, with the default action %v; want an orderly end alone", ended.Load(), stopped.Load())
			}
			time.Sleep(99 * time.Millisecond)
		}
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		if !stopped.Load() {
			t.Error("a second after the first signal, the next would still be swallowed")
		}
	})
}
