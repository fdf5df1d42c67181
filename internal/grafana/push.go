package grafana

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/qwatch/qwatch/alerts"
	"github.com/qwatch/qwatch/dashboards"
)

// The kinds of things that are pushed.
const (
	KindFolder    = "folder"
	KindDashboard = "dashboard"
	KindRuleGroup = "rule group"
)

// An Action is what is done, or would be, to bring a thing to what it should be.
type Action string

// The actions.
const (
	Create    Action = "create"
	Update    Action = "update"
	Unchanged Action = "unchanged"
)

// A Change is what became of one thing.
type Change struct {
	Kind    string   `json:"kind"`
	UID     string   `json:"uid"` // of a rule group: its name
	Title   string   `json:"title"`
	Action  Action   `json:"action"`
	Details []string `json:"details,omitempty"` // what differs
	URL     string   `json:"url,omitempty"`     // where to see it; "" when it is not there
	Done    bool     `json:"done"`              // false: a dry run, or it failed
	Error   string   `json:"error,omitempty"`
}

// Plan is what shall be in Grafana.
type Plan struct {
	// FolderUID and FolderTitle are the folder of everything. Required. A folder that is there keeps its title.
	FolderUID, FolderTitle string
	// Dashboards go there in their classic shape.
	Dashboards []dashboards.Dashboard
	// Rules are pushed as Grafana-managed alert rules. Nil: none are, and those that are there stay.
	Rules *alerts.Rules
	// Datasource is the uid of the Prometheus that rules ask. Default: the default data source of Grafana, or its only
	// one, of the type prometheus.
	Datasource string
	// Message is kept with the new version of each dashboard. Default: none.
	Message string
	// DryRun asks, and changes nothing.
	DryRun bool
}

// Push brings Grafana to what the plan says, and returns what it did for each thing, in the plan's order, the folder first.
// What is right already is left alone, so pushing again changes nothing. A thing that fails does not keep others from being
// pushed; the error joins all. When the folder cannot be had there is nothing more to do.
func (c *Client) Push(ctx context.Context, p Plan) ([]Change, error) {
	var changes []Change
	var faults []error
	add := func(change Change, err error) {
		if err != nil {
			err = fmt.Errorf("push %s %s: %w", change.Kind, change.UID, err)
			change.Error, change.Done = err.Error(), false
			faults = append(faults, err)
		}
		changes = append(changes, change)
	}
	if add(c.pushFolder(ctx, p)); len(faults) > 0 {
		return changes, errors.Join(faults...)
	}
	for _, d := range p.Dashboards {
		add(c.pushDashboard(ctx, p, d))
	}
	if p.Rules != nil {
		if p.Datasource == "" {
			uid, err := c.datasource(ctx)
			if err != nil {
				return changes, errors.Join(append(faults, fmt.Errorf("push rules: find the data source: %w", err))...)
			}
			p.Datasource = uid
		}
		groups, err := ruleGroups(*p.Rules, p.FolderUID, p.Datasource)
		if err != nil {
			return changes, errors.Join(append(faults, err)...)
		}
		for _, g := range groups {
			add(c.pushRules(ctx, p, g))
		}
	}
	return changes, errors.Join(faults...)
}

func (c *Client) pushFolder(ctx context.Context, p Plan) (Change, error) {
	change := Change{Kind: KindFolder, UID: p.FolderUID, Title: p.FolderTitle, Action: Unchanged}
	var there struct{ Title, URL string }
	path := "/api/folders/" + url.PathEscape(p.FolderUID)
	err := c.call(ctx, http.MethodGet, path, nil, &there)
	switch {
	case err == nil:
		change.Title, change.URL, change.Done = there.Title, there.URL, true
		return change, nil
	case !isMissing(err):
		return change, err
	}
	change.Action = Create
	if p.DryRun {
		return change, nil
	}
	err = c.call(ctx, http.MethodPost, "/api/folders", map[string]any{"uid": p.FolderUID, "title": p.FolderTitle}, &there)
	change.URL, change.Done = there.URL, err == nil
	return change, err
}

func (c *Client) pushDashboard(ctx context.Context, p Plan, d dashboards.Dashboard) (Change, error) {
	change := Change{Kind: KindDashboard, UID: d.UID, Title: d.Title, Action: Create}
	text, err := d.Classic()
	if err != nil {
		return change, err
	}
	var want map[string]any
	if err := json.Unmarshal(text, &want); err != nil {
		return change, fmt.Errorf("read the dashboard: %w", err)
	}
	var there struct {
		Dashboard map[string]any
		Meta      struct {
			FolderUID, URL string
			Provisioned    bool
		}
	}
	err = c.call(ctx, http.MethodGet, "/api/dashboards/uid/"+url.PathEscape(d.UID), nil, &there)
	switch {
	case err == nil:
		change.Action, change.URL = Update, there.Meta.URL
		change.Details = changedPanels(want, there.Dashboard)
		if there.Meta.FolderUID != p.FolderUID {
			change.Details = append(change.Details, fmt.Sprintf("moves from folder %q", there.Meta.FolderUID))
		}
		if len(change.Details) == 0 {
			change.Action, change.Done = Unchanged, true
			return change, nil
		}
		if there.Meta.Provisioned {
			return change, errors.New("it is provisioned from a file on Grafana's side: change it there, or remove it there first")
		}
		want["version"] = there.Dashboard["version"] // refused when somebody saves another meanwhile
	case !isMissing(err):
		return change, err
	}
	if p.DryRun {
		return change, nil
	}
	var saved struct{ URL string }
	err = c.call(ctx, http.MethodPost, "/api/dashboards/db", map[string]any{
		"dashboard": want, "folderUid": p.FolderUID, "message": p.Message, "overwrite": false,
	}, &saved)
	if err == nil {
		change.URL, change.Done = saved.URL, true
	}
	return change, err
}

// datasource finds the Prometheus of a Grafana that has one, or a default one.
func (c *Client) datasource(ctx context.Context) (string, error) {
	var all []struct {
		UID, Name, Type string
		IsDefault       bool
	}
	if err := c.call(ctx, http.MethodGet, "/api/datasources", nil, &all); err != nil {
		return "", fmt.Errorf("%w; name its uid instead", err)
	}
	var found []string
	for _, d := range all {
		if d.Type != "prometheus" {
			continue
		}
		if d.IsDefault {
			return d.UID, nil
		}
		found = append(found, d.UID)
	}
	if len(found) == 1 {
		return found[0], nil
	}
	return "", fmt.Errorf("grafana has %d data sources of the type prometheus and none of them is the default: name one's uid", len(found))
}
