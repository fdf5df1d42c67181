// Package grafana brings dashboards and Grafana-managed alert rules to a Grafana, by its HTTP API.
//
// It owns the API: folders, dashboards and the provisioning of alert rules, and what differs between what is there and what
// should be. What dashboards and rules are is left to packages dashboards and alerts.
package grafana
