package qwatch_test

import (
	"os/exec"
	"strings"
	"testing"
)

// TestTheLibraryLinksNoMoreThanItUses keeps what only some users want out of the packages that all of them import.
func TestTheLibraryLinksNoMoreThanItUses(t *testing.T) {
	t.Parallel()
	deps := func(packages ...string) string {
		out, err := exec.CommandContext(t.Context(), "go", append([]string{"list", "-deps"}, packages...)...).Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	basic := deps("./queue", "./poison", "./processor")
	for _, unwanted := range []string{"go.opentelemetry.io/", "github.com/cloudevents/", "google.golang.org/grpc", "/sdk/storage/azblob", "/sdk/data/aztables", "/keyvault/"} {
		if strings.Contains(basic, unwanted) {
			t.Errorf("queue, poison or processor links %s", unwanted)
		}
	}
	for name, want := range map[string]string{"./processor/cloudevents": "github.com/cloudevents/sdk-go/v2/event\n", "./telemetry": "go.opentelemetry.io/otel/trace\n"} {
		if !strings.Contains(deps(name), want) {
			t.Errorf("%s does not link %s", name, strings.TrimSpace(want))
		}
	}
	if strings.Contains(deps("./telemetry"), "go.opentelemetry.io/otel/sdk") {
		t.Error("telemetry links the SDK, which is the program's to choose")
	}
}
