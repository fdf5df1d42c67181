package alerts_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"

	"github.com/qwatch/qwatch/alerts"
	"github.com/qwatch/qwatch/alerts/scenario"
)

const (
	page      = "../docs/alerts.md"
	tableMark = "<!-- generated: %s -->\n"
	tableEnd  = "<!-- end -->\n"
)

// TestDocumentation keeps the tables of docs/alerts.md.
func TestDocumentation(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	want := string(text)
	for name, table := range map[string]string{"alerts": alertTable(t), "stories": storyTable(), "excused": excusedTable()} {
		before, rest, found := strings.Cut(want, fmt.Sprintf(tableMark, name))
		_, after, ended := strings.Cut(rest, tableEnd)
		if !found || !ended {
			t.Fatalf("%s has no place for the table of %s", page, name)
		}
		want = before + fmt.Sprintf(tableMark, name) + table + tableEnd + after
	}
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Errorf("%s is not current; run go test ./alerts -update (-want +got):\n%s", page, diff)
	}
}

func alertTable(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("| alert | about | asks for | after | says |\n|---|---|---|---|---|\n")
	for _, g := range generate(t, alerts.Config{}).Groups {
		for _, r := range g.Rules {
			if r.Alert == "" {
				continue
			}
			name := fmt.Sprintf("[%s](runbooks/%s.md)", r.Alert, r.Alert)
			if r.Window != "" {
				name += " `" + r.Window + "`"
			}
			summary := strings.NewReplacer(
				"{{ $labels.account }}/{{ $labels.queue_name }}", "*queue*", "{{ $labels.account }}", "*account*", "{{ $labels.instance }}", "*instance*",
				"{{ $labels.check }}", "*check*", "{{ $value | humanizeDuration }}", "*time*", "{{ $value | humanize }}", "*n*",
				"{{ with $labels.cluster }} in {{ . }}{{ end }}", "",
			).Replace(r.Annotations["summary"])
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", name, r.Scope, r.Class, model.Duration(r.For), summary)
		}
	}
	return b.String()
}

func storyTable() string {
	var b strings.Builder
	b.WriteString("| what happens | what is heard |\n|---|---|\n")
	for _, s := range stories() {
		fmt.Fprintf(&b, "| %s | %s |\n", s.Name, heard(s))
	}
	return b.String()
}

// heard are the alerts that the story expects, each with the first minute at which it is looked for.
func heard(s *scenario.Scenario) string {
	var names []string
	seen := map[string]bool{}
	for _, e := range s.Expect {
		for _, a := range e.Firing {
			words := strings.Fields(a)
			if what := words[0] + " (" + words[1] + ")"; !seen[what] {
				seen[what] = true
				names = append(names, what)
			}
		}
	}
	if len(names) == 0 {
		return "nothing"
	}
	return strings.Join(names, ", ")
}

// excusedTable is what is not played on the brink, and why.
func excusedTable() string {
	var b strings.Builder
	b.WriteString("| alert | is not played with | because |\n|---|---|---|\n")
	for _, one := range brinks() {
		for _, k := range kinds() {
			if why := one.excused[k]; why != "" {
				name := one.alert
				if one.window != "" {
					name += " `" + one.window + "`"
				}
				fmt.Fprintf(&b, "| %s | %s | %s |\n", name, k, why)
			}
		}
	}
	return b.String()
}
