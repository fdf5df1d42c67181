package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/qwatch/qwatch/internal/app/demo"
)

func (c *cli) demoCommand() *cobra.Command {
	var o demo.Options
	var limit time.Duration
	var logs logFlags
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run everything on an embedded queue service with generated traffic",
		Long: `Run everything on an embedded queue service with generated traffic: several queues of
different character, producers, good and bad messages, consumers, and every endpoint.

It needs no account, no configuration and no other program, keeps everything in memory,
and listens on the loopback address only. A port that is taken is replaced by a free one.
Ctrl-C ends it.`,
		Example: `  qwatch demo
  qwatch demo --duration 2m
  qwatch demo --listen 127.0.0.1:0 --log-level info`,
		Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, a := range []struct{ flag, address string }{{"--listen", o.Listen}, {"--probes", o.Probes}, {"--grpc", o.GRPC}, {"--storage", o.Storage}} {
				if err := checkAddress(a.flag, a.address); err != nil {
					return err
				}
			}
			if limit < 0 {
				return usagef("--duration %v must not be negative", limit)
			}
			logger, err := logs.logger(c.stderr)
			if err != nil {
				return err
			}
			o.Logger = logger
			return c.demo(cmd.Context(), o, limit)
		},
	}
	f := cmd.Flags()
	f.Var((*duration)(&limit), "duration", "end after this long (default: run until Ctrl-C)")
	f.StringVar(&o.Listen, "listen", "127.0.0.1:9780", "`address` of the page, metrics and API")
	f.StringVar(&o.Probes, "probes", "127.0.0.1:9781", "`address` of the probes")
	f.StringVar(&o.GRPC, "grpc", "127.0.0.1:9782", "`address` of the KEDA scaler and gRPC health")
	f.StringVar(&o.Storage, "storage", demo.DevelopmentAddress, "`address` of the embedded queue service")
	f.Uint64Var(&o.Seed, "seed", 1, "`number` that decides the traffic")
	logs.flags(cmd, levelOff)
	return cmd
}

func (c *cli) demo(ctx context.Context, o demo.Options, limit time.Duration) error {
	// A terminal that closes ends the demo as Ctrl-C does, unless somebody (nohup) asked to outlive it.
	if !signal.Ignored(syscall.SIGHUP) {
		var stop context.CancelFunc
		ctx, stop = signal.NotifyContext(ctx, syscall.SIGHUP)
		defer stop()
		context.AfterFunc(ctx, stop)
	}
	// A reader that goes away must not end the process before it has cleaned up: writes fail instead.
	// It stays so: what is said at the very end must not change the exit status.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	b := build()
	o.Version, o.Revision = b.Version, b.Commit
	o.Command = invocation()
	o.Summary = c.stdout
	o.Notice = func(s string) { fmt.Fprintf(c.stderr, "qwatch: %s\n", s) }
	return demo.Run(ctx, o)
}

// invocation is how a reader calls this program from another terminal.
func invocation() string {
	exe, err := os.Executable()
	if err != nil {
		return "qwatch"
	}
	if found, err := exec.LookPath("qwatch"); err == nil {
		if abs, err := filepath.Abs(found); err == nil && abs == exe {
			return "qwatch"
		}
	}
	if strings.Contains(exe, "go-build") {
		return "go run ./cmd/qwatch"
	}
	return exe
}
