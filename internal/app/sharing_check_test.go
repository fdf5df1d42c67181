package app_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/qwatch/qwatch/internal/app"
	"github.com/qwatch/qwatch/internal/config"
)

// A configuration for pods is good wherever it is checked; where it is run, what is missing is told with its place.
func TestSharingIsCheckedAnywhere(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("POD_NAME", "a-laptop")
	const account = `accounts:
  - name: acct
    connectionString: UseDevelopmentStorage=true
    queues: [{name: orders}]
server: {listen: "127.0.0.1:0", probes: off, grpc: off}
`
	for name, tt := range map[string]struct{ text, check, run string }{
		"a leader, in a cluster": {
			text: "watch: {mode: leader}\n",
			run:  "qwatch.yaml:6: watch.leader: this is not a pod with a service account",
		},
		"a leader, by a kubeconfig that is not there": {
			text:  "watch: {mode: leader, leader: {kubeconfig: /nowhere/kubeconfig}}\n",
			check: "qwatch.yaml:6: watch.leader: read kubeconfig: ",
			run:   "qwatch.yaml:6: watch.leader: read kubeconfig: ",
		},
		"shards of a StatefulSet": {
			text: `watch: {mode: shard, shard: {count: 2, peers: ["http://q-{index}:9780"]}}` + "\n",
			run:  `qwatch.yaml:6: watch.shard.index: the host is called "a-laptop", which does not end with a number`,
		},
		"authorities that are not there": {
			text:  `watch: {mode: shard, shard: {index: "0", count: 2, peers: ["https://q-{index}:9780"]}, peers: {caFile: /nowhere/ca.pem}}` + "\n",
			check: "qwatch.yaml:6: watch.shard: ", run: "/nowhere/ca.pem",
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, _, err := config.Parse(filepath.Base("qwatch.yaml"), []byte(account+tt.text), nil)
			if err != nil {
				t.Fatal(err)
			}
			expectConfigError(t, "check", func() error { _, err := app.Check(cfg); return err }(), tt.check)
			expectConfigError(t, "run", app.Run(t.Context(), app.Options{Config: cfg}), tt.run)
		})
	}
}

func expectConfigError(t *testing.T, what string, err error, want string) {
	t.Helper()
	if want == "" {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
		return
	}
	if _, ok := errors.AsType[*app.ConfigError](err); !ok || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: %v (%T), want %q in an *app.ConfigError", what, err, err, want)
	}
}
