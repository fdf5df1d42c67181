package peer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A PrometheusServer is a running Prometheus, Debian's 2.42.
type PrometheusServer struct {
	address string
}

// Prometheus starts Prometheus on the given configuration file's text and waits until it is ready.
func Prometheus(t testing.TB, config string) *PrometheusServer {
	t.Helper()
	return PrometheusWith(t, config, filepath.Join(t.TempDir(), "data"))
}

// PrometheusWith is Prometheus on data that is there already, or will be.
func PrometheusWith(t testing.TB, config, data string) *PrometheusServer {
	t.Helper()
	program, err := debian("prometheus")
	if err != nil {
		t.Fatalf("start prometheus: %v", err)
	}
	folder := t.TempDir()
	file := filepath.Join(folder, "prometheus.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	_, addrs := Serve(t, "prometheus", 1,
		func(addrs []string) *exec.Cmd {
			return exec.Command(program, "--config.file="+file, "--storage.tsdb.path="+data,
				"--web.listen-address="+addrs[0], "--log.level=warn")
		},
		func(addrs []string) string { return "http://" + addrs[0] + "/-/ready" }, false)
	return &PrometheusServer{address: addrs[0]}
}

// URL returns where it serves.
func (p *PrometheusServer) URL() string { return "http://" + p.address }

// A Sample is one element of an instant vector.
type Sample struct {
	Labels map[string]string
	Value  float64
	At     time.Time
}

// Query evaluates an expression now and returns its samples; a scalar is one sample without labels.
func (p *PrometheusServer) Query(t testing.TB, expr string) []Sample {
	t.Helper()
	var data struct {
		ResultType string          `json:"resultType"`
		Result     json.RawMessage `json:"result"`
	}
	if err := p.get(t.Context(), "/api/v1/query?query="+url.QueryEscape(expr), &data); err != nil {
		t.Fatalf("query %s: %v", expr, err)
	}
	samples, err := readVector(data.ResultType, data.Result)
	if err != nil {
		t.Fatalf("query %s: %v", expr, err)
	}
	return samples
}

func readVector(kind string, result []byte) ([]Sample, error) {
	type element struct {
		Metric map[string]string `json:"metric"`
		Value  [2]any            `json:"value"` // [seconds, "value"]
	}
	var elements []element
	switch kind {
	case "vector":
		if err := json.Unmarshal(result, &elements); err != nil {
			return nil, err
		}
	case "scalar":
		elements = make([]element, 1)
		if err := json.Unmarshal(result, &elements[0].Value); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("the result is a %s, not a vector", kind)
	}
	samples := make([]Sample, len(elements))
	for i, e := range elements {
		seconds, isNumber := e.Value[0].(float64)
		text, isText := e.Value[1].(string)
		value, err := strconv.ParseFloat(text, 64)
		if !isNumber || !isText || err != nil {
			return nil, fmt.Errorf("unreadable value %v", e.Value)
		}
		samples[i] = Sample{Labels: e.Metric, Value: value, At: time.UnixMilli(int64(seconds * 1000))}
	}
	return samples, nil
}

// A Target is one scrape target as Prometheus sees it.
type Target struct {
	Labels     map[string]string `json:"labels"`
	ScrapeURL  string            `json:"scrapeUrl"`
	LastError  string            `json:"lastError"`
	LastScrape time.Time         `json:"lastScrape"`
	Health     string            `json:"health"` // up, down, unknown
}

// Targets returns the active scrape targets.
func (p *PrometheusServer) Targets(t testing.TB) []Target {
	t.Helper()
	var data struct {
		ActiveTargets []Target `json:"activeTargets"`
	}
	if err := p.get(t.Context(), "/api/v1/targets?state=active", &data); err != nil {
		t.Fatalf("read the targets: %v", err)
	}
	return data.ActiveTargets
}

// get reads the data of an API answer.
func (p *PrometheusServer) get(ctx context.Context, path string, data any) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL()+path, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return fmt.Errorf("read answer (%s): %w", resp.Status, err)
	}
	if answer.Status != "success" {
		return errors.New(answer.Error)
	}
	return json.Unmarshal(answer.Data, data)
}

// Promtool runs promtool and returns its exit status and everything it printed.
func Promtool(t testing.TB, stdin string, args ...string) (status int, output string) {
	t.Helper()
	program, err := debian("promtool")
	if err != nil {
		t.Fatalf("run promtool: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "GOGC=400") // a third of what rule tests cost is collecting garbage
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		t.Fatalf("run promtool: %v", err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}
