package chart_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// No two objects of a kind have one name, whatever groups are called after.
func TestChartNamesAreUnique(t *testing.T) {
	sets := valueSets(t)
	for _, name := range []string{"fleet", "queue", "poison", "self", "consumers", "ready", "leader", "watcher"} {
		text := strings.Replace(aGroup, "\n  g:", "\n  "+name+":", 1) + "monitoring: {dashboards: {enabled: true}}\nwatcher: {mode: shard}\n"
		sets["a group called "+name] = text
	}
	for set, values := range sets {
		seen := map[string]bool{}
		for _, o := range objects(t, render(t, values)) {
			if key := kindAndName(o); seen[key] {
				t.Errorf("%s: %s is there twice", set, key)
			} else {
				seen[key] = true
			}
		}
	}
}

// Names that YAML takes for numbers or truth stay texts: Kubernetes refuses other labels.
func TestChartLabelsAreTexts(t *testing.T) {
	const all = "networkPolicy: {enabled: true}\nmonitoring: {serviceMonitor: {enabled: true}, prometheusRule: {enabled: true}, dashboards: {enabled: true}}\n"
	for name, more := range map[string]string{
		"a release and a group that are numbers": "fullnameOverride: q\n",
		"a name that is a number":                "fullnameOverride: q\nnameOverride: \"17\"\n",
		"names that are truth":                   "fullnameOverride: \"true\"\nnameOverride: \"yes\"\n",
		"an account that is a number":            "fullnameOverride: q\nserviceAccount: {name: \"123\"}\n",
	} {
		for _, group := range []string{"123", "true", "0x1f"} {
			values := strings.Replace(aGroup, "\n  g:", "\n  \""+group+"\":", 1) + all + more
			for _, release := range []string{"123", "0x1f", "1e3"} {
				out, _, err := helm(t, release, values)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				for _, o := range objects(t, out) {
					if path := notText(o, ""); path != "" {
						t.Errorf("%s, release %s, group %s: %s: %s is no text", name, release, group, kindAndName(o), path)
					}
				}
			}
		}
	}
}

// notText finds a label or name that is no text.
func notText(v any, path string) string {
	switch v := v.(type) {
	case map[string]any:
		for k, below := range v {
			_, text := below.(string)
			parent := path[strings.LastIndex(path, ".")+1:]
			if !text && (slices.Contains([]string{"labels", "matchLabels", "annotations"}, parent) || slices.Contains([]string{"name", "serviceAccountName"}, k)) {
				return path + "." + k
			}
			if found := notText(below, path+"."+k); found != "" {
				return found
			}
		}
	case []any:
		for _, below := range v {
			if found := notText(below, path); found != "" {
				return found
			}
		}
	}
	return ""
}

// A managed identity gets its tokens from the node, which the policy lets through for nobody else.
func TestChartPolicyOfManagedIdentity(t *testing.T) {
	for identity, want := range map[string]bool{"{type: managed}": true, "{}": true, "{type: default}": true, "{type: workload}": false} {
		values := "config: {accounts: [{name: a, endpoint: \"https://a.queue.core.windows.net\", identity: " + identity + "}]}\nnetworkPolicy: {enabled: true}\n"
		policy := only(t, objects(t, render(t, values)), "NetworkPolicy", "demo-qwatch")
		egress, _ := at(t, policy, "spec", "egress").([]any)
		got := slices.ContainsFunc(egress, func(rule any) bool {
			return cmp.Equal(rule, any(map[string]any{
				"to":    []any{map[string]any{"ipBlock": map[string]any{"cidr": "169.254.169.254/32"}}},
				"ports": []any{map[string]any{"port": 80.0, "protocol": "TCP"}},
			}))
		})
		if got != want {
			t.Errorf("identity %s: the metadata service may be asked: %v, want %v", identity, got, want)
		}
	}
}

