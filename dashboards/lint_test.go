package dashboards_test

import (
	"encoding/json"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/dashboardv2"

	"github.com/qwatch/qwatch/dashboards"
	"github.com/qwatch/qwatch/internal/metric"
)

func TestUIDsAreTheOnesPromised(t *testing.T) {
	t.Parallel()
	var uids []string
	for _, d := range generate(t, dashboards.Config{}) {
		uids = append(uids, d.UID)
		if g := parse(t, d); g.UID != d.UID || g.Title != d.Title || g.Description != d.About || g.Description == "" {
			t.Errorf("%s: uid %q, title %q, description %q", d.UID, g.UID, g.Title, g.Description)
		}
	}
	if diff := cmp.Diff([]string{"qwatch-fleet", "qwatch-queue", "qwatch-consumers", "qwatch-poison", "qwatch-self"}, uids); diff != "" {
		t.Errorf("uids (-want +got):\n%s", diff)
	}
}

// TestLint holds the rules of grafana/dashboard-linter that need no parser; test/ holds those about expressions.
func TestLint(t *testing.T) {
	t.Parallel()
	for _, d := range generate(t, dashboards.Config{}) {
		g := parse(t, d)
		if g.Editable == nil || *g.Editable {
			t.Errorf("%s can be edited, and edits would be lost", d.UID)
		}
		lintVariables(t, g)
		for _, p := range g.panels() {
			lintPanel(t, d.UID, p)
		}
	}
}

func lintVariables(t *testing.T, g grafanaDashboard) {
	t.Helper()
	var names []string
	for _, v := range g.Templating.List {
		names = append(names, v.Name)
		switch {
		case v.Name == "datasource":
			if v.Type != "datasource" {
				t.Errorf("%s: the variable datasource is a %s", g.UID, v.Type)
			}
		case v.Type != "query" || v.Refresh != 2 || !v.Multi || !v.IncludeAll || v.AllValue != ".+":
			t.Errorf("%s: variable %+v: want a query, read again when the time changes, with several and All as .+", g.UID, v)
		}
	}
	if diff := cmp.Diff([]string{"datasource", "account", "queue_name"}, names); diff != "" {
		t.Errorf("%s: variables (-want +got):\n%s", g.UID, diff)
	}
}

var chosen = map[string]string{"type": "prometheus", "uid": "${datasource}"}

func lintPanel(t *testing.T, uid string, p grafanaPanel) {
	t.Helper()
	fault := func(format string, args ...any) {
		t.Helper()
		t.Errorf("%s, panel %d %q: "+format, append([]any{uid, p.ID, p.Title}, args...)...)
	}
	if p.Title == "" || len(p.Description) < 20 || !strings.HasSuffix(p.Description, ".") {
		fault("title or description is missing: %q", p.Description)
	}
	if p.Type == "text" { // has nothing to ask and nothing to measure
		return
	}
	if p.FieldConfig.Defaults["unit"] == nil || p.FieldConfig.Defaults["unit"] == "" {
		fault("no unit")
	}
	if p.FieldConfig.Defaults["noValue"] == nil {
		fault("does not say why it is empty when it is")
	}
	if !maps.Equal(p.Datasource, chosen) {
		fault("datasource %v", p.Datasource)
	}
	if len(p.Targets) == 0 {
		fault("no target")
	}
	refs := map[string]bool{}
	for _, q := range p.Targets {
		if now := p.Type == "stat" || p.Type == "table" || p.Type == "bargauge"; now != q.Instant {
			fault("target %s: instant is %t: what ended long ago would look like now, or the past like a moment", q.RefID, q.Instant)
		}
		if q.Expr == "" || refs[q.RefID] || !maps.Equal(q.Datasource, chosen) || q.Instant == q.Range {
			fault("target %+v", q)
		}
		if q.LegendFormat == "" && q.Format != "table" {
			fault("target %s has no legend", q.RefID)
		}
		refs[q.RefID] = true
	}
}

