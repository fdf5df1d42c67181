//go:build drill

package kube_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/qwatch/qwatch/test/peer"
)

// The whole: an API server, KEDA's operator and adapter, the controllers of HPA, Deployment and ReplicaSet, the chart
// installed with Helm, and qwatch as the scaler of a real queue. Replicas go 0 → n → 0, and a poison storm, every
// message failing and hidden in its retry delay, does not hold them up as it does with KEDA's azure-queue scaler.
//
// There is no kubelet: qwatch and the consumer are processes of the host with the configurations that the chart
// made, at addresses of the host; the leader's election is the cluster's, with the chart's own role.
func TestDrillWhole(t *testing.T) {
	w := newWhole(t)
	w.startKEDA()
	w.install()
	w.watcher()

	w.expect("nothing waits, nothing runs", 90*time.Second, replicas{0, 0, 0})

	t.Log("a backlog")
	w.send(40)
	w.expect("the backlog starts consumers, by each scaler", 90*time.Second, replicas{8, 5, 8})
	w.clear()
	w.expect("the backlog is gone, and so are they", 2*time.Minute, replicas{0, 0, 0})

	t.Log("a poison storm")
	w.send(40)
	w.expect("the storm starts consumers, by each scaler", 90*time.Second, replicas{8, 5, 8})
	w.consumer()
	eventually(t, time.Minute, "every message has failed and is hidden", func() bool { return w.value("visible") == 0 && w.value("all") == 40 })
	w.expect("hidden messages hold nobody up, but with azure-queue, which counts them", 2*time.Minute, replicas{0, 0, 8})
	for range 20 { // and it stays so
		time.Sleep(500 * time.Millisecond)
		if now := w.replicas(); now != (replicas{0, 0, 8}) {
			t.Fatalf("later in the storm there are %s", now)
		}
	}
}

// replicas are those of the chart's group on qwatch's strategy visible, of that on drain, and of the Deployment that KEDA's own
// azure-queue scaler scales. 40 messages call for 8 of 5 each; and, at 20 s each, 8 at once a replica and 10 s of
// objective, for 10 replicas to drain them, but for no more than the 5 that have something to do.
type replicas struct{ visible, drain, beside int }

func (r replicas) String() string {
	return fmt.Sprintf("%d replicas by visible, %d by drain, %d by azure-queue", r.visible, r.drain, r.beside)
}

type whole struct {
	*testing.T

	cluster *cluster
	azurite *peer.AzuriteServer
	qwatch  string   // the program
	addrs   []string // main, probes and gRPC of the watcher
	config  string   // the watcher's file
	begin   time.Time
}

func newWhole(t *testing.T) *whole {
	w := &whole{T: t, cluster: startCluster(t), azurite: peer.Azurite(t), qwatch: build(t), addrs: peer.FreeAddresses(t, 3), begin: time.Now()}
	w.cluster.applyText(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: queues}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: keda}\n")
	return w
}

// startKEDA starts the operator, the adapter behind the API server's aggregation, and the controllers.
func (w *whole) startKEDA() {
	w.Helper()
	certs := w.TempDir()
	writeCertificates(w, certs)
	a := peer.FreeAddresses(w, 4)
	_, service, _ := net.SplitHostPort(a[2])
	_, secure, _ := net.SplitHostPort(a[3])
	env := append(os.Environ(), "KUBECONFIG="+w.cluster.kubeconfig, "WATCH_NAMESPACE=", "KEDA_CLUSTER_OBJECT_NAMESPACE=keda",
		"POD_NAMESPACE=keda", "KEDA_HTTP_DEFAULT_TIMEOUT=3000")
	start := func(name string, args ...string) {
		cmd := exec.Command(program(w, name), args...)
		cmd.Env, cmd.Dir = env, w.TempDir()
		peer.Start(w, name, cmd)
	}
	w.cluster.applyText(w, fmt.Sprintf(aggregation, secure, secure))
	start("keda-operator", "--metrics-bind-address="+a[0], "--health-probe-bind-address="+a[1], "--metrics-service-bind-address="+a[2], "--cert-dir="+certs,
		"--enable-webhook-patching=false", "--enable-apiservice-patching=false")
	start("keda-adapter", "--secure-port="+secure, "--bind-address=127.0.0.1", "--cert-dir="+certs,
		"--tls-cert-file="+filepath.Join(certs, "tls.crt"), "--tls-private-key-file="+filepath.Join(certs, "tls.key"),
		"--lister-kubeconfig="+w.cluster.kubeconfig, "--authentication-kubeconfig="+w.cluster.kubeconfig, "--authorization-kubeconfig="+w.cluster.kubeconfig,
		"--authentication-skip-lookup=true", "--metrics-service-address=localhost:"+service, "--port=0")
	start("controlplane", "controller-manager", "--kubeconfig="+w.cluster.kubeconfig, "--authentication-kubeconfig="+w.cluster.kubeconfig, "--authorization-kubeconfig="+w.cluster.kubeconfig,
		"--controllers=horizontal-pod-autoscaler-controller,deployment-controller,replicaset-controller",
		"--horizontal-pod-autoscaler-sync-period=2s", "--horizontal-pod-autoscaler-downscale-stabilization=4s",
		"--leader-elect=false", "--bind-address=127.0.0.1", "--secure-port=0")
	eventually(w, 2*time.Minute, "the aggregated metrics API answers", func() bool {
		_, err := w.cluster.do(http.MethodGet, "/apis/external.metrics.k8s.io/v1beta1", nil)
		return err == nil
	})
}

