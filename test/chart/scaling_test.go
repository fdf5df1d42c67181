package chart_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/internal/scaler"
	"github.com/qwatch/qwatch/internal/scaler/manifest"
)

// groupOf are values of a group g that consumes some queues, written account/queue, and scales by strategy visible.
func groupOf(queues string) string {
	var config, group strings.Builder
	for q := range strings.FieldsSeq(queues) {
		account, name, _ := strings.Cut(q, "/")
		fmt.Fprintf(&config, "{name: %q, connectionString: \"${A}\"}, ", account)
		fmt.Fprintf(&group, "{account: %q, name: %q, consumer: {handler: {http: {url: \"http://h/\"}}}}, ", account, name)
	}
	return "config: {accounts: [" + config.String() + "]}\nconsumers: {g: {queues: [" + group.String() + "], scaling: {enabled: true, strategy: visible}}}\n"
}

// generate is what `qwatch keda generate` writes.
func generate(t testing.TB, o manifest.Options) string {
	t.Helper()
	g, err := manifest.Generate(o)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := g.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// triggerNames are those of a scaling object.
func triggerNames(t testing.TB, o map[string]any) []string {
	t.Helper()
	var names []string
	triggers, _ := at(t, o, "spec", "triggers").([]any)
	for _, trigger := range triggers {
		name, _ := at(t, trigger, "name").(string)
		names = append(names, name)
	}
	return names
}

// KEDA refuses an object in which two triggers have one name. The chart's are those of `qwatch keda generate`.
func TestChartTriggersHaveNamesOfTheirOwn(t *testing.T) {
	for queues, want := range map[string][]string{
		"shop/orders billing/orders":                        {"shop-orders", "billing-orders"},
		"shop/eu-orders shop-eu/orders":                     {"shop--eu-orders", "shop-eu--orders"},
		"a-b/cde a/b-cde a--b/cde":                          {"a-b--cde", "a--b-cde", "a--b--cde"},
		"shop/eu-orders shop-eu/orders shop-/eu-orders":     {"shop--eu-orders", "shop-eu--orders", "shop---eu-orders"},
		"Shop/orders shop/orders sh.op/orders sh_op/orders": {"Shop-orders", "shop-orders", "sh.op-orders", "sh_op-orders"},
	} {
		t.Run(queues, func(t *testing.T) {
			got := triggerNames(t, only(t, objects(t, render(t, groupOf(queues))), "ScaledObject", "demo-qwatch-g"))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("of the chart (-want +got):\n%s", diff)
			}
			o := manifest.Options{Target: "w", Strategy: scaler.StrategyVisible}
			for q := range strings.FieldsSeq(queues) {
				account, name, _ := strings.Cut(q, "/")
				o.Queues = append(o.Queues, manifest.Queue{Account: account, Name: name})
			}
			if diff := cmp.Diff(got, triggerNames(t, only(t, objects(t, generate(t, o)), "ScaledObject", "w"))); diff != "" {
				t.Errorf("(-chart +keda generate):\n%s", diff)
			}
		})
	}
}

// The metrics-api scaler signs in where the listener asks for it, as `qwatch keda generate` has it too.
func TestChartSignsInToTheAPI(t *testing.T) {
	const ref = ", authenticationRef: {name: keda}"
	for name, tt := range map[string]struct {
		scaling string
		mode    any
		faults  string
	}{
		"nothing is asked":                {"scaler: metrics-api", nil, ""},
		"a password":                      {"scaler: metrics-api, authMode: basic" + ref, "basic", ""},
		"a token for a proxy before it":   {"scaler: metrics-api, authMode: bearer" + ref, "bearer", ""},
		"a certificate and a password":    {`scaler: metrics-api, authMode: "tls,basic"` + ref, "tls,basic", ""},
		"a password from nowhere":         {"scaler: metrics-api, authMode: basic", nil, "authMode basic needs scaling.authenticationRef.name: the TriggerAuthentication with username and password"},
		"both from nowhere":               {`scaler: metrics-api, authMode: "tls,bearer"`, nil, "the TriggerAuthentication with ca, cert and key, bearerToken"},
		"a way of HTTP for gRPC":          {"authMode: tls" + ref, nil, "authMode is how KEDA's metrics-api scaler signs in, and scaling.scaler is external"},
		"a way that KEDA does not know":   {"scaler: metrics-api, authMode: magic" + ref, nil, "at '/consumers/g/scaling/authMode': value must be one of '', 'basic'"},
		"two ways of which one is enough": {`scaler: metrics-api, authMode: "basic,bearer"` + ref, nil, "at '/consumers/g/scaling/authMode': value must be one of"},
	} {
		t.Run(name, func(t *testing.T) {
			values := strings.Replace(groupOf("shop/orders"), "enabled: true", "enabled: true, "+tt.scaling, 1)
			if tt.faults != "" {
				refused(t, tt.faults, values)
				return
			}
			trigger := at(t, only(t, objects(t, render(t, values)), "ScaledObject", "demo-qwatch-g"), "spec", "triggers", 0)
			if got := at(t, trigger, "metadata", "authMode"); got != tt.mode {
				t.Errorf("authMode %v, want %v", got, tt.mode)
			}
			if got := at(t, trigger, "authenticationRef", "name"); (got == "keda") != (tt.mode != nil) {
				t.Errorf("authenticationRef %v with authMode %v", got, tt.mode)
			}
		})
	}
}

