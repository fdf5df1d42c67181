package grafana

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/prometheus/common/model"

	"github.com/qwatch/qwatch/alerts"
)

// A ruleGroup is a group of alert rules as the provisioning API takes it, which is not how a provisioning file has it.
type ruleGroup struct {
	Title     string      `json:"title"`
	FolderUID string      `json:"folderUid"`
	Interval  int64       `json:"interval"` // seconds
	Rules     []alertRule `json:"rules"`
}

type alertRule struct {
	UID           string            `json:"uid"`
	Title         string            `json:"title"`
	OrgID         int               `json:"orgID"`
	FolderUID     string            `json:"folderUID"`
	RuleGroup     string            `json:"ruleGroup"`
	Condition     string            `json:"condition"`
	Data          []alertQuery      `json:"data"`
	NoDataState   string            `json:"noDataState"`
	ExecErrState  string            `json:"execErrState"`
	For           string            `json:"for"`
	KeepFiringFor string            `json:"keep_firing_for,omitempty"`
	Annotations   map[string]string `json:"annotations"`
	Labels        map[string]string `json:"labels"`
	IsPaused      bool              `json:"isPaused"`
}

type alertQuery struct {
	RefID             string         `json:"refId"`
	RelativeTimeRange alertRange     `json:"relativeTimeRange"`
	DatasourceUID     string         `json:"datasourceUid"`
	Model             map[string]any `json:"model"`
}

type alertRange struct {
	From int `json:"from"`
	To   int `json:"to"`
}

// ruleGroups are the rules in the API's shape.
func ruleGroups(r alerts.Rules, folderUID, datasource string) ([]ruleGroup, error) {
	var groups []ruleGroup
	for _, g := range r.Grafana(alerts.GrafanaOptions{Datasource: datasource}) {
		interval, err := model.ParseDuration(g.Interval)
		if err != nil {
			return nil, fmt.Errorf("write rule group %s: interval: %w", g.Name, err)
		}
		made := ruleGroup{Title: g.Name, FolderUID: folderUID, Interval: int64(interval) / 1e9, Rules: []alertRule{}}
		for _, rule := range g.Rules {
			to := alertRule{
				UID: rule.UID, Title: rule.Title, OrgID: g.OrgID, FolderUID: folderUID, RuleGroup: g.Name, Condition: rule.Condition,
				NoDataState: rule.NoDataState, ExecErrState: rule.ExecErrState, For: rule.For, KeepFiringFor: rule.KeepFiringFor,
				Annotations: rule.Annotations, Labels: rule.Labels, IsPaused: rule.IsPaused,
			}
			for _, q := range rule.Data {
				to.Data = append(to.Data, alertQuery{q.RefID, alertRange(q.RelativeTimeRange), q.DatasourceUID, queryModel(q.Model)})
			}
			made.Rules = append(made.Rules, to)
		}
		groups = append(groups, made)
	}
	return groups, nil
}

func queryModel(m alerts.GrafanaModel) map[string]any {
	made := map[string]any{"refId": m.RefID}
	if m.Type != "" {
		made["type"], made["expression"] = m.Type, m.Expression
		return made
	}
	made["expr"], made["instant"], made["range"] = m.Expr, m.Instant, m.Range
	return made
}

// pushRules puts the whole group: a rule in it that is no longer generated goes.
func (c *Client) pushRules(ctx context.Context, p Plan, g ruleGroup) (Change, error) {
	change := Change{Kind: KindRuleGroup, UID: g.Title, Title: g.Title, Action: Create}
	path := "/api/v1/provisioning/folder/" + url.PathEscape(p.FolderUID) + "/rule-groups/" + url.PathEscape(g.Title)
	var there map[string]any
	err := c.call(ctx, http.MethodGet, path, nil, &there)
	switch {
	case err == nil:
		change.Action = Update
		if change.Details, err = changedRules(g, there); err != nil {
			return change, err
		}
		if len(change.Details) == 0 {
			change.Action, change.Done = Unchanged, true
			return change, nil
		}
	case !isMissing(err):
		return change, err
	}
	if p.DryRun {
		return change, nil
	}
	err = c.call(ctx, http.MethodPut, path, g, nil)
	change.Done = err == nil
	return change, err
}

// changedRules says what differs between a group and what is there.
func changedRules(g ruleGroup, there map[string]any) ([]string, error) {
	text, err := json.Marshal(g)
	if err != nil {
		return nil, fmt.Errorf("write rule group: %w", err)
	}
	var want map[string]any
	if err := json.Unmarshal(text, &want); err != nil {
		return nil, fmt.Errorf("read rule group: %w", err)
	}
	before := map[string]any{}
	var gone []string
	for _, r := range list(there["rules"]) {
		uid := ruleUID(r)
		before[uid] = r
		gone = append(gone, uid)
	}
	var changed []string
	for _, r := range list(want["rules"]) {
		uid := ruleUID(r)
		delete(r.(map[string]any), "orgID") // Grafana takes the token's
		was, found := before[uid]
		delete(before, uid)
		switch {
		case !found:
			changed = append(changed, "adds rule "+uid)
		case len(differences(r, was)) > 0:
			changed = append(changed, "changes rule "+uid)
		}
	}
	for _, uid := range gone {
		if _, left := before[uid]; left {
			changed = append(changed, "removes rule "+uid)
		}
	}
	if there["interval"] != want["interval"] {
		changed = append(changed, "changes interval")
	}
	return changed, nil
}

func ruleUID(r any) string {
	m, _ := r.(map[string]any)
	uid, _ := m["uid"].(string)
	return uid
}