func TestTheGridFits(t *testing.T) {
	t.Parallel()
	for _, c := range []dashboards.Config{{}, {Compact: true}} {
		for _, d := range generate(t, c) {
			taken := map[[2]int]string{}
			bottom := 0
			for _, p := range parse(t, d).Panels {
				g := p.GridPos
				if g.X < 0 || g.W < 1 || g.X+g.W > 24 || g.H < 1 {
					t.Errorf("%s: %q is at %+v", d.UID, p.Title, g)
				}
				if len(p.Panels) > 0 {
					t.Errorf("%s: the row %q holds panels, which Grafana drops", d.UID, p.Title)
				}
				if p.Type == "row" && g.Y < bottom {
					t.Errorf("%s: the row %q begins at %d, within the one before that ends at %d", d.UID, p.Title, g.Y, bottom)
				}
				for x := g.X; x < g.X+g.W; x++ {
					for y := g.Y; y < g.Y+g.H; y++ {
						if other := taken[[2]int{x, y}]; other != "" {
							t.Fatalf("%s: %q and %q overlap at %d, %d", d.UID, other, p.Title, x, y)
						}
						taken[[2]int{x, y}] = p.Title
					}
				}
				bottom = max(bottom, g.Y+g.H)
			}
			if area := 24 * bottom; len(taken)*100 < area*85 {
				t.Errorf("%s has holes: %d of %d cells are used", d.UID, len(taken), area)
			}
		}
	}
}

// TestLinksResolve follows every link: those to a dashboard must lead to one of ours and keep what was chosen.
func TestLinksResolve(t *testing.T) {
	t.Parallel()
	all := generate(t, dashboards.Config{PageURL: "https://qwatch.example.org", RunbookURL: "https://runbooks.example.org"})
	known := map[string]bool{}
	for _, d := range all {
		known["/d/"+d.UID] = true
	}
	leadsTo := map[string]map[string]bool{}
	for _, d := range all {
		g := parse(t, d)
		leadsTo[d.UID] = map[string]bool{}
		for _, l := range g.Links {
			if inside := strings.HasPrefix(l.URL, "/"); inside != known[l.URL] || inside && !(l.IncludeVars && l.KeepTime) {
				t.Errorf("%s: link %+v", d.UID, l)
			}
			leadsTo[d.UID][l.URL] = true
		}
		for _, p := range g.panels() {
			for _, l := range dataLinks(p) {
				checkDataLink(t, d.UID, p, l, known)
			}
		}
		if len(g.Links) != len(all) || !leadsTo[d.UID]["https://qwatch.example.org"] {
			t.Errorf("%s links to %v, not to all others and the page", d.UID, slices.Sorted(maps.Keys(leadsTo[d.UID])))
		}
	}
}

func dataLinks(p grafanaPanel) []string {
	var urls []string
	collect := func(v any) {
		list, _ := v.([]any)
		for _, l := range list {
			urls = append(urls, l.(map[string]any)["url"].(string))
		}
	}
	collect(p.FieldConfig.Defaults["links"])
	for _, o := range p.FieldConfig.Overrides {
		for _, s := range o.Properties {
			if s.ID == "links" {
				collect(s.Value)
			}
		}
	}
	return urls
}

var fieldVariable = regexp.MustCompile(`\$\{__(data\.fields|field\.labels)\.([A-Za-z_]+)\}`)

func checkDataLink(t *testing.T, uid string, p grafanaPanel, link string, known map[string]bool) {
	t.Helper()
	if strings.HasPrefix(link, "https://runbooks.example.org/") {
		return
	}
	path, query, _ := strings.Cut(link, "?")
	values, err := url.ParseQuery(strings.ReplaceAll(query, "&${__url_time_range}", ""))
	if err != nil || !known[path] || !strings.Contains(query, "&${__url_time_range}") || values.Get("var-datasource") != "${datasource}" ||
		values.Get("var-account") == "" || values.Get("var-queue_name") == "" {
		t.Errorf("%s, %q: link %s", uid, p.Title, link)
	}
	for _, m := range fieldVariable.FindAllStringSubmatch(link, -1) {
		switch {
		case m[1] == "field.labels":
			for _, q := range p.Targets {
				if !strings.Contains(q.LegendFormat, "{{"+m[2]+"}}") {
					t.Errorf("%s, %q: a link reads the label %s, which %s does not name", uid, p.Title, m[2], q.Expr)
				}
			}
		case !slices.ContainsFunc(p.FieldConfig.Overrides, func(o struct {
			Matcher    struct{ ID, Options string }
			Properties []struct {
				ID    string
				Value any
			}
		},
		) bool {
			return o.Matcher.Options == m[2]
		}):
			t.Errorf("%s, %q: a link reads the column %s, which there is not", uid, p.Title, m[2])
		}
	}
}

// The palette: a colour has one meaning, and no panel invents another.
func TestColoursAreThePalettes(t *testing.T) {
	t.Parallel()
	palette := []string{"green", "yellow", "red", "orange", "purple", "blue", "light-blue", "super-light-blue", "gray", "dark-yellow"}
	for _, d := range generate(t, dashboards.Config{}) {
		for _, p := range parse(t, d).panels() {
			for _, c := range colours(t, p) {
				if !slices.Contains(palette, c) {
					t.Errorf("%s, %q has the colour %s", d.UID, p.Title, c)
				}
			}
		}
	}
}

