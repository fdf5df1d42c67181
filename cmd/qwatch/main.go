// Command qwatch watches, consumes and looks after Azure Storage queues.
//
// This directory holds the command line alone: one file a command, its flags, its
// output and its exit status. What the commands do lives in internal/app and in the
// library packages.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	_ "golang.org/x/crypto/x509roots/fallback" // authorities for where the system has none, as in an image from scratch
)

// version is set by the linker: -ldflags "-X main.version=v1.2.3". Empty: the version
// of the module as the Go toolchain recorded it.
var version string

// commit is set by the linker in the same way, where the toolchain records none, as in images.
var commit string

func main() {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go heed(signals, cancel, func() { signal.Stop(signals) })
	os.Exit(newCLI().main(ctx, os.Args[1:]))
}

// oneRequest is how long signals after the first are the same request to end: timeout(1) signals its child
// and then the child's group, and so do some shells and supervisors.
const oneRequest = time.Second

// heed asks for an orderly end at the first signal. Those within oneRequest of it change nothing; after that
// the next takes the default action, which stop brings back, and ends the process at once.
func heed(signals <-chan os.Signal, end, stop func()) {
	<-signals
	over := time.After(oneRequest)
	end()
	for {
		select {
		case <-signals:
		case <-over:
			stop()
			return
		}
	}
}