// KEDA that signs in with nothing, where something is asked or at hand, is warned of.
func TestChartWarnsOfNoSignIn(t *testing.T) {
	const warning = "WARNING: consumers.g.scaling has no authMode: KEDA's metrics-api scaler then signs in with nothing"
	for name, tt := range map[string]struct {
		server, scaling string
		want            bool
	}{
		"plain HTTP":                        {"", "scaler: metrics-api", false},
		"a listener of its own":             {"server: {webConfigFile: /w}, ", "scaler: metrics-api", true},
		"secrets that nothing takes":        {"", "scaler: metrics-api, authenticationRef: {name: keda}", true},
		"a password":                        {"server: {webConfigFile: /w}, ", "scaler: metrics-api, authMode: basic, authenticationRef: {name: keda}", false},
		"gRPC, which shows its certificate": {"", "authenticationRef: {name: keda}", false},
		"gRPC beside a listener of its own": {"server: {webConfigFile: /w}, ", "scaler: external-push", false},
		"a group that is not scaled at all": {"server: {webConfigFile: /w}, ", "scaler: metrics-api, enabled: false", false},
	} {
		values := strings.Replace(groupOf("shop/orders"), "config: {", "config: {"+tt.server, 1)
		values = strings.Replace(values, "strategy: visible", "strategy: visible, "+tt.scaling, 1)
		if strings.Contains(tt.scaling, "enabled: ") {
			values = strings.Replace(values, "enabled: true, ", "", 1)
		}
		_, notes, err := helm(t, "demo", values)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if strings.Contains(notes, warning) != tt.want {
			t.Errorf("%s: want a warning %v in:\n%s", name, tt.want, notes)
		}
	}
}

// Variables of pods hold no secrets: those that are known by their form are refused, and those known by their name warned of.
func TestChartTakesNoSecretsInVariables(t *testing.T) {
	const secret = "c2VjcmV0"
	key := strings.Repeat("c2VjcmV0", 10) + "c2VjcQ=="
	for name, tt := range map[string]struct{ variable, faults, warns string }{
		"a connection string": {"name: A, value: \"AccountName=x;AccountKey=" + secret + "\"", "(A) has a secret after AccountKey= in plain text", ""},
		"a SAS":               {"name: A, value: \"sv=2024&sig=" + secret + "\"", "(A) has a secret after sig= in plain text", ""},
		"an account key":      {"name: A, value: \"" + key + "\"", "(A) has what looks like an account key in plain text", ""},
		"a database's password": {
			"name: A, value: \"Server=db;User=u;Password=" + secret + "\"", "(A) has a password in plain text", "",
		},
		"an address with a password": {"name: A, value: \"postgres://u:" + secret + "@db/x\"", "(A) has a password in an address in plain text", ""},
		"a private key":              {"name: A, value: \"-----BEGIN EC PRIVATE KEY-----\\n" + secret + "\"", "(A) has a private key in plain text", ""},
		"a name that is a secret's":  {"name: DB_PASSWORD, value: " + secret, "", "env has values in plain text that by their names are secrets (DB_PASSWORD)"},
		"a token by its name":        {"name: token, value: " + secret, "", "by their names are secrets (token)"},
		"from a Secret":              {"name: DB_PASSWORD, valueFrom: {secretKeyRef: {name: db, key: password}}", "", ""},
		"from another variable":      {"name: A, value: \"AccountName=x;AccountKey=$(KEY)\"", "", ""},
		"a password from another":    {"name: DB_PASSWORD, value: $(KEY)", "", ""},
		"an address from another":    {"name: A, value: \"postgres://u:$(KEY)@db/x\"", "", ""},
		"the emulator":               {"name: A, value: UseDevelopmentStorage=true", "", ""},
		"a file with a token":        {"name: TOKEN_FILE, value: /var/run/token", "", ""},
		"an address with a port":     {"name: A, value: \"http://host:8080/a@b\"", "", ""},
		"a value that is no text":    {"name: A, value: 8080", "/value': got number, want string", ""},
		"a variable without a name":  {"value: x", "missing property 'name'", ""},
	} {
		t.Run(name, func(t *testing.T) {
			sidecar := "sidecars: [{name: s, image: i, env: [{" + tt.variable + "}]}], queues"
			for where, values := range map[string]string{
				"env":                         aGroup + "env: [{" + tt.variable + "}]\n",
				"watcher.env":                 aGroup + "watcher: {env: [{" + tt.variable + "}]}\n",
				"consumers.g.env":             strings.Replace(aGroup, "queues: [{account", "env: [{"+tt.variable+"}]\n    queues: [{account", 1),
				"consumers.g.sidecars[0].env": strings.Replace(aGroup, "    queues: [{account", "    "+strings.TrimSuffix(sidecar, ", queues")+"\n    queues: [{account", 1),
			} {
				schema := strings.HasPrefix(tt.faults, "/") || strings.HasPrefix(tt.faults, "missing")
				if schema && strings.Contains(where, "sidecars") {
					continue // a whole container, which Kubernetes checks
				}
				said := refused(t, tt.faults, values)
				if tt.faults != "" && !schema && !strings.Contains(said, where+"[0] (") {
					t.Errorf("%s: the message does not say where:\n%s", where, said)
				}
				if strings.Contains(said, secret) {
					t.Errorf("%s: the secret is in the message:\n%s", where, said)
				}
				if tt.faults != "" {
					continue
				}
				_, notes, err := helm(t, "demo", values)
				if err != nil {
					t.Fatal(err)
				}
				if !strings.Contains(notes, tt.warns) || tt.warns == "" && strings.Contains(notes, "by their names are secrets") {
					t.Errorf("%s: want %q in:\n%s", where, tt.warns, notes)
				}
			}
		})
	}
}
