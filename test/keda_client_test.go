//go:build drill

package test_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// kedaClient builds the program that runs KEDA's own scaler code, into the cache of peers. The first time takes ten
// minutes.
func kedaClient(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(cache, "qwatch", "kedaclient")
	build := exec.Command("go", "build", "-o", file, ".")
	build.Dir = "keda" // a module of its own
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build KEDA's scalers: %v\n%s", err, out)
	}
	return file
}

// kedaTrigger is one trigger, with what KEDA would resolve for it.
type kedaTrigger struct {
	Type     string            `json:"type"`
	Metadata map[string]string `json:"metadata"`
	Auth     map[string]string `json:"auth,omitempty"`
}

// kedaResult is what KEDA gets of a trigger.
type kedaResult struct {
	Metric         string
	Target, Value  float64
	Active         bool
	Error          string
	SpecSeconds    float64
	MetricsSeconds float64
}

// askKEDA lets KEDA's code ask each trigger once.
func askKEDA(t *testing.T, client string, triggers ...kedaTrigger) []kedaResult {
	t.Helper()
	in, err := json.Marshal(triggers)
	if err != nil {
		t.Fatal(err)
	}
	var results []kedaResult
	if err := json.Unmarshal([]byte(runKEDA(t, client, string(in), "ask")), &results); err != nil || len(results) != len(triggers) {
		t.Fatalf("%d results, %v", len(results), err)
	}
	return results
}

func runKEDA(t *testing.T, client, stdin string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, client, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader([]byte(stdin)), &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("kedaclient %q: %v\n%s", args, err, stderr.String())
	}
	return stdout.String()
}

// external is a trigger for KEDA's external scaler.
func external(s *service, queue, strategy string) kedaTrigger {
	return kedaTrigger{Type: "external", Metadata: map[string]string{
		"scalerAddress": s.grpc, "account": "orders", "queueName": queue, "strategy": strategy,
	}}
}

// metricsAPI is one for KEDA's metrics-api scaler.
func metricsAPI(s *service, queue, strategy string) kedaTrigger {
	return kedaTrigger{Type: "metrics-api", Metadata: map[string]string{
		"url": s.main + "/api/v1/scaling/orders/" + queue + "?strategy=" + strategy, "valueLocation": "value", "targetValue": "5",
	}}
}

// azureQueue is one for KEDA's own scaler of storage queues.
func azureQueue(connection, queue, strategy string) kedaTrigger {
	return kedaTrigger{
		Type:     "azure-queue",
		Metadata: map[string]string{"queueName": queue, "queueLength": "5", "queueLengthStrategy": strategy},
		Auth:     map[string]string{"connection": connection},
	}
}
