package app_test

import (
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestASilentUploadEnds: an import whose client sends nothing holds neither its queue nor a connection for long.
func TestASilentUploadEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := start(t, withTokens(t, oneQueue, asAnn), idle())
		r.deadLettered("watched", 3)
		body, upload := io.Pipe()
		defer func() { _ = upload.Close() }()
		got := r.asking("acct/watched/import", body)
		settle(50 * time.Second)
		if a := <-r.asking("acct/watched/replay", strings.NewReader(`{}`)); a.status != 429 {
			t.Errorf("a replay amid it: %+v, want 429", a)
		}
		settle(20 * time.Second)
		if a := <-r.asking("acct/watched/replay", strings.NewReader(`{}`)); a.status != 200 || a.done != 3 {
			t.Errorf("a replay after it: %+v, want 3 replayed", a)
		}
		_ = upload.Close()
		if a := <-got; a.err == nil && a.status != 408 {
			t.Errorf("the silent one was told %+v, want 408", a)
		}
		if !strings.Contains(r.logs.String(), `nothing came from the client for 1m0s"`) {
			t.Errorf("the log does not tell why it ended:\n%s", r.logs)
		}
		r.end()
	})
}

// TestASlowUploadIsBorne, as long as something comes, and half an hour at most.
func TestASlowUploadIsBorne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := start(t, withTokens(t, oneQueue, asAnn), idle())
		r.deadLettered("watched", 1)
		line := []byte(`{"format":"qwatch-poison/1","text":"slow"}` + "\n")
		body, upload := io.Pipe()
		got := r.asking("acct/watched/import", body)
		for range 5 {
			settle(50 * time.Second)
			if _, err := upload.Write(line); err != nil {
				t.Fatal(err)
			}
		}
		_ = upload.Close()
		if a := <-got; a.status != 200 || a.done != 5 || a.fault != "" {
			t.Errorf("told %+v, want 5 imported", a)
		}
		body, upload = io.Pipe()
		got = r.asking("acct/watched/import", body)
		go func() {
			for range 40 {
				time.Sleep(50 * time.Second)
				if _, err := upload.Write(line); err != nil {
					break
				}
			}
			_ = upload.Close()
		}()
		settle(30*time.Minute + 5*time.Second) // its last line comes as it ends
		if log := r.logs.String(); !strings.Contains(log, "it was not over within 30m0s") {
			t.Errorf("it goes on after half an hour:\n%s", log)
		}
		settle(4 * time.Minute)
		<-got
		r.end()
	})
}
