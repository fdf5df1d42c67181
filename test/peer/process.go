package peer

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A Process is a running program of a test. Its methods may be called concurrently.
type Process struct {
	name           string
	cmd            *exec.Cmd
	stdout, stderr buffer
	done           chan struct{} // closed when it has ended and its output is complete
}

// Start starts cmd, whose Stdout and Stderr must not be set; of its SysProcAttr only the credential
// counts. When the test ends the process is killed, by its own pid, if it still runs; if the test failed,
// the end of its output is logged.
func Start(t testing.TB, name string, cmd *exec.Cmd) *Process {
	t.Helper()
	p := &Process{name: name, cmd: cmd, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.stdout, &p.stderr
	cmd.WaitDelay = 5 * time.Second
	// Killed with the test binary, however that ends; in a group of its own, so that Ctrl-C in
	// the terminal reaches the test alone and the test decides.
	attr := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if cmd.SysProcAttr != nil {
		attr.Credential = cmd.SysProcAttr.Credential
	}
	cmd.SysProcAttr = attr
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	go func() {
		defer close(p.done)
		_ = cmd.Wait() // told by ProcessState
	}()
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("the end of what %s (%v) said:\n%s", name, cmd.ProcessState, p.Output())
		}
	})
	return p
}

// Signal sends sig. A process that has ended already is no error.
func (p *Process) Signal(t testing.TB, sig os.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatalf("send %v to %s: %v", sig, p.name, err)
	}
}

// Kill ends the process with SIGKILL and waits until it is gone.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // ended already: fine
	<-p.done
}

// Wait returns the exit status, −1 when a signal ended it. It fails the test when the
// process still runs after the given time.
func (p *Process) Wait(t testing.TB, within time.Duration) int {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(within):
		t.Fatalf("%s still runs after %v", p.name, within)
	}
	return p.cmd.ProcessState.ExitCode()
}

// Stdout returns everything written there so far.
func (p *Process) Stdout() string { return p.stdout.String() }

// Stderr returns everything written there so far.
func (p *Process) Stderr() string { return p.stderr.String() }

// Output returns the last part of both streams, for a failure's message.
func (p *Process) Output() string {
	const enough = 8 << 10
	tail := func(s string) string { return s[max(0, len(s)-enough):] }
	return tail(p.Stdout()) + tail(p.Stderr())
}

// buffer is a bytes.Buffer that may be written and read concurrently.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
