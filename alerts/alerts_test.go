package alerts_test

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/alerts"
)

var update = flag.Bool("update", false, "write the golden files")

func generate(t testing.TB, cfg alerts.Config) alerts.Rules {
	t.Helper()
	rules, err := alerts.Generate(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

func TestGolden(t *testing.T) {
	t.Parallel()
	rules := generate(t, alerts.Config{})
	for name, write := range map[string]func(io.Writer) error{
		"prometheus.yaml": rules.WritePrometheus,
		"prometheusrule.yaml": func(w io.Writer) error {
			return rules.WritePrometheusRule(w, alerts.PrometheusRuleOptions{Namespace: "monitoring", Labels: map[string]string{"release": "kube-prometheus-stack"}})
		},
		"grafana.yaml":      func(w io.Writer) error { return rules.WriteGrafana(w, alerts.GrafanaOptions{}) },
		"alertmanager.yaml": rules.WriteAlertmanager,
		"azure.json":        rules.WriteAzure,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got, again bytes.Buffer
			if err := write(&got); err != nil {
				t.Fatal(err)
			}
			if err := write(&again); err != nil || !bytes.Equal(got.Bytes(), again.Bytes()) {
				t.Errorf("written twice, it differs (%v)", err)
			}
			file := filepath.Join("testdata", name)
			if *update {
				if err := os.MkdirAll("testdata", 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", file, diff)
			}
		})
	}
}
