//go:build drill

package kube_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write the golden files again")

const chart = "../../deploy/helm/qwatch"

// program returns a program that install.sh built.
func program(t testing.TB, name string) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(cache, "qwatch", "kubernetes", name)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("run `make e2e`, which builds it: %v", err)
	}
	return path
}

// helm runs Helm with an environment of its own and returns its output.
func helm(t testing.TB, args ...string) (stdout, stderr string, ok bool) {
	t.Helper()
	home := t.TempDir()
	cmd := exec.Command(program(t, "helm"), args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "XDG_CACHE_HOME=" + home, "XDG_CONFIG_HOME=" + home, "XDG_DATA_HOME=" + home}
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		t.Fatalf("helm %q: %v", args, err)
	}
	return out.String(), said.String(), err == nil
}

// valueSets are the golden value sets, by name.
func valueSets(t testing.TB) map[string]string {
	t.Helper()
	files, err := filepath.Glob("testdata/values/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 6 {
		t.Fatalf("%d value sets, want at least six", len(files))
	}
	out := map[string]string{}
	for _, f := range files {
		out[strings.TrimSuffix(filepath.Base(f), ".yaml")] = f
	}
	return out
}

// render renders the chart as GitOps tools do: without a cluster.
func render(t testing.TB, values string, more ...string) string {
	t.Helper()
	out, said, ok := helm(t, append([]string{"template", "demo", chart, "--namespace", "queues", "-f", values}, more...)...)
	if !ok {
		t.Fatalf("helm template: %s", said)
	}
	return out
}

// objects splits what Helm rendered.
func objects(t testing.TB, rendered string) []map[string]any {
	t.Helper()
	var out []map[string]any
	for doc := range strings.SplitSeq("\n"+rendered, "\n---\n") {
		var o map[string]any
		if err := yaml.UnmarshalStrict([]byte(doc), &o); err != nil {
			t.Fatalf("%v in:\n%s", err, doc)
		}
		if len(o) > 0 {
			out = append(out, o)
		}
	}
	return out
}

func kindAndName(o map[string]any) string {
	name, _ := o["metadata"].(map[string]any)["name"].(string)
	return fmt.Sprintf("%s/%s", o["kind"], name)
}

func TestDrillChartLint(t *testing.T) {
	for name, values := range valueSets(t) {
		if out, said, ok := helm(t, "lint", "--strict", chart, "-f", values); !ok {
			t.Errorf("%s: %s%s", name, out, said)
		}
	}
}

