package grafana_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

const token = "glsa_0123456789abcdef"

// A server behaves as Grafana's documentation of its HTTP API says; no Grafana can be run here.
type server struct {
	*httptest.Server

	mu          sync.Mutex
	folders     map[string]map[string]any
	dashboards  map[string]*saved
	groups      map[string]map[string]any // by folder/title
	datasources []map[string]any
	asked       []string                                      // method and path of every request
	before      func(http.ResponseWriter, *http.Request) bool // answers instead, when it returns true
}

type saved struct {
	model       map[string]any
	folder      string
	message     string
	provisioned bool
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{
		folders: map[string]map[string]any{}, dashboards: map[string]*saved{}, groups: map[string]map[string]any{},
		datasources: []map[string]any{{"uid": "loki", "type": "loki", "isDefault": true}, {"uid": "prom", "type": "prometheus", "isDefault": false}},
	}
	s.Server = httptest.NewServer(s.handler())
	t.Cleanup(s.Close)
	return s
}

func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/folders/{uid}", s.getFolder)
	mux.HandleFunc("POST /api/folders", s.postFolder)
	mux.HandleFunc("GET /api/dashboards/uid/{uid}", s.getDashboard)
	mux.HandleFunc("POST /api/dashboards/db", s.postDashboard)
	mux.HandleFunc("GET /api/datasources", func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, s.datasources) })
	mux.HandleFunc("GET /api/v1/provisioning/folder/{folder}/rule-groups/{group}", s.getGroup)
	mux.HandleFunc("PUT /api/v1/provisioning/folder/{folder}/rule-groups/{group}", s.putGroup)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.asked = append(s.asked, r.Method+" "+r.URL.Path)
		if s.before != nil && s.before(w, r) {
			return
		}
		if r.Header.Get("Authorization") != "Bearer "+token {
			refuse(w, 401, "Invalid API key")
			return
		}
		mux.ServeHTTP(w, r)
	})
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func refuse(w http.ResponseWriter, status int, message string) {
	answer(w, status, map[string]any{"message": message})
}

func (s *server) getFolder(w http.ResponseWriter, r *http.Request) {
	if f, ok := s.folders[r.PathValue("uid")]; ok {
		answer(w, 200, f)
		return
	}
	refuse(w, 404, "folder not found")
}

func (s *server) postFolder(w http.ResponseWriter, r *http.Request) {
	var f map[string]any
	if json.NewDecoder(r.Body).Decode(&f) != nil || f["title"] == "" || f["title"] == nil {
		refuse(w, 400, "folder title cannot be empty")
		return
	}
	uid := f["uid"].(string)
	if s.folders[uid] != nil {
		refuse(w, 409, "a folder with that uid already exists")
		return
	}
	f["id"], f["version"], f["url"] = len(s.folders)+1, 1, "/dashboards/f/"+uid+"/x"
	s.folders[uid] = f
	answer(w, 200, f)
}

func (s *server) getDashboard(w http.ResponseWriter, r *http.Request) {
	d := s.dashboards[r.PathValue("uid")]
	if d == nil {
		refuse(w, 404, "Dashboard not found")
		return
	}
	answer(w, 200, map[string]any{"dashboard": d.model, "meta": map[string]any{
		"folderUid": d.folder, "url": "/d/" + r.PathValue("uid") + "/x", "provisioned": d.provisioned, "canSave": true,
	}})
}

func (s *server) postDashboard(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Dashboard map[string]any
		FolderUID string
		Message   string
		Overwrite bool
	}
	if json.NewDecoder(r.Body).Decode(&body) != nil || body.Dashboard["title"] == "" {
		refuse(w, 400, "bad request data")
		return
	}
	if s.folders[body.FolderUID] == nil {
		refuse(w, 400, "folder not found")
		return
	}
	uid := body.Dashboard["uid"].(string)
	version := 1.
	if old := s.dashboards[uid]; old != nil {
		switch {
		case old.provisioned:
			refuse(w, 400, "Cannot save provisioned dashboard")
			return
		case body.Dashboard["version"] != old.model["version"] && !body.Overwrite:
			answer(w, 412, map[string]any{"message": "The dashboard has been changed by someone else", "status": "version-mismatch"})
			return
		}
		version = old.model["version"].(float64) + 1
	}
	// Grafana keeps what it got, and adds what it knows.
	body.Dashboard["id"], body.Dashboard["version"] = float64(len(s.dashboards)+7), version
	s.dashboards[uid] = &saved{model: body.Dashboard, folder: body.FolderUID, message: body.Message}
	answer(w, 200, map[string]any{"uid": uid, "url": "/d/" + uid + "/x", "status": "success", "version": version})
}

func (s *server) getGroup(w http.ResponseWriter, r *http.Request) {
	if g := s.groups[r.PathValue("folder")+"/"+r.PathValue("group")]; g != nil {
		answer(w, 200, g)
		return
	}
	refuse(w, 404, "rule group does not exist")
}

func (s *server) putGroup(w http.ResponseWriter, r *http.Request) {
	var g map[string]any
	if err := json.NewDecoder(r.Body).Decode(&g); err != nil {
		refuse(w, 400, err.Error())
		return
	}
	folder := r.PathValue("folder")
	if s.folders[folder] == nil {
		refuse(w, 404, "folder does not exist")
		return
	}
	for _, rule := range g["rules"].([]any) {
		if fault := ruleFault(rule.(map[string]any)); fault != "" {
			refuse(w, 400, "invalid alert rule: "+fault)
			return
		}
		normalise(rule.(map[string]any))
	}
	s.groups[folder+"/"+r.PathValue("group")] = g
	answer(w, 200, g)
}

// ruleFault says what Grafana would not take.
func ruleFault(rule map[string]any) string {
	uid, _ := rule["uid"].(string)
	title, _ := rule["title"].(string)
	condition, _ := rule["condition"].(string)
	data, _ := rule["data"].([]any)
	refs := map[string]bool{}
	for _, q := range data {
		q := q.(map[string]any)
		refs[fmt.Sprint(q["refId"])] = true
		if q["datasourceUid"] == "" || q["model"] == nil {
			return "a query without a data source or a model"
		}
	}
	states := func(key string, allowed ...string) bool { return slices.Contains(allowed, fmt.Sprint(rule[key])) }
	switch {
	case uid == "" || len(uid) > 40 || strings.Trim(uid, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "":
		return "uid " + uid
	case title == "" || len(title) > 190:
		return "title " + title
	case !refs[condition]:
		return "condition " + condition
	case !states("noDataState", "OK", "NoData", "Alerting", "KeepLast") || !states("execErrState", "OK", "Error", "Alerting", "KeepLast"):
		return "state"
	}
	return ""
}

// normalise writes a rule as Grafana gives it back.
func normalise(rule map[string]any) {
	rule["id"], rule["orgID"], rule["updated"], rule["provenance"] = 3., 2., "2026-01-01T00:00:00Z", "api"
	if rule["for"] == "60m" {
		rule["for"] = "1h"
	}
	if rule["isPaused"] == false {
		delete(rule, "isPaused")
	}
	for _, q := range rule["data"].([]any) {
		m := q.(map[string]any)["model"].(map[string]any)
		m["intervalMs"], m["maxDataPoints"] = 1000., 43200.
	}
}

// writes are the requests that changed something, since the last call.
func (s *server) writes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	writes := slices.DeleteFunc(s.asked, func(r string) bool { return strings.HasPrefix(r, "GET ") })
	s.asked = nil
	return writes
}

func (s *server) groupNames() []string { return slices.Sorted(maps.Keys(s.groups)) }
