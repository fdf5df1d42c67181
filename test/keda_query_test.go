package test_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/qwatch/qwatch/test/peer"
)

// kedaQuery is the PromQL that keda generate writes for shop/orders.
func kedaQuery(t *testing.T, strategy, scaling string) string {
	t.Helper()
	config := filepath.Join(t.TempDir(), "qwatch.yaml")
	text := "accounts: [{name: shop, connectionString: UseDevelopmentStorage=true, queues: [{name: orders, objective: {timeInQueue: 1m}, scaling: {" + scaling + "}}]}]\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := command(nil, "keda", "generate", "-c", config, "--scaler", "prometheus", "--prometheus", "http://p", "--strategy", strategy)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if q, ok := strings.CutPrefix(strings.TrimSpace(line), "query: "); ok {
			return q
		}
	}
	t.Fatalf("no query in\n%s", out)
	return ""
}

// What the generated queries say, on Debian's promtool: nothing where something is not known, and never fewer
// replicas than are busy.
func TestKEDAsQueriesSayWhatTheStrategiesDo(t *testing.T) {
	t.Parallel()
	const (
		main     = `{account="shop", queue_name="orders", queue_kind="main"}`
		consumer = `{account="shop", queue_name="orders"}`
	)
	flat := func(name, labels string, v float64) string {
		return fmt.Sprintf("      - {series: '%s%s', values: '%v+0x20'}\n", name, labels, v)
	}
	count := func(v float64) string { return flat("queue_approximate_messages", main, v) }
	peek := func(v float64) string { return flat("queue_peeked_messages", main, v) }
	active := func(v float64) string { return flat("queue_processor_active_handlers", consumer, v) }
	slots := flat("queue_processor_max_handlers", consumer, 4)
	objective := flat("queue_time_in_queue_objective_seconds", consumer, 60)
	traffic := "      - {series: 'queue_message_processing_duration_seconds_sum" + consumer + "', values: '0+600x20'}\n" +
		"      - {series: 'queue_message_processing_duration_seconds_count" + consumer + "', values: '0+10x20'}\n" // a minute each
	visible, inflight := kedaQuery(t, "visible", ""), kedaQuery(t, "inflight", "")
	drain, blind := kedaQuery(t, "drain", "handlingTime: 2s, concurrency: 4"), kedaQuery(t, "drain", "concurrency: 4")
	const none = -1
	var b strings.Builder
	b.WriteString("rule_files: []\nevaluation_interval: 1m\ntests:\n")
	for _, tt := range []struct {
		series string
		expr   string
		want   float64
	}{
		{count(500) + peek(7), visible, 7},
		{count(500) + peek(32), visible, 500},
		{count(10) + peek(32), visible, 32},
		{count(500), visible, none}, // not looked at: 32 would be made up
		{peek(32), visible, none},
		{count(500) + active(3), inflight, none},
		{count(500) + peek(7) + active(3), inflight, 10},
		// Measured: a minute each, 4 at a time, an objective of a minute.
		{count(20) + peek(20) + active(0) + slots + objective + traffic, drain, 5},
		{count(20) + peek(20) + active(0) + slots + objective, drain, 1}, // configured: 2 s
		{count(40) + peek(0) + active(38) + slots + objective, drain, 10},
		{count(0) + peek(0) + active(0) + slots + objective, drain, 0},
		{count(40) + active(38) + slots + objective, drain, none},
		// Neither measured nor configured: one replica finds out, or those that are busy.
		{count(20) + peek(20) + objective, blind, 1},
		{count(20) + peek(20) + active(9) + slots + objective, blind, 3},
		{count(0) + peek(0) + objective, blind, 0},
		{count(20) + peek(20) + active(0) + slots + objective + traffic, blind, 5},
		{count(20) + objective, blind, none},
		{count(20) + peek(20), blind, none}, // and no objective is no value
		{count(20) + peek(20), drain, none},
	} {
		want := "[]"
		if tt.want != none {
			want = fmt.Sprintf("[{labels: '{}', value: %v}]", tt.want)
		}
		fmt.Fprintf(&b, "  - interval: 1m\n    input_series:\n%s    promql_expr_test:\n      - {expr: '%s', eval_time: 10m, exp_samples: %s}\n", tt.series, tt.expr, want)
	}
	file := filepath.Join(t.TempDir(), "queries.yaml")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if status, out := peer.Promtool(t, "", "test", "rules", file); status != 0 {
		t.Errorf("status %d:\n%s", status, out)
	}
}