// The adapter is asked by the API server without a name, since no front proxy's authority is set up; signed-in users
// get no more than their roles.
const aggregation = `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: adapter}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: Group, name: "system:unauthenticated", apiGroup: rbac.authorization.k8s.io}]
---
apiVersion: v1
kind: Service
metadata: {name: keda-metrics-apiserver, namespace: keda}
spec: {type: ExternalName, externalName: localhost, ports: [{port: %s}]}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1beta1.external.metrics.k8s.io}
spec:
  service: {name: keda-metrics-apiserver, namespace: keda, port: %s}
  group: external.metrics.k8s.io
  version: v1beta1
  insecureSkipTLSVerify: true
  groupPriorityMinimum: 100
  versionPriority: 100
`

// install installs the chart, and beside its consumers a Deployment that KEDA's own scaler of the queue scales.
func (w *whole) install() {
	w.Helper()
	values := filepath.Join(w.TempDir(), "values.yaml")
	text := fmt.Sprintf(`
config:
  accounts:
    - name: dev
      connectionString: "${STORAGE}"
      queues: [{name: orders, objective: {timeInQueue: 10s}}]
  watch: {interval: 1s, idleInterval: 1s}
  scaling: {handlingTime: 20s}
consumerDefaults: {scaling: {enabled: true, queueLength: 5, maxReplicas: 10, pollingInterval: 2, cooldownPeriod: 5, address: %q}}
consumers:
  orders:
    queues: &queues
      - account: dev
        name: orders
        consumer:
          handler: {http: {url: "http://127.0.0.1:1/"}}
          concurrency: 8
          maxDequeueCount: 50
          breaker: false
          retry: {initial: 10m, max: 10m}
    scaling: {strategy: visible}
  drained:
    queues: *queues
    scaling: {strategy: drain}
`, w.addrs[2])
	if err := os.WriteFile(values, []byte(text), 0o600); err != nil {
		w.Fatal(err)
	}
	if out, said, ok := helm(w, "install", "demo", chart, "-n", "queues", "-f", values, "--kubeconfig", w.cluster.kubeconfig); !ok {
		w.Fatalf("helm install: %s%s", out, said)
	}
	w.cluster.applyText(w, fmt.Sprintf(besideText, w.azurite.ConnectionString()))
}

const besideText = `apiVersion: v1
kind: Secret
metadata: {name: storage, namespace: queues}
stringData: {connection: %q}
---
apiVersion: keda.sh/v1alpha1
kind: TriggerAuthentication
metadata: {name: storage, namespace: queues}
spec: {secretTargetRef: [{parameter: connection, name: storage, key: connection}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: beside, namespace: queues}
spec:
  replicas: 0
  selector: {matchLabels: {app: beside}}
  template:
    metadata: {labels: {app: beside}}
    spec: {containers: [{name: c, image: x}]}
---
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: beside, namespace: queues}
spec:
  scaleTargetRef: {name: beside}
  minReplicaCount: 0
  maxReplicaCount: 10
  pollingInterval: 2
  cooldownPeriod: 5
  triggers:
    - type: azure-queue
      metadata: {queueName: orders, queueLength: "5"}
      authenticationRef: {name: storage}
`

// run is the qwatch.yaml of a ConfigMap that the chart made, with addresses of the host.
func (w *whole) file(configMap string, addrs []string, change func(map[string]any)) string {
	w.Helper()
	var object struct{ Data map[string]string }
	if err := w.cluster.get("/api/v1/namespaces/queues/configmaps/"+configMap, &object); err != nil {
		w.Fatal(err)
	}
	var config map[string]any
	if err := yaml.Unmarshal([]byte(object.Data["qwatch.yaml"]), &config); err != nil {
		w.Fatal(err)
	}
	config["server"] = map[string]any{"listen": addrs[0], "probes": addrs[1], "grpc": addrs[2]}
	if change != nil {
		change(config)
	}
	file := filepath.Join(w.TempDir(), "qwatch.yaml")
	if err := os.WriteFile(file, []byte(text(w, config)), 0o600); err != nil {
		w.Fatal(err)
	}
	return file
}

