package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestPushReportsWhatItDid runs the command against a Grafana that has nothing; internal/grafana holds the API.
func TestPushReportsWhatItDid(t *testing.T) {
	t.Parallel()
	var wrote []string
	keep := func([]byte) {}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Authorization") != "Bearer glsa_secret":
			w.WriteHeader(http.StatusUnauthorized)
		case r.Method == http.MethodGet:
			w.WriteHeader(http.StatusNotFound)
		default:
			wrote = append(wrote, r.Method+" "+r.URL.Path)
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			keep(body)
		}
		_, _ = w.Write([]byte("{}"))
	}))
	t.Cleanup(server.Close)
	env := map[string]string{"GRAFANA_URL": server.URL, "GRAFANA_TOKEN": "glsa_secret\n", "NO_COLOR": "1"}

	c, out, errs := terminal("", env)
	if status := c.main(t.Context(), []string{"dashboards", "push", "--dry-run", "--rules", "--datasource", "prom"}); status != exitDone || len(wrote) != 0 {
		t.Errorf("dry run: status %d, wrote %v: %s", status, wrote, errs)
	}
	if got := out.String(); strings.Count(got, "would create") < 8 || !strings.Contains(got, "qwatch-fleet") {
		t.Errorf("dry run: %s", got)
	}

	linked := 0
	keep = func(body []byte) {
		linked += strings.Count(string(body), `"dashboard_url":"https://grafana.example.org/d/qwatch-queue?`)
	}
	c, out, errs = terminal("", env)
	args := []string{"dashboards", "push", "--rules", "--datasource", "prom", "--public-url", "https://grafana.example.org"}
	if status := c.main(t.Context(), args); status != exitDone || linked < 10 || strings.Contains(out.String(), "would") {
		t.Errorf("with rules: status %d, %d alerts link to the queue's dashboard: %s%s", status, linked, out, errs)
	}
	wrote, keep = nil, func([]byte) {}

	c, out, errs = terminal("", env)
	if status := c.main(t.Context(), []string{"dashboards", "push", "-o", "json"}); status != exitDone || len(wrote) != 6 || errs.Len() != 0 {
		t.Errorf("status %d, wrote %v: %s", status, wrote, errs)
	}
	var changes []struct {
		Kind, UID, Action string
		Done              bool
	}
	if err := json.Unmarshal(out.Bytes(), &changes); err != nil || len(changes) != 6 || !changes[5].Done || changes[5].Action != "create" {
		t.Errorf("%v: %+v", err, changes)
	}
	if strings.Contains(out.String()+errs.String(), "glsa_") {
		t.Error("the token shows")
	}
}

func TestATokenInClearIsWarnedAbout(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{
		"http://grafana.example": true, "http://10.0.0.1:3000": true, "https://grafana.example": false,
		"http://localhost:3000": false, "http://127.0.0.1:3000": false, "http://[::1]:3000": false,
	} {
		if got := inClear(address); got != want {
			t.Errorf("%s: %t", address, got)
		}
	}
}
