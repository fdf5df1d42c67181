package main

import (
	"os"
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
		ended, stopped := false, false
		go heed(signals, func() { ended = true }, func() { stopped = true })
		time.Sleep(time.Hour)
		synctest.Wait()
		if ended || stopped {
			t.Fatal("it ended without a signal")
		}
		for range 10 {
			signals <- syscall.SIGTERM
			synctest.Wait()
			if !ended || stopped {
				t.Fatalf("ended %v, with the default action %v; want an orderly end alone", ended, stopped)
			}
			time.Sleep(99 * time.Millisecond)
		}
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		if !stopped {
			t.Error("a second after the first signal, the next would still be swallowed")
		}
	})
}