// start runs qwatch and waits until it is ready.
func (w *whole) start(name, file, probes string) {
	w.Helper()
	cmd := exec.Command(w.qwatch, "run", "-c", file)
	cmd.Env = append(os.Environ(), "STORAGE="+w.azurite.ConnectionString(), "POD_NAME="+name, "POD_IP=127.0.0.1")
	p := peer.Start(w, name, cmd)
	eventually(w, time.Minute, name+" is ready", func() bool {
		resp, err := http.Get("http://" + probes + "/readyz")
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	_ = p
}

// watcher starts the watcher, which is elected with the rights of the chart's service account.
func (w *whole) watcher() {
	w.Helper()
	data, err := w.cluster.do(http.MethodPost, "/api/v1/namespaces/queues/serviceaccounts/demo-qwatch/token", map[string]any{"spec": map[string]any{"expirationSeconds": 3600}})
	if err != nil {
		w.Fatal(err)
	}
	var token struct{ Status struct{ Token string } }
	if err := json.Unmarshal(data, &token); err != nil || token.Status.Token == "" {
		w.Fatalf("no token: %v", err)
	}
	admin, err := os.ReadFile(w.cluster.kubeconfig)
	if err != nil {
		w.Fatal(err)
	}
	kubeconfig := filepath.Join(w.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(strings.Replace(string(admin), "token: "+w.cluster.token, "token: "+token.Status.Token, 1)), 0o600); err != nil {
		w.Fatal(err)
	}
	w.createQueue()
	w.config = w.file("demo-qwatch", w.addrs, func(c map[string]any) {
		c["watch"].(map[string]any)["leader"].(map[string]any)["kubeconfig"] = kubeconfig
	})
	w.start("watcher", w.config, w.addrs[1])
	var lease struct {
		Spec struct{ HolderIdentity string }
	}
	eventually(w, 30*time.Second, "the watcher leads", func() bool {
		err := w.cluster.get("/apis/coordination.k8s.io/v1/namespaces/queues/leases/demo-qwatch", &lease)
		return err == nil && strings.HasPrefix(lease.Spec.HolderIdentity, "watcher")
	})
}

func (w *whole) createQueue() {
	w.Helper()
	file := filepath.Join(w.TempDir(), "create.yaml")
	if err := os.WriteFile(file, []byte("accounts: [{name: dev, connectionString: \"${STORAGE}\", queues: [{name: orders, createIfMissing: true}]}]\n"), 0o600); err != nil {
		w.Fatal(err)
	}
	w.config = file
	w.send(1)
	w.clear()
}

// consumer starts a consumer whose handler's address refuses connections, so that every message fails.
func (w *whole) consumer() {
	w.Helper()
	addrs := peer.FreeAddresses(w, 3)
	handler := failing(w)
	w.start("consumer", w.file("demo-qwatch-orders", addrs, func(c map[string]any) {
		queue := c["accounts"].([]any)[0].(map[string]any)["queues"].([]any)[0].(map[string]any)
		queue["consumer"].(map[string]any)["handler"] = map[string]any{"http": map[string]any{"url": handler}}
	}), addrs[1])
}

// command runs a command of qwatch on the queue.
func (w *whole) command(args ...string) {
	w.Helper()
	cmd := exec.Command(w.qwatch, append(args, "-c", w.config)...)
	cmd.Env = append(os.Environ(), "STORAGE="+w.azurite.ConnectionString())
	if out, err := cmd.CombinedOutput(); err != nil {
		w.Fatalf("qwatch %q: %v\n%s", args, err, out)
	}
}

func (w *whole) send(n int) {
	w.Helper()
	for i := range n {
		w.command("queue", "send", "dev/orders", fmt.Sprintf("order %d", i))
	}
}

func (w *whole) clear() { w.Helper(); w.command("queue", "clear", "dev/orders", "--yes") }

// value asks the watcher what KEDA would be told.
func (w *whole) value(strategy string) float64 {
	resp, err := http.Get("http://" + w.addrs[0] + "/api/v1/scaling/dev/orders?strategy=" + strategy)
	if err != nil {
		return -1
	}
	defer func() { _ = resp.Body.Close() }()
	var answer struct{ Value float64 }
	if resp.StatusCode != http.StatusOK || json.NewDecoder(resp.Body).Decode(&answer) != nil {
		return -1
	}
	return answer.Value
}

// replicas returns what the Deployments ask for now; -1 where that cannot be told.
func (w *whole) replicas() replicas {
	of := func(deployment string) int {
		var d struct{ Spec struct{ Replicas int } }
		if err := w.cluster.get("/apis/apps/v1/namespaces/queues/deployments/"+deployment, &d); err != nil {
			return -1
		}
		return d.Spec.Replicas
	}
	return replicas{of("demo-qwatch-orders"), of("demo-qwatch-drained"), of("beside")}
}

// expect waits until the replicas are as they should be, and logs their way there.
func (w *whole) expect(what string, within time.Duration, want replicas) {
	w.Helper()
	begin, last := time.Now(), ""
	for {
		got := w.replicas()
		if now := fmt.Sprintf("%s; %g messages, %g visible", got, w.value("all"), w.value("visible")); now != last {
			w.Logf("%5.1fs %s", time.Since(w.begin).Seconds(), now)
			last = now
		}
		if got == want {
			w.Logf("%5.1fs %s, after %.1fs", time.Since(w.begin).Seconds(), what, time.Since(begin).Seconds())
			return
		}
		if time.Since(begin) > within {
			w.Fatalf("not within %v: %s; there are %s", within, what, last)
		}
		time.Sleep(500 * time.Millisecond)
	}
}
