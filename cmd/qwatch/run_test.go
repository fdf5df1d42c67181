package main

import (
	"bytes"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
)

// A SIGHUP that comes while the first configuration is being read asks for a reload like any other.
func TestSIGHUPWhileStartingDoesNotKill(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "qwatch.yaml")
	if err := syscall.Mkfifo(file, 0o600); err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGHUP) // under nohup it is ignored, and by what is begun then as well
	defer signal.Stop(caught)
	var log bytes.Buffer
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Args = []string{"qwatch", "run", "-c", file}
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pipe, err := os.OpenFile(file, os.O_WRONLY, 0) // once it begins to read
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Error(err)
	}
	if _, err := pipe.WriteString("nonsense: true\n"); err != nil {
		t.Error(err)
	}
	if err := pipe.Close(); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait()
	if got := cmd.ProcessState; got.ExitCode() != 2 {
		t.Errorf("it ended by %v, want the exit status 2 of a faulty file; log:\n%s", got, log.String())
	}
}
