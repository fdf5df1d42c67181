package grafana_test

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/alerts"
	"github.com/qwatch/qwatch/dashboards"
	"github.com/qwatch/qwatch/internal/grafana"
)

func client(t *testing.T, c grafana.Config) *grafana.Client {
	t.Helper()
	if c.Token == "" {
		c.Token = token
	}
	made, err := grafana.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(made.Close)
	return made
}

// made are the dashboards and rules that most tests push.
var made = sync.OnceValues(func() (p grafana.Plan, err error) {
	rules, err := alerts.Generate(alerts.Config{})
	if err != nil {
		return p, err
	}
	p = grafana.Plan{FolderUID: "qwatch", FolderTitle: "Queues", Rules: &rules, Message: "qwatch test"}
	p.Dashboards, err = dashboards.Generate(dashboards.Config{})
	return p, err
})

func plan(t *testing.T) grafana.Plan {
	t.Helper()
	p, err := made()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// push pushes and returns what was done, in short.
func push(t *testing.T, s *server, p grafana.Plan) (actions map[grafana.Action]int, changes map[string]grafana.Change) {
	t.Helper()
	all, err := client(t, grafana.Config{URL: s.URL}).Push(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	actions, changes = map[grafana.Action]int{}, map[string]grafana.Change{}
	for _, c := range all {
		actions[c.Action]++
		changes[c.Kind+" "+c.UID] = c
	}
	return actions, changes
}

func TestPushMakesWhatIsNotThereAndThenNothing(t *testing.T) {
	t.Parallel()
	s, p := newServer(t), plan(t)

	actions, _ := push(t, s, p)
	groups := len(s.groups)
	if len(s.dashboards) != 5 || groups < 3 || s.folders["qwatch"]["title"] != "Queues" {
		t.Fatalf("there are %d dashboards, the rule groups %v and the folders %v", len(s.dashboards), s.groupNames(), s.folders)
	}
	if diff := cmp.Diff(map[grafana.Action]int{grafana.Create: 1 + 5 + groups}, actions); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
	if d := s.dashboards[dashboards.UIDFleet]; d.folder != "qwatch" || d.message != "qwatch test" || d.model["title"] != "qwatch / Fleet" {
		t.Errorf("the fleet's dashboard is in %q, with %q", d.folder, d.message)
	}
	for _, g := range s.groups {
		for _, r := range g["rules"].([]any) {
			query := r.(map[string]any)["data"].([]any)[0].(map[string]any)
			if query["datasourceUid"] != "prom" || query["model"].(map[string]any)["expr"] == "" {
				t.Errorf("rule asks %v", query)
			}
		}
	}
	s.writes()

	actions, changes := push(t, s, p)
	if diff := cmp.Diff(map[grafana.Action]int{grafana.Unchanged: 1 + 5 + groups}, actions); diff != "" {
		t.Errorf("again (-want +got):\n%s\n%v", diff, changes)
	}
	if w := s.writes(); len(w) != 0 {
		t.Errorf("pushing again wrote: %v", w)
	}
}

func TestPushTellsWhatItChangesBack(t *testing.T) {
	t.Parallel()
	s, p := newServer(t), plan(t)
	push(t, s, p)
	s.writes()
	// Somebody edits: a panel's title, a panel less, the refresh; a rule's threshold; and moves a dashboard.
	fleet := s.dashboards[dashboards.UIDFleet].model
	panels := fleet["panels"].([]any)
	panels[1].(map[string]any)["title"] = "Broken ones"
	removed := panels[2].(map[string]any)["title"]
	fleet["panels"] = append(append([]any{}, panels[:2]...), panels[3:]...)
	fleet["refresh"] = "5s"
	s.dashboards[dashboards.UIDPoison].folder = "elsewhere"
	group := s.groupNames()[0]
	rule := s.groups[group]["rules"].([]any)[0].(map[string]any)
	rule["data"].([]any)[0].(map[string]any)["model"].(map[string]any)["expr"] = "vector(0)"

	dry := p
	dry.DryRun = true
	for name, p := range map[string]grafana.Plan{"dry run": dry} {
		_, changes := push(t, s, p)
		if c := changes["dashboard "+dashboards.UIDFleet]; c.Done || c.Action != grafana.Update {
			t.Errorf("%s: %+v", name, c)
		}
		if w := s.writes(); len(w) != 0 {
			t.Errorf("%s wrote: %v", name, w)
		}
	}
	actions, changes := push(t, s, p)
	if actions[grafana.Update] != 3 || actions[grafana.Create] != 0 {
		t.Errorf("actions: %v", actions)
	}
	want := map[string][]string{
		"dashboard " + dashboards.UIDFleet:                   {`changes panel "Stopped"`, fmt.Sprintf("adds panel %q", removed), "changes refresh"},
		"dashboard " + dashboards.UIDPoison:                  {`moves from folder "elsewhere"`},
		"rule group " + strings.TrimPrefix(group, "qwatch/"): {"changes rule " + rule["uid"].(string)},
	}
	for what, details := range want {
		if diff := cmp.Diff(details, changes[what].Details); diff != "" || !changes[what].Done {
			t.Errorf("%s (-want +got), done %t:\n%s", what, changes[what].Done, diff)
		}
	}
	if v := s.dashboards[dashboards.UIDFleet].model["version"]; v != 2. {
		t.Errorf("the fleet's dashboard has version %v", v)
	}
	if actions, _ := push(t, s, p); actions[grafana.Update] != 0 {
		t.Errorf("after the second push: %v", actions)
	}
}

func TestADryRunOnAnEmptyGrafanaWritesNothing(t *testing.T) {
	t.Parallel()
	s, p := newServer(t), plan(t)
	p.DryRun = true
	actions, changes := push(t, s, p)
	if w := s.writes(); len(w) != 0 || len(actions) != 1 || actions[grafana.Create] < 8 {
		t.Errorf("actions %v, writes %v", actions, w)
	}
	for what, c := range changes {
		if c.Done {
			t.Errorf("%s says it was done", what)
		}
	}
}

func TestRulesStayWhereTheyAreWhenNoneArePushed(t *testing.T) {
	t.Parallel()
	s, p := newServer(t), plan(t)
	p.Rules = nil
	push(t, s, p)
	if len(s.groups) != 0 {
		t.Errorf("rule groups: %v", s.groupNames())
	}
}

func TestAFolderKeepsTheTitleThatPeopleGaveIt(t *testing.T) {
	t.Parallel()
	s, p := newServer(t), plan(t)
	s.folders["qwatch"] = map[string]any{"uid": "qwatch", "title": "Plumbing"}
	if _, changes := push(t, s, p); changes["folder qwatch"].Action != grafana.Unchanged || changes["folder qwatch"].Title != "Plumbing" {
		t.Errorf("folder: %+v", changes["folder qwatch"])
	}
}

func TestOneFailureDoesNotKeepOthersFromBeingPushed(t *testing.T) {
	t.Parallel()
	s, p := newServer(t), plan(t)
	push(t, s, p)
	s.dashboards[dashboards.UIDQueue].provisioned = true
	for _, d := range s.dashboards {
		d.model["refresh"] = "5s"
	}
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost && strings.HasSuffix(s.asked[len(s.asked)-2], dashboards.UIDPoison) {
			// Somebody saves the poison dashboard between the question and the answer.
			s.dashboards[dashboards.UIDPoison].model["version"] = 40.
		}
		return false
	}
	changes, err := client(t, grafana.Config{URL: s.URL}).Push(t.Context(), p)
	for _, want := range []string{
		"push dashboard qwatch-queue: it is provisioned from a file",
		"push dashboard qwatch-poison: grafana answered 412: The dashboard has been changed by someone else: it changed meanwhile",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	done := 0
	for _, c := range changes {
		if c.Done && c.Action == grafana.Update {
			done++
		}
		if (c.Error != "") == c.Done {
			t.Errorf("%s %s: done %t, error %q", c.Kind, c.UID, c.Done, c.Error)
		}
	}
	if done != 3 {
		t.Errorf("%d dashboards were updated, want the other 3", done)
	}
}

func TestFailuresSayWhatToDoAndKeepTheToken(t *testing.T) {
	t.Parallel()
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("another server was asked, with %q", r.Header.Get("Authorization"))
	}))
	t.Cleanup(elsewhere.Close)
	for name, tt := range map[string]struct {
		config func(*server) grafana.Config
		before func(http.ResponseWriter, *http.Request) bool
		want   string
	}{
		"a wrong token": {
			config: func(s *server) grafana.Config { return grafana.Config{URL: s.URL, Token: "glsa_other"} },
			want:   "push folder qwatch: grafana answered 401: Invalid API key: the token is not accepted",
		},
		"a token that may only read": {
			before: func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method == http.MethodPost {
					refuse(w, 403, "You'll need additional permissions")
				}
				return r.Method == http.MethodPost
			},
			want: "grafana answered 403: You'll need additional permissions: the token may not do this: its service account needs the role Editor",
		},
		"a redirect": {
			before: func(w http.ResponseWriter, r *http.Request) bool {
				http.Redirect(w, r, elsewhere.URL, http.StatusFound)
				return true
			},
			want: "grafana answered 302: it redirects",
		},
		"something that is not Grafana": {
			before: func(w http.ResponseWriter, _ *http.Request) bool {
				_, err := w.Write([]byte("<html>"))
				return err == nil
			},
			want: "read the answer: it is not Grafana's JSON",
		},
		"an answer that echoes and is long": {
			before: func(w http.ResponseWriter, _ *http.Request) bool {
				refuse(w, 500, strings.Repeat("x\n\x1b", 1000))
				return true
			},
			want: "grafana answered 500: x",
		},
		"no Prometheus among the data sources": {
			before: func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == "/api/datasources" {
					answer(w, 200, []any{})
				}
				return r.URL.Path == "/api/datasources"
			},
			want: "push rules: find the data source: grafana has 0 data sources of the type prometheus",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			s.before = tt.before
			c := grafana.Config{URL: s.URL}
			if tt.config != nil {
				c = tt.config(s)
			}
			changes, err := client(t, c).Push(t.Context(), plan(t))
			text := fmt.Sprint(err, changes)
			if err == nil || !strings.Contains(err.Error(), tt.want) || len(err.Error()) > 2000 {
				t.Errorf("error %v, want %s", err, tt.want)
			}
			if strings.Contains(text, "glsa_") {
				t.Errorf("the token shows: %s", text)
			}
		})
	}
}

