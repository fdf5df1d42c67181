package main

import (
	"bytes"
	"context"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/qwatch/qwatch/queue/queuetest"
)

// withoutServer are the commands that ask storage and have no --server, and why.
var withoutServer = map[string]string{
	"qwatch run":    "it is what --server asks",
	"qwatch doctor": "it examines names, connections, clock and sign-in of the machine it runs on (docs/doctor.md)",
}

// leaves are the commands that do something.
func leaves(cmd *cobra.Command) (all []*cobra.Command) {
	for _, sub := range cmd.Commands() {
		if sub.HasSubCommands() {
			all = append(all, leaves(sub)...)
		} else {
			all = append(all, sub)
		}
	}
	return all
}

// O4: whatever asks storage can have a running qwatch ask it. Every command that takes a configuration is
// run, and watched for what it asks of a queue service.
func TestEveryCommandThatNeedsStorageHasServer(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	line := filepath.Join(folder, "export.jsonl")
	if err := os.WriteFile(line, []byte(`{"format":"qwatch-poison/1","text":"x"}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	asked := map[string]bool{}
	var running sync.WaitGroup
	for _, cmd := range leaves(newCLI().rootCommand()) {
		takesConfig := cmd.Flags().Lookup("config") != nil
		hasServer := cmd.Flags().Lookup("server") != nil
		path := cmd.CommandPath()
		switch {
		case !takesConfig && hasServer:
			continue // it asks a running qwatch and nothing else
		case !takesConfig || withoutServer[path] != "":
			continue // it knows no storage
		}
		running.Go(func() {
			service := queuetest.New(queuetest.Options{})
			server := httptest.NewServer(service)
			defer server.Close()
			config := filepath.Join(folder, strings.ReplaceAll(path, " ", "-")+".yaml")
			text := "accounts: [{name: demo, connectionString: \"" + service.ConnectionStringAt(server.URL) + "\", queues: [{name: orders}]}]\n"
			if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
				t.Error(err)
				return
			}
			args := strings.Fields(path)[1:]
			for _, word := range strings.Fields(cmd.Use)[1:] {
				switch strings.TrimSuffix(strings.Trim(word, "[]{}"), "...") {
				case "ACCOUNT/QUEUE":
					args = append(args, "demo/orders")
				case "FILE", "FILE|-":
					args = append(args, line)
				case "ID", "BODY", "BODY|-":
					args = append(args, "x")
				}
			}
			args = append(args, "-c", config)
			if cmd.Flags().Lookup("yes") != nil {
				args = append(args, "--yes")
			}
			var out, said bytes.Buffer
			c := &cli{stdin: strings.NewReader(""), stdout: &out, stderr: &said, getenv: func(string) string { return "" }}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			status := c.main(ctx, args)
			requests := len(service.Counts())
			if status == exitUsage && hasServer {
				t.Errorf("%s: this test does not know how to call it: %s", path, said.String())
			}
			mu.Lock()
			defer mu.Unlock()
			asked[path] = requests > 0
			if requests > 0 != hasServer {
				t.Errorf("%s asks storage: %v; it has --server: %v (%s)", path, requests > 0, hasServer, said.String())
			}
		})
	}
	running.Wait()
	n := 0
	for _, yes := range asked {
		if yes {
			n++
		}
	}
	if n < 13 {
		t.Errorf("only %d commands asked storage: %v", n, asked)
	}
	for path := range withoutServer {
		if cmd, _, err := newCLI().rootCommand().Find(strings.Fields(path)[1:]); err != nil || cmd.Flags().Lookup("server") != nil {
			t.Errorf("%s has --server, or is not there: %v", path, err)
		}
	}
}