func TestDrillChartGolden(t *testing.T) {
	for name, values := range valueSets(t) {
		t.Run(name, func(t *testing.T) {
			got := render(t, values)
			if again := render(t, values); again != got {
				t.Error("rendered twice it differs: GitOps tools would see a change each time")
			}
			// Rules and dashboards are held to their generators elsewhere.
			shown := elide(t, got)
			golden := filepath.Join("testdata", "golden", name+".yaml")
			if *update {
				if err := os.MkdirAll(filepath.Dir(golden), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(golden, []byte(shown), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(shown, "\n")); diff != "" {
				t.Errorf("run with -update if it is meant (-golden +rendered):\n%s", diff)
			}
		})
	}
}

// elide leaves out the bulk of generated objects.
func elide(t testing.TB, rendered string) string {
	t.Helper()
	var b strings.Builder
	for _, o := range objects(t, rendered) {
		if o["kind"] == "PrometheusRule" {
			o["spec"] = "…"
		}
		if data, ok := o["data"].(map[string]any); ok {
			for k := range data {
				if strings.HasSuffix(k, ".json") {
					data[k] = "…"
				}
			}
		}
		text, err := yaml.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "---\n%s", text)
	}
	return b.String()
}

// Every object is under 256 KiB, as an annotation of kubectl apply must hold it; and nothing is random or looked up.
func TestDrillChartIsGitOpsFriendly(t *testing.T) {
	for name, values := range valueSets(t) {
		for _, o := range objects(t, render(t, values)) {
			text, err := yaml.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			if len(text) >= 256<<10 {
				t.Errorf("%s: %s has %d bytes", name, kindAndName(o), len(text))
			}
		}
	}
	templates, err := filepath.Glob(chart + "/templates/*")
	if err != nil || len(templates) == 0 {
		t.Fatal("no templates", err)
	}
	for _, f := range templates {
		if data, err := os.ReadFile(f); err == nil {
			for _, word := range []string{"lookup", "randAlpha", "randNumeric", "genCA", "genSelfSigned", "uuidv4", "now", "Capabilities.APIVersions"} {
				if bytes.Contains(data, []byte(" "+word+" ")) || bytes.Contains(data, []byte("."+word)) {
					t.Errorf("%s uses %s", f, word)
				}
			}
		}
	}
}

// What KEDA scales has no replicas of its own, or each apply would set them back.
func TestDrillChartLeavesReplicasToKEDA(t *testing.T) {
	scaled, checked := map[string]bool{}, 0
	all := objects(t, render(t, "testdata/values/scaled.yaml"))
	for _, o := range all {
		if o["kind"] == "ScaledObject" {
			scaled[o["spec"].(map[string]any)["scaleTargetRef"].(map[string]any)["name"].(string)] = true
		}
	}
	for _, o := range all {
		if o["kind"] != "Deployment" || !scaled[o["metadata"].(map[string]any)["name"].(string)] {
			continue
		}
		checked++
		if _, ok := o["spec"].(map[string]any)["replicas"]; ok {
			t.Errorf("%s has replicas", kindAndName(o))
		}
	}
	if checked == 0 {
		t.Error("no Deployment is scaled")
	}
}

func TestDrillChartRefusesBadValues(t *testing.T) {
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
			args := []string{"template", "demo", chart}
			for _, kv := range strings.Split(tt.set, ",") {
				args = append(args, "--set", kv)
			}
			_, said, ok := helm(t, args...)
			if ok || !strings.Contains(said, tt.want) {
				t.Errorf("accepted %v, want %q in:\n%s", ok, tt.want, said)
			}
		})
	}
}

// The configurations that the chart writes are good ones.
func TestDrillChartConfigurations(t *testing.T) {
	qwatch := build(t)
	for name, values := range valueSets(t) {
		for _, o := range objects(t, render(t, values)) {
			data, _ := o["data"].(map[string]any)
			text, ok := data["qwatch.yaml"].(string)
			if !ok {
				continue
			}
			file := filepath.Join(t.TempDir(), "qwatch.yaml")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(qwatch, "config", "validate", "-c", file)
			cmd.Env = append(os.Environ(), "ORDERS_CONNECTION_STRING=UseDevelopmentStorage=true", "POD_IP=10.0.0.1",
				"AZURE_CLIENT_ID=client", "AZURE_TENANT_ID=tenant", "AZURE_FEDERATED_TOKEN_FILE=/var/run/token")
			out, err := cmd.CombinedOutput()
			// This is no pod: it has no volumes, no service account, and no ordinal in its name.
			lines := slices.DeleteFunc(strings.Split(strings.TrimSpace(string(out)), "\n"), func(l string) bool {
				return strings.Contains(l, "no such file or directory") || strings.Contains(l, "warning") ||
					strings.Contains(l, "this is not a pod") || strings.Contains(l, "watch.shard.index: the host is called")
			})
			if err != nil && len(lines) > 0 {
				t.Errorf("%s, %s: %v\n%s\n%s", name, kindAndName(o), err, out, text)
			}
		}
	}
}

// build builds qwatch as a release does.
func build(t testing.TB) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "qwatch")
	cmd := exec.Command("go", "build", "-trimpath", "-o", out, "./cmd/qwatch")
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build qwatch: %v\n%s", err, said)
	}
	return out
}
