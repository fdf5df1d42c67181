package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// Exit statuses; they are public.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2 // bad usage or a bad configuration
)

// cli is what every command shares: its streams, its environment and the flags that
// all commands have.
type cli struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	getenv         func(string) string
	stdinTerminal  bool // somebody can answer a question
	stdoutTerminal bool // somebody looks at the results
	stderrTerminal bool

	output  format        // -o
	config  string        // -c
	timeout time.Duration // --timeout
	server  server        // --server and what goes with it
	started bool          // flags and arguments were good, the command itself runs
}

func newCLI() *cli {
	return &cli{
		stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv,
		stdinTerminal:  term.IsTerminal(int(os.Stdin.Fd())),
		stdoutTerminal: term.IsTerminal(int(os.Stdout.Fd())),
		stderrTerminal: term.IsTerminal(int(os.Stderr.Fd())),
	}
}

// usageError is an error in how qwatch was called or configured: exit status 2.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// Errors that end a command which has told everything itself.
var (
	errReported  = errors.New("reported")         // status 1
	errNoCommand = errors.New("no command given") // status 2
)

// main runs one command line and returns its exit status.
func (c *cli) main(ctx context.Context, args []string) int {
	root := c.rootCommand()
	root.SetArgs(args)
	root.SetIn(c.stdin)
	root.SetOut(c.stdout)
	root.SetErr(c.stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitDone
	}
	if c.started {
		return c.fail(ctx, err)
	}
	// Whatever went wrong before a command started is the command line's fault.
	msg, _, _ := strings.Cut(err.Error(), "\n")
	fmt.Fprintf(c.stderr, "qwatch: %s; see '%s --help'\n", clean(msg), cmd.CommandPath())
	return exitUsage
}

// fail reports an error a command ended with and returns the exit status.
func (c *cli) fail(ctx context.Context, err error) int {
	var usage usageError
	switch {
	case errors.Is(err, errNoCommand):
		return exitUsage
	case errors.Is(err, errReported):
		return exitFailed
	case errors.As(err, &usage):
		c.complain(err)
		return exitUsage
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		fmt.Fprintln(c.stderr, "qwatch: interrupted")
		return exitFailed
	default:
		c.complain(err)
		return exitFailed
	}
}

// complain writes an error, one line for each fault in it.
func (c *cli) complain(err error) {
	for line := range strings.Lines(err.Error()) {
		if line = strings.TrimSpace(line); line != "" {
			fmt.Fprintf(c.stderr, "qwatch: %s\n", clean(line))
		}
	}
}

// exact, atMost and none check the arguments of a command, with the cure in the error.
func exact(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return fmt.Errorf("%s is missing", strings.Join(names[len(args):], " and "))
		case len(args) > len(names):
			return fmt.Errorf("unexpected argument %q", args[len(names)])
		}
		return nil
	}
}

func none(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("unexpected argument %q", args[0])
	}
	return nil
}

// between allows the names after the first min to be left out.
func between(minimum int, names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		return exact(names[:min(max(len(args), minimum), len(names))]...)(cmd, args)
	}
}

// group makes cmd a command that only has others under it.
func group(cmd *cobra.Command, children ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(children...)
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		names := make([]string, 0, len(children))
		for _, child := range children {
			names = append(names, child.Name())
		}
		if len(args) == 0 {
			return usagef("%s: a command is missing: %s", cmd.CommandPath(), strings.Join(names, ", "))
		}
		return usagef("unknown command %q for %q; there are %s", args[0], cmd.CommandPath(), strings.Join(names, ", "))
	}
	return cmd
}