func colours(t *testing.T, p grafanaPanel) []string {
	t.Helper()
	text, err := json.Marshal(p.FieldConfig)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, m := range regexp.MustCompile(`"(?:color|fixedColor)":"([^"]+)"`).FindAllStringSubmatch(string(text), -1) {
		all = append(all, m[1])
	}
	return all
}

// unused are the metrics that no panel reads, and why. A new metric belongs on a dashboard or here.
var unused = map[string]string{}

var (
	quoted = regexp.MustCompile(`"[^"]*"`)
	word   = regexp.MustCompile(`\b[A-Za-z_][A-Za-z0-9_]*`)
)

func TestEveryMetricIsUsedOrListed(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	for _, d := range generate(t, dashboards.Config{}) {
		for _, q := range d.Queries() {
			for _, w := range word.FindAllString(quoted.ReplaceAllString(q.Expr, ""), -1) {
				used[w] = true
			}
		}
	}
	for _, def := range metric.Catalogue() {
		isUsed := used[def.Name] || used[def.Name+"_bucket"] || used[def.Name+"_count"]
		if reason := unused[def.Name]; isUsed == (reason != "") {
			t.Errorf("%s: used %t, listed as unused %t: give it a panel, or a reason in unused", def.Name, isUsed, reason != "")
		}
	}
	for name := range unused {
		if !slices.ContainsFunc(metric.Catalogue(), func(d metric.Def) bool { return d.Name == name }) {
			t.Errorf("%s is listed as unused and does not exist", name)
		}
	}
}

// TestTheCompactSetIsEnough finds no panel that reads series which the compact set leaves out.
func TestTheCompactSetIsEnough(t *testing.T) {
	t.Parallel()
	dropped := 0
	for _, def := range metric.Catalogue() {
		if def.Compact != metric.CompactDrop {
			continue
		}
		dropped++
		for _, d := range generate(t, dashboards.Config{Compact: true}) {
			for _, q := range d.Queries() {
				if strings.Contains(q.Expr, def.Name) {
					t.Errorf("%s, %q reads %s", d.UID, q.Panel, def.Name)
				}
			}
		}
	}
	if dropped == 0 {
		t.Error("the compact set drops nothing: Config.Compact can go")
	}
}

// TestTheSDKDecodesThemStrictly reads both shapes with the SDK's strict decoders, which know every panel's options.
func TestTheSDKDecodesThemStrictly(t *testing.T) {
	t.Parallel()
	plugins.RegisterDefaultPlugins()
	all := generate(t, dashboards.Config{PageURL: "https://qwatch.example.org", RunbookURL: "https://runbooks.example.org"})
	for _, d := range all {
		text, err := d.Classic()
		if err != nil {
			t.Fatal(err)
		}
		//lint:ignore SA1019 what is tested
		if faults := strictly(new(dashboard.Dashboard), text); len(faults) > 0 {
			t.Errorf("%s, classic: %s", d.UID, strings.Join(faults, "\n"))
		}
		if text, err = d.Resource("folder"); err != nil {
			t.Fatal(err)
		}
		var m struct {
			APIVersion, Kind string
			Metadata         struct {
				Name        string
				Annotations map[string]string
			}
			Spec json.RawMessage
		}
		if err := json.Unmarshal(text, &m); err != nil {
			t.Fatal(err)
		}
		if m.APIVersion != "dashboard.grafana.app/v2" || m.Kind != "Dashboard" || m.Metadata.Name != d.UID || m.Metadata.Annotations["grafana.app/folder"] != "folder" {
			t.Errorf("%s: resource %+v", d.UID, m)
		}
		if faults := strictly(new(dashboardv2.Dashboard), m.Spec); len(faults) > 0 {
			t.Errorf("%s, resource: %s", d.UID, strings.Join(faults, "\n"))
		}
	}
	// The decoder must be able to say no.
	if faults := strictly(new(dashboardv2.Dashboard), []byte(`{"title": 1, "colour": "red"}`)); len(faults) == 0 {
		t.Error("the strict decoder takes anything")
	}
}

// strictly decodes; the SDK returns a typed nil when all is well.
func strictly(into interface{ UnmarshalJSONStrict([]byte) error }, text []byte) []string {
	err := into.UnmarshalJSONStrict(text)
	if err == nil || strings.TrimSpace(err.Error()) == "" {
		return nil
	}
	return strings.Split(err.Error(), "\n")
}
