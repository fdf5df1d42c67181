package config_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/internal/config"
)

// What is nearest to the queue is what drain assumes.
func TestScalingOf(t *testing.T) {
	t.Parallel()
	cfg, _, err := config.Parse("qwatch.yaml", []byte(`
accounts:
  - name: shop
    connectionString: UseDevelopmentStorage=true
    discovery: {}
    queues:
      - {name: own, scaling: {handlingTime: 2s, concurrency: 7}, consumer: {handler: {exec: {command: [sh]}}, concurrency: 3}}
      - {name: consumed, consumer: {handler: {exec: {command: [sh]}}, concurrency: 3}}
      - {name: watched}
      - {name: by-pattern}
scaling: {peers: " workers , 10.0.0.1:80,", handlingTime: 9s, concurrency: 4}
defaults: [{match: "by-*", scaling: {handlingTime: 5s}}]
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	type assumed struct {
		HandlingTime time.Duration
		Concurrency  int
	}
	got := map[string]assumed{}
	for _, name := range []string{"own", "consumed", "watched", "by-pattern", "by-discovery", "other"} {
		handlingTime, concurrency := cfg.ScalingOf(cfg.QueueFor("shop", name))
		got[name] = assumed{handlingTime, concurrency}
	}
	want := map[string]assumed{
		"own": {2 * time.Second, 7}, "consumed": {9 * time.Second, 3}, "watched": {9 * time.Second, 4},
		"by-pattern": {5 * time.Second, 4}, "by-discovery": {5 * time.Second, 4}, "other": {9 * time.Second, 4},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"workers", "10.0.0.1:80"}, cfg.Scaling.PeerHosts()); diff != "" {
		t.Errorf("peers (-want +got):\n%s", diff)
	}
}
