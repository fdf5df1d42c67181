package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/qwatch/qwatch/internal/config"
)

// A file that is being written is not taken by half, though its first half is good by itself.
func TestLoadSettled(t *testing.T) {
	t.Parallel()
	const (
		half = "accounts:\n  - name: acct\n    connectionString: UseDevelopmentStorage=true\n    queues:\n      - {name: first}\n"
		rest = "      - {name: second}\n"
	)
	for name, tt := range map[string]struct {
		write  func(path string) // while it is being read
		queues int
		want   string // part of the error
		within time.Duration
	}{
		"it is there": {write: func(path string) { put(t, path, half+rest) }, queues: 2, within: 300 * time.Millisecond},
		"it is written in two parts": {write: func(path string) {
			put(t, path, half)
			time.Sleep(100 * time.Millisecond)
			put(t, path, half+rest)
		}, queues: 2, within: time.Second},
		"it is replaced meanwhile": {write: func(path string) {
			put(t, path, half)
			time.Sleep(100 * time.Millisecond)
			put(t, path+".new", half+rest)
			if err := os.Rename(path+".new", path); err != nil {
				t.Error(err)
			}
		}, queues: 2, within: time.Second},
		"it is written all the time": {write: func(path string) {
			for i := range 100 {
				put(t, path, half+strings.Repeat("#", i))
				time.Sleep(100 * time.Millisecond)
			}
		}, want: "is being written", within: 6 * time.Second},
		"it goes away": {write: func(path string) {
			put(t, path, half)
			time.Sleep(100 * time.Millisecond)
			if err := os.Remove(path); err != nil {
				t.Error(err)
			}
		}, want: "there is no such file", within: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				path := filepath.Join(dir, "qwatch.yaml")
				var writer sync.WaitGroup
				defer writer.Wait()
				writer.Go(func() { tt.write(path) })
				synctest.Wait()
				began := time.Now()
				cfg, _, err := config.LoadSettled(path, nil)
				if took := time.Since(began); took > tt.within {
					t.Errorf("it took %v", took)
				}
				switch {
				case tt.want != "":
					if err == nil || !strings.Contains(err.Error(), tt.want) {
						t.Errorf("error %v, want %q", err, tt.want)
					}
				case err != nil:
					t.Error(err)
				case len(cfg.Accounts[0].Queues) != tt.queues:
					t.Errorf("%d queues, want %d", len(cfg.Accounts[0].Queues), tt.queues)
				}
			})
		})
	}
}

func put(t *testing.T, path, text string) {
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Error(err)
	}
}
