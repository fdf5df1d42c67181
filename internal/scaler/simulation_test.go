package scaler

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the table of docs/scaling.md again")

// contender is a scaler with the settings it comes with.
type contender struct {
	name   string
	rules  rules
	signal func(*sim) (value float64, active bool)
}

// contenders: KEDA's scaler as it is by default, and qwatch's strategies as `qwatch keda generate` and the chart set them
// up; and drain with the window and cooldown of defaults, which shows what these settings are worth.
func contenders() []contender {
	minute := time.Minute
	azure := rules{5, 30 * time.Second, 5 * minute, 5 * minute, 100, 10 * time.Second}
	own := rules{5, 15 * time.Second, 5 * minute, 5 * minute, 100, 10 * time.Second}
	drain := rules{1, 15 * time.Second, minute, 15 * time.Second, 100, 10 * time.Second}
	rarely := drain
	rarely.polling, rarely.watching = 30*time.Second, minute
	slowly := drain
	slowly.cooldown, slowly.window = 5*minute, 5*minute
	return []contender{
		{"KEDA's azure-queue", azure, azureQueue},
		{"`all`", own, strategy(StrategyAll)},
		{"`visible`", own, strategy(StrategyVisible)},
		{"`inflight`", own, strategy(StrategyInflight)},
		{"`drain`", drain, strategy(StrategyDrain)},
		{"`drain`, `watch.interval: 1m`", rarely, strategy(StrategyDrain)},
		{"drain without its window and cooldown", slowly, strategy(StrategyDrain)},
	}
}

func shapes(t *testing.T) []shape {
	t.Helper()
	return []shape{
		readShape(t, "burst", 1, 2*time.Minute, 30*time.Second),
		readShape(t, "ramp", 2, time.Minute, 5*time.Second),
		readShape(t, "poison_storm", 1, 2*time.Minute, 30*time.Second),
		readShape(t, "slow_handler", 2, 2*time.Minute, 2*time.Second),
	}
}

// results are the runs of every contender, by shape.
func results(t *testing.T) ([]shape, map[string][]*sim) {
	t.Helper()
	all := shapes(t)
	by := map[string][]*sim{}
	for _, sh := range all {
		for _, c := range contenders() {
			s := &sim{shape: sh, rules: c.rules, signal: c.signal}
			s.run()
			by[sh.name] = append(by[sh.name], s)
		}
	}
	return all, by
}

// The table of docs/scaling.md is what the simulation says today.
func TestSimulation(t *testing.T) {
	t.Parallel()
	all, by := results(t)
	var b strings.Builder
	head, line := "| |", "|---|"
	for _, sh := range all {
		head += " " + strings.ReplaceAll(sh.name, "_", " ") + " |"
		line += "---|"
	}
	fmt.Fprintf(&b, "%s\n%s\n", head, line)
	for i, c := range contenders() {
		fmt.Fprintf(&b, "| %s |", c.name)
		for _, sh := range all {
			s := by[sh.name][i]
			fmt.Fprintf(&b, " %s · %.0f |", clock(s.late), s.used.Minutes())
		}
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
	for _, sh := range all {
		fmt.Fprintf(&b, "- **%s**: %s Handling takes %v, one replica handles %d at a time, the objective is %v.\n",
			strings.ReplaceAll(sh.name, "_", " "), sh.about, sh.rows[0].handling, sh.concurrency, sh.objective)
	}
	const file, begin, end = "../../docs/scaling.md", "<!-- simulation -->\n", "<!-- end of simulation -->\n"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	table, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table", file)
	}
	if *update {
		if err := os.WriteFile(file, []byte(before+begin+b.String()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(table, b.String()); diff != "" {
		t.Errorf("%s is not current; run go generate ./internal/scaler (-there +now):\n%s", file, diff)
	}
}

func clock(d time.Duration) string {
	return fmt.Sprintf("%d:%02d", int(d.Minutes()), int(d.Seconds())%60)
}

// What drain is for: it is later less often than KEDA's own scaler, with fewer replicas.
func TestDrainBeatsTheAzureQueueScaler(t *testing.T) {
	t.Parallel()
	all, by := results(t)
	names := contenders()
	for _, sh := range all {
		azure := by[sh.name][0]
		for i, s := range by[sh.name] {
			if s.handled == 0 || len(s.waiting) > 60 {
				t.Fatalf("%s, %s: %d handled and %d left: the simulation does not work", sh.name, names[i].name, s.handled, len(s.waiting))
			}
			if !strings.HasPrefix(names[i].name, "`drain`") {
				continue
			}
			strictly := sh.name == "burst" || sh.name == "poison_storm"
			if strictly && s.late >= azure.late {
				t.Errorf("%s, %s: %v over the objective, azure-queue %v", sh.name, names[i].name, s.late, azure.late)
			}
			if names[i].name == "`drain`" && s.late > azure.late {
				t.Errorf("%s: drain %v over the objective, azure-queue %v", sh.name, s.late, azure.late)
			}
			if s.used >= azure.used {
				t.Errorf("%s, %s: %v of replicas, azure-queue %v", sh.name, names[i].name, s.used, azure.used)
			}
		}
	}
}

// B01 and the poison storm: while everything is hidden in retry delays, visible, inflight and drain let replicas go,
// and all does not.
func TestHiddenMessagesHoldNoReplicas(t *testing.T) {
	t.Parallel()
	storm := facts{
		count: countOf(500), peek: peekOf(0), hidden: 500, running: workers{known: true}, objective: time.Minute,
		handling: time.Minute, concurrency: 1, now: simEpoch,
	}
	for _, st := range []Strategy{StrategyVisible, StrategyInflight, StrategyDrain} {
		if a, err := decide(st, storm); err != nil || a.Value != 0 || a.Active(0) {
			t.Errorf("%s: %+v, %v", st, a, err)
		}
	}
	if a, err := decide(StrategyAll, storm); err != nil || a.Value != 500 {
		t.Errorf("all: %+v, %v", a, err)
	}
	// Forty good messages among them are seen, and no more.
	storm.peek, storm.count = peekOf(32), countOf(540)
	if a, err := decide(StrategyVisible, storm); err != nil || a.Value != 40 || !a.Saturated {
		t.Errorf("visible: %+v, %v", a, err)
	}
}
