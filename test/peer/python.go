package peer

import (
	"bytes"
	_ "embed"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

//go:embed queue.py
var pythonScript string

// PythonQueue is a queue client of Microsoft's SDK for Python with client-side encryption, version 2.
type PythonQueue struct {
	// Connection string, queue and the AES key in hexadecimal, by which A256KW wraps.
	Connection, Queue, KeyID, Key string
}

// Send has the SDK put messages on the queue, each of them encrypted.
func (p PythonQueue) Send(t testing.TB, texts ...string) {
	t.Helper()
	p.run(t, "send", texts...)
}

// Receive has the SDK receive up to 32 messages, decrypt and delete them. A message that is not encrypted
// fails it.
func (p PythonQueue) Receive(t testing.TB) []string {
	t.Helper()
	out := strings.TrimSuffix(p.run(t, "receive"), "\x00")
	if out == "" {
		return nil
	}
	return strings.Split(out, "\x00")
}

func (p PythonQueue) run(t testing.TB, verb string, args ...string) string {
	t.Helper()
	tree, err := locate("azure-python")
	if err != nil {
		t.Fatalf("start python: %v", err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(tree, "usr", "bin", "python3.11"), append([]string{"-c", pythonScript, verb}, args...)...)
	cmd.Env = []string{
		"LD_LIBRARY_PATH=" + filepath.Join(tree, "lib"), "PYTHONHOME=" + filepath.Join(tree, "usr"), "PYTHONUTF8=1",
		"PYTHONPATH=" + filepath.Join(tree, "usr", "lib", "python3", "dist-packages"), "PYTHONDONTWRITEBYTECODE=1",
		"CONNECTION=" + p.Connection, "QUEUE=" + p.Queue, "KEY_ID=" + p.KeyID, "KEY=" + p.Key,
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("python %s: %v\n%s", verb, err, stderr.Bytes())
	}
	return string(out)
}
