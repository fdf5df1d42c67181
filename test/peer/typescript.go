package peer

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// TypeScript checks files, by name, with TypeScript's compiler as strictly as it can; they may import types of
// @grafana/schema. It returns the compiler's exit status and everything it printed, and writes nothing.
func TypeScript(t testing.TB, files map[string]string) (status int, output string) {
	t.Helper()
	modules, err := locate("grafana-schema", "node_modules")
	if err != nil {
		t.Fatalf("run typescript: %v", err)
	}
	folder := t.TempDir()
	if err := os.Symlink(modules, filepath.Join(folder, "node_modules")); err != nil {
		t.Fatal(err)
	}
	args := []string{
		filepath.Join(modules, "typescript", "bin", "tsc"), "--noEmit", "--strict",
		"--module", "esnext", "--moduleResolution", "bundler", "--target", "esnext",
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, name)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", args...)
	cmd.Dir = folder
	out, err := cmd.CombinedOutput()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		t.Fatalf("run typescript: %v", err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}