// KEDA asks by TLS where the watcher answers by it, and the service says so.
func TestChartScalerTLS(t *testing.T) {
	const tls = "  server: {grpcTLS: {certFile: /t/c, keyFile: /t/k}}\nconsumers:\n"
	for name, tt := range map[string]struct {
		change, to string
		enable     any
		protocol   string
	}{
		"without":           {"", "", nil, "kubernetes.io/h2c"},
		"with":              {"consumers:\n", tls, "true", "https"},
		"with it elsewhere": {"enabled: true", "enabled: true, enableTLS: true", "true", "kubernetes.io/h2c"},
		"not for one group": {"consumers:\n", tls + "  h: {queues: [{account: a, name: orders, consumer: {handler: {}}}], scaling: {enabled: true, enableTLS: false}}\n", "true", "https"},
	} {
		t.Run(name, func(t *testing.T) {
			values := aGroup
			if tt.change != "" {
				values = strings.Replace(values, tt.change, tt.to, 1)
			}
			all := objects(t, render(t, values))
			if got := at(t, only(t, all, "ScaledObject", "demo-qwatch-g"), "spec", "triggers", 0, "metadata", "enableTLS"); got != tt.enable {
				t.Errorf("enableTLS %v, want %v", got, tt.enable)
			}
			if got := at(t, only(t, all, "Service", "demo-qwatch"), "spec", "ports", 1, "appProtocol"); got != tt.protocol {
				t.Errorf("appProtocol %v, want %v", got, tt.protocol)
			}
			if strings.Contains(values, "  h:") {
				if got := at(t, only(t, all, "ScaledObject", "demo-qwatch-h"), "spec", "triggers", 0, "metadata", "enableTLS"); got != nil {
					t.Errorf("enableTLS of h is %v though it is off", got)
				}
			}
		})
	}
}

// A secret may be named in any text of the configuration, and stand in none.
func TestChartTakesNoSecrets(t *testing.T) {
	for name, tt := range map[string]struct{ values, want string }{
		"a key beside a name": {
			`config: {accounts: [{name: a, connectionString: "DefaultEndpointsProtocol=${P};AccountName=x;AccountKey=c2VjcmV0;EndpointSuffix=y"}]}`,
			"config.accounts[0].connectionString is a secret in plain text",
		},
		"a named key": {`config: {accounts: [{name: a, connectionString: "AccountName=x;AccountKey=${KEY};EndpointSuffix=y"}]}`, ""},
		"a signature of a connection string": {
			`config: {accounts: [{name: a, connectionString: "QueueEndpoint=https://x.example;SharedAccessSignature=sv=2024&sig=c2VjcmV0;X=${X}"}]}`, "connectionString is a secret in plain text",
		},
		"a named signature":    {`config: {accounts: [{name: a, connectionString: "QueueEndpoint=https://x.example;SharedAccessSignature=${SAS}"}]}`, ""},
		"a key after a name":   {`config: {accounts: [{name: a, accountKey: "${NOTHING}c2VjcmV0"}]}`, "config.accounts[0].accountKey is a secret in plain text"},
		"a SAS with its name":  {`config: {accounts: [{name: a, sas: "sv=2024&sp=r&sig=${SIG}"}]}`, ""},
		"a SAS in an endpoint": {`config: {accounts: [{name: a, endpoint: "https://x.queue.core.windows.net/?sv=2024&sig=c2VjcmV0"}]}`, "config.accounts[0].endpoint has a secret in plain text after sig="},
		"a signature in a handler's address": {
			strings.Replace(aGroup, "http://h/", "http://h/?sp=r&sig=c2VjcmV0", 1), "consumers.g.queues has a secret in plain text after sig=",
		},
		"a name in a handler's address": {strings.Replace(aGroup, "http://h/", "http://h/?sp=r&sig=${SIG}", 1), ""},
		"a signature in the defaults": {
			strings.Replace(aGroup, "consumers:\n", "  defaults: [{match: \"*\", consumer: {handler: {http: {url: \"http://h/?sig=c2VjcmV0\"}}}}]\nconsumers:\n", 1), "config has a secret in plain text after sig=",
		},
		"a word that ends like one": {strings.Replace(aGroup, "http://h/", "http://h/?design=blue", 1), ""},
	} {
		t.Run(name, func(t *testing.T) {
			said := refused(t, tt.want, tt.values)
			if strings.Contains(said, "c2VjcmV0") {
				t.Errorf("the secret is in the message:\n%s", said)
			}
		})
	}
}
