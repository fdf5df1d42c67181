// Package alerts holds the alert and recording rules about a fleet of queues, as data, and writes them for
// Prometheus, the Prometheus operator, Grafana, Alertmanager and Azure Monitor.
//
// It is pure: Generate and the writers read no file, ask no service and give the same bytes for the same
// Config. The number of rules does not depend on the fleet: thresholds and tiers are read from metrics, which
// the watcher exports for every queue, with a default where one is absent.
//
// Package backtest, below this one, evaluates the rules over what a Prometheus has recorded.
package alerts

//go:generate go test -run ^Test(Golden|PromtoolFiles|Documentation)$ . -update
