package grafana_test

import (
	"net/url"
	"testing"

	"github.com/qwatch/qwatch/alerts"
	"github.com/qwatch/qwatch/dashboards"
)

// TestAlertsLinkToDashboardsThatThereAre holds the two generators together, which know nothing of each other.
func TestAlertsLinkToDashboardsThatThereAre(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, d := range plan(t).Dashboards {
		known["/d/"+d.UID] = true
	}
	rules, err := alerts.Generate(alerts.Config{Grafana: "https://grafana.example.org"})
	if err != nil {
		t.Fatal(err)
	}
	leads := map[string]int{}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			if r.Alert == "" {
				continue
			}
			u, err := url.Parse(r.Annotations["dashboard_url"])
			if err != nil || u.Host != "grafana.example.org" || !known[u.Path] {
				t.Errorf("%s leads to %q: %v", r.Alert, r.Annotations["dashboard_url"], err)
				continue
			}
			leads[u.Path]++
			for name := range u.Query() {
				if name != "var-account" && name != "var-queue_name" {
					t.Errorf("%s sets %s, which is no variable of the dashboards", r.Alert, name)
				}
			}
		}
	}
	if leads["/d/"+dashboards.UIDQueue] == 0 || leads["/d/"+dashboards.UIDSelf] == 0 {
		t.Errorf("alerts lead to %v", leads)
	}
}
