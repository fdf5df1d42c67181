// Package dashboards generates Grafana dashboards for the metrics of internal/metric: the fleet, one queue,
// the consumers, the poison queues and qwatch itself.
//
// It owns what the dashboards show and how that is written: as classic JSON, as dashboard.grafana.app/v2 resources,
// as ConfigMaps for a sidecar and as a folder for Grafana's provisioning. It is pure: the same Config gives the same bytes,
// and nothing is asked of a network or a disk. Sending dashboards to a Grafana is left to internal/grafana.
package dashboards