func TestAServerThatHangsIsGivenUp(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(s.Close)
	t.Cleanup(func() { close(release) })
	if _, err := client(t, grafana.Config{URL: s.URL, Timeout: 50 * time.Millisecond}).Push(t.Context(), plan(t)); err == nil {
		t.Error("no error after the timeout")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := client(t, grafana.Config{URL: s.URL}).Push(ctx, plan(t)); err == nil {
		t.Error("no error after the context ended")
	}
}

func TestTLSTakesACAOfOnesOwn(t *testing.T) {
	t.Parallel()
	plain := newServer(t)
	s := httptest.NewTLSServer(plain.Config.Handler)
	t.Cleanup(s.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if _, err := client(t, grafana.Config{URL: s.URL, CA: ca}).Push(t.Context(), plan(t)); err != nil {
		t.Error(err)
	}
	if _, err := client(t, grafana.Config{URL: s.URL}).Push(t.Context(), plan(t)); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("without the CA: %v", err)
	}
}

func TestGrafanaUnderAPath(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	under := httptest.NewServer(http.StripPrefix("/grafana", s.Config.Handler))
	t.Cleanup(under.Close)
	for _, address := range []string{under.URL + "/grafana", under.URL + "/grafana/"} {
		if _, err := client(t, grafana.Config{URL: address}).Push(t.Context(), plan(t)); err != nil {
			t.Error(err)
		}
	}
}

func TestBadConfigurationIsToldAllAtOnce(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		config grafana.Config
		want   []string
	}{
		"nothing":                       {grafana.Config{}, []string{"the URL is not an absolute", "the token is empty"}},
		"a user in the URL":             {grafana.Config{URL: "https://admin:admin@g.example", Token: "t"}, []string{"the URL holds a user"}},
		"a page's URL":                  {grafana.Config{URL: "https://g.example/?orgId=1", Token: "t"}, []string{"has a query"}},
		"a CA that is none, two tokens": {grafana.Config{URL: "https://g.example", Token: "a\nb", CA: []byte("x")}, []string{"blanks in it", "no certificate in PEM"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := grafana.New(tt.config)
			for _, want := range tt.want {
				if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "admin:admin") {
					t.Errorf("error %v, want %s", err, want)
				}
			}
		})
	}
}
