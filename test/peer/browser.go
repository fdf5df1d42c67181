package peer

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// browses bounds what a scenario may take.
const browses = 2 * time.Minute

// Browse runs a scenario of the folder browser in a real Chromium, by Playwright, and fills into, a pointer,
// from what it returns. options is what the scenario is told. Pictures are kept in the folder shots; "" takes none.
func Browse(t testing.TB, scenario, shots string, options, into any) {
	t.Helper()
	chromium, err := locate("chromium")
	if err != nil {
		t.Fatalf("start chromium: %v", err)
	}
	modules, err := locate("browser", "node_modules")
	if err != nil {
		t.Fatalf("start playwright: %v", err)
	}
	told, err := json.Marshal(options)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), browses)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", filepath.Join("browser", "browser.js"), scenario)
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "CHROMIUM=" + chromium, "MODULES=" + modules, "SHOTS=" + shots, "OPTIONS=" + string(told),
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s in chromium: %v\n%s%s", scenario, err, &stdout, &stderr)
	}
	if err := json.Unmarshal(stdout.Bytes(), into); err != nil {
		t.Fatalf("%s: %v", scenario, fmt.Errorf("%w: %s", err, &stdout))
	}
}
