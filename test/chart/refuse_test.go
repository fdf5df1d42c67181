package chart_test

import (
	"strings"
	"testing"
)

func TestChartRefusesBadValues(t *testing.T) {
	const account = "config.accounts[0].name=a,config.accounts[0].connectionString=${A}"
	group := func(more string) string {
		return account + ",consumers.g.queues[0].account=a,consumers.g.queues[0].name=orders,consumers.g.queues[0].consumer.handler.http.url=http://h/" + more
	}
	for name, tt := range map[string]struct{ set, want string }{
		"nothing configured":              {"watcher.replicas=2", "config.accounts is empty: name at least one storage account"},
		"a value that does not exist":     {account + ",watcher.replica=3", "'/watcher': additional properties 'replica' not allowed"},
		"a mode that does not exist":      {account + ",watcher.mode=leeder", "'/watcher/mode': value must be one of 'leader', 'shard', 'single'"},
		"replicas that are text":          {account + ",watcher.replicas=many", "'/watcher/replicas': got string, want integer"},
		"a secret in plain text":          {"config.accounts[0].name=a,config.accounts[0].accountKey=c2VjcmV0", "config.accounts[0].accountKey is a secret in plain text"},
		"an address the chart sets":       {account + ",config.server.listen=:80", "config.server.listen is set by the chart"},
		"a mode in the configuration":     {account + ",config.watch.mode=leader", "use watcher.mode and watcher.replicas instead"},
		"two pods that watch everything":  {account + ",watcher.mode=single", "use leader or shard"},
		"an unknown account":              {group(",consumers.g.queues[0].account=b"), `account "b" is not one of config.accounts: a`},
		"a group without a consumer":      {account + ",consumers.g.queues[0].account=a,consumers.g.queues[0].name=orders", "has no consumer, neither here nor in config"},
		"a grace shorter than the drain":  {group(",consumers.g.queues[0].consumer.drainTimeout=1m30s,consumers.g.terminationGracePeriodSeconds=60"), "would kill pods while they drain: their drainTimeout takes 195 seconds"},
		"replicas beside KEDA's":          {group(",consumers.g.scaling.enabled=true,consumers.g.replicas=2"), "KEDA owns the replicas"},
		"fewer at most than at least":     {group(",consumers.g.scaling.enabled=true,consumers.g.scaling.minReplicas=5,consumers.g.scaling.maxReplicas=2"), "maxReplicas 2 is below minReplicas 5"},
		"a fallback to nothing":           {group(",consumers.g.scaling.enabled=true,consumers.g.scaling.fallback.failureThreshold=3,consumers.g.scaling.fallback.replicas=0"), "minimum: got 0, want 1"},
		"scaling without a scaler":        {group(",consumers.g.scaling.enabled=true,watcher.enabled=false"), "needs the watcher as KEDA's scaler"},
		"running handlers behind TLS":     {group(",config.server.webConfigFile=/web.yaml,consumers.g.scaling.enabled=true"), "strategy drain asks the consumers what their handlers do, by plain HTTP"},
		"a fallback above the most":       {group(",consumers.g.scaling.enabled=true,consumers.g.scaling.fallback.failureThreshold=3,consumers.g.scaling.fallback.replicas=11"), "fallback.replicas 11 is above maxReplicas 10"},
		"drain without an objective":      {group(",consumers.g.scaling.enabled=true"), "strategy drain needs an objective, and a/orders has none"},
		"messages held against replicas":  {group(",consumers.g.scaling.enabled=true,consumers.g.scaling.scaler=metrics-api,consumers.g.scaling.activationQueueLength=3"), "would hold drain's replicas against it"},
		"a drain without a unit":          {group(",consumers.g.queues[0].consumer.drainTimeout=90"), "has the drainTimeout 90, which has no unit: write 90s"},
		"a default drain without a unit":  {group(",config.defaults[0].match=*,config.defaults[0].consumer.drainTimeout=90"), "has the drainTimeout 90, which has no unit: write 90s"},
		"a drain that cannot be read":     {group(",consumers.g.queues[0].consumer.drainTimeout=${DRAIN}"), "write it such as 1m30s, or set consumers.g.terminationGracePeriodSeconds"},
		"a grace shorter than a default":  {group(",config.defaults[0].match=ord*,config.defaults[0].consumer.drainTimeout=2m,consumers.g.terminationGracePeriodSeconds=75"), "their drainTimeout takes 255 seconds"},
		"a group named as the shards":     {strings.ReplaceAll(group(""), "consumers.g.", "consumers.shards."), "the names shards and dashboard-… are taken"},
		"a group named as a dashboard":    {strings.ReplaceAll(group(""), "consumers.g.", "consumers.dashboard-fleet."), "the names shards and dashboard-… are taken"},
		"a queue named twice":             {group(",consumers.g.queues[1].account=a,consumers.g.queues[1].name=orders"), "consumers.g.queues[1] is a/orders again"},
		"a common label that selects":     {account + `,commonLabels.app\.kubernetes\.io/name=mine`, "commonLabels: the label app.kubernetes.io/name is set by the chart"},
		"a pod's label that selects":      {account + `,watcher.podLabels.app\.kubernetes\.io/component=mine`, "watcher.podLabels: the label app.kubernetes.io/component is set by the chart"},
		"a group's label that selects":    {group(`,consumers.g.podLabels.qwatch/group=h`), "consumers.g.podLabels: the label qwatch/group is set by the chart"},
		"a default label that selects":    {group(`,consumerDefaults.podLabels.qwatch/group=h`), "consumers.g.podLabels: the label qwatch/group is set by the chart"},
		"a label that is there twice":     {account + ",commonLabels.team=a,watcher.podLabels.team=b", "watcher.podLabels: the label team is in commonLabels already"},
		"a name that is no service's":     {account + ",fullnameOverride=1st", `the full name "1st" cannot be that of a service`},
		"a scaler that asks who is there": {group(",consumers.g.scaling.enabled=true,config.server.grpcTLS.clientCAFile=/t/ca"), "consumers.g.scaling.authenticationRef is needed"},
		"an unknown strategy":             {group(",consumers.g.scaling.strategy=deep"), "value must be one of 'all', 'visible', 'inflight', 'drain'"},
		"two ways to scrape":              {account + ",monitoring.serviceMonitor.enabled=true,monitoring.podMonitor.enabled=true", "scraped twice: keep one"},
		"an identity without its id":      {account + ",workloadIdentity.enabled=true", "needs workloadIdentity.clientId"},
		"a group's name in capitals":      {account + ",consumers.Group.replicas=1", "consumers.Group: the name of a consumer group is 1 to 22 lower-case letters"},
	} {
		t.Run(name, func(t *testing.T) {
			refused(t, tt.want, "", strings.Split(tt.set, ",")...)
		})
	}
}
