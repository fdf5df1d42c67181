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
	// The first signal asks for an orderly end; the second takes the default action and ends
	// the process at once. Nobody may see that the end has begun before that is so:
	// a second signal sent then would be swallowed.
	go func() {
		<-signals
		signal.Stop(signals)
		cancel()
	}()
	os.Exit(newCLI().main(ctx, os.Args[1:]))
}
