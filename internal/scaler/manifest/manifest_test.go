package manifest_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/internal/metric"
	"github.com/qwatch/qwatch/internal/scaler"
	"github.com/qwatch/qwatch/internal/scaler/manifest"
)

var update = flag.Bool("update", false, "write the golden files")

// orders has everything, emails nothing.
var (
	orders = manifest.Queue{Account: "shop", Name: "orders", Objective: 5 * time.Minute, HandlingTime: 2 * time.Second, Concurrency: 8, Consumed: true}
	emails = manifest.Queue{Account: "shop", Name: "emails", Concurrency: 1}
)

// alike are queues whose names run together.
var alike = []manifest.Queue{{Account: "shop", Name: "eu-orders"}, {Account: "shop-eu", Name: "orders"}}

// cases are what is generated, by golden file.
func cases() map[string]manifest.Options {
	one := []manifest.Queue{orders}
	return map[string]manifest.Options{
		"external_drain":           {Queues: one, PollInterval: 10 * time.Second},
		"external_all":             {Queues: one, Strategy: scaler.StrategyAll, QueueLength: 2.5, Activation: 10, Polling: 5 * time.Second},
		"external_tls":             {Queues: one, GRPCTLS: true, ClientCert: true, Address: "qwatch.queues.svc:1234", Secret: "keda-client", Namespace: "shop"},
		"external_push_visible":    {Queues: one, Scaler: manifest.ScalerPush, Strategy: scaler.StrategyVisible, Namespace: "shop"},
		"external_two_queues":      {Queues: []manifest.Queue{orders, emails}, Target: "workers", TargetKind: "StatefulSet", Min: 1, Max: 8, Fallback: 3},
		"external_names_alike":     {Queues: alike, Target: "workers", Strategy: scaler.StrategyAll},
		"prometheus_drain_unknown": {Queues: []manifest.Queue{{Account: "shop", Name: "orders", Objective: time.Minute}}, Scaler: manifest.ScalerPrometheus, Prometheus: "http://p", Strategy: scaler.StrategyDrain},
		"external_each_queue":      {Queues: []manifest.Queue{orders, emails}},
		"metrics_api_inflight":     {Queues: one, Scaler: manifest.ScalerAPI, Strategy: scaler.StrategyInflight},
		"metrics_api_basic":        {Queues: one, Scaler: manifest.ScalerAPI, Auth: manifest.AuthBasic},
		"metrics_api_bearer_plain": {Queues: one, Scaler: manifest.ScalerAPI, Auth: manifest.AuthBearer, Scheme: "http"},
		"metrics_api_tls_basic":    {Queues: one, Scaler: manifest.ScalerAPI, Auth: "tls,basic"},
		"metrics_api_https":        {Queues: one, Scaler: manifest.ScalerAPI, Scheme: "https"},
		"metrics_api_tls":          {Queues: one, Scaler: manifest.ScalerAPI, Auth: manifest.AuthTLS},
		"prometheus_all":           {Queues: one, Scaler: manifest.ScalerPrometheus, Strategy: scaler.StrategyAll, Prometheus: "http://prometheus:9090"},
		"prometheus_visible":       {Queues: one, Scaler: manifest.ScalerPrometheus, Strategy: scaler.StrategyVisible, Prometheus: "http://prometheus:9090"},
		"prometheus_inflight":      {Queues: one, Scaler: manifest.ScalerPrometheus, Strategy: scaler.StrategyInflight, Prometheus: "http://prometheus:9090"},
		"prometheus_drain":         {Queues: one, Scaler: manifest.ScalerPrometheus, Prometheus: "https://prometheus", Auth: manifest.AuthBearer},
		"job_visible":              {Queues: one, Kind: manifest.KindJob, Image: "orders:1.4"},
		"job_all":                  {Queues: one, Kind: manifest.KindJob, Image: "orders:1.4", Strategy: scaler.StrategyAll, QueueLength: 1},
		"job_inflight_with_peers":  {Queues: one, Kind: manifest.KindJob, Image: "orders:1.4", Strategy: scaler.StrategyInflight, Peers: true},
		"job_inflight_alone":       {Queues: one, Kind: manifest.KindJob, Image: "orders:1.4", Strategy: scaler.StrategyInflight},
		"job_prometheus_with_auth": {Queues: one, Kind: manifest.KindJob, Image: "orders:1.4", Scaler: manifest.ScalerPrometheus, Prometheus: "http://p", Auth: manifest.AuthBasic},
	}
}

func generate(t *testing.T, o manifest.Options) (string, []string) {
	t.Helper()
	g, err := manifest.Generate(o)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := g.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String(), g.Warnings
}

func TestManifestsAreTheGoldenOnes(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for name, o := range cases() {
		text, _ := generate(t, o)
		file := filepath.Join("testdata", name+".yaml")
		seen[file] = true
		if *update {
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), text); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !seen[f] {
			t.Errorf("%s belongs to no case", f)
		}
	}
}

// B05: a wrong pairing starts jobs again and again, or none.
func TestJobsPairTheirStrategyWithKEDAs(t *testing.T) {
	t.Parallel()
	job := manifest.Options{Queues: []manifest.Queue{orders}, Kind: manifest.KindJob, Image: "i"}
	for _, tt := range []struct {
		strategy scaler.Strategy
		peers    bool
		want     string
	}{
		{scaler.StrategyAll, false, "default"},
		{scaler.StrategyVisible, false, "accurate"},
		{scaler.StrategyVisible, true, "accurate"},
		{scaler.StrategyInflight, true, "default"},
		{scaler.StrategyInflight, false, "accurate"},
		{scaler.StrategyDrain, true, "default"},
		{scaler.StrategyDrain, false, "accurate"},
	} {
		o := job
		o.Strategy, o.Peers = tt.strategy, tt.peers
		text, warnings := generate(t, o)
		if want := "scalingStrategy:\n    strategy: " + tt.want + "\n"; !strings.Contains(text, want) {
			t.Errorf("%s, peers %v: not %q in\n%s", tt.strategy, tt.peers, want, text)
		}
		for _, w := range warnings {
			if strings.Contains(w, "--scaling-strategy") {
				t.Errorf("%s: warns of its own choice: %s", tt.strategy, w)
			}
		}
	}
}

func TestWhatCannotWorkIsWarnedOf(t *testing.T) {
	t.Parallel()
	good := manifest.Options{Queues: []manifest.Queue{orders}, PollInterval: 15 * time.Second}
	for name, tt := range map[string]struct {
		change func(*manifest.Options)
		want   string // of the one warning; "": none
	}{
		"nothing":                    {func(*manifest.Options) {}, ""},
		"fallback and no replicas":   {func(o *manifest.Options) { o.Fallback = 2 }, "--fallback has no effect while there are no replicas"},
		"fallback and one replica":   {func(o *manifest.Options) { o.Fallback, o.Min = 2, 1 }, ""},
		"activation and one replica": {func(o *manifest.Options) { o.Activation, o.Min = 2, 1 }, "--activation-queue-length has no effect"},
		"fallback of a job":          {func(o *manifest.Options) { job(o); o.Fallback = 2 }, "--fallback has no effect: a ScaledJob has none"},
		"accurate with all":          {func(o *manifest.Options) { job(o); o.Strategy, o.JobStrategy = scaler.StrategyAll, "accurate" }, "--scaling-strategy accurate with all"},
		"eager with all":             {func(o *manifest.Options) { job(o); o.Strategy, o.JobStrategy = scaler.StrategyAll, "eager" }, "--scaling-strategy eager with all"},
		"default with visible":       {func(o *manifest.Options) { job(o); o.JobStrategy = "default" }, "--scaling-strategy default with visible"},
		"a slow look":                {func(o *manifest.Options) { o.PollInterval, o.Polling = time.Minute, 15*time.Second }, "set watch.interval to 15s"},
		"looking without permission": {func(o *manifest.Options) { o.Queues = with(func(q *manifest.Queue) { q.CountsOnly = true }) }, "countsOnly forbids it"},
		"counting without permission": {func(o *manifest.Options) {
			job(o)
			o.Queues = with(func(q *manifest.Queue) { q.CountsOnly = true })
			o.Strategy = scaler.StrategyAll
		}, ""},
		"drain without an objective": {func(o *manifest.Options) {
			o.Strategy = scaler.StrategyDrain
			o.Queues = with(func(q *manifest.Queue) { q.Objective = 0 })
		}, "drain needs an objective"},
		"drain from nothing":        {func(o *manifest.Options) { o.Queues = with(func(q *manifest.Queue) { q.HandlingTime = 0 }) }, "drain has nothing to reckon with"},
		"drain of unseen consumers": {func(o *manifest.Options) { o.Queues = with(func(q *manifest.Queue) { q.Consumed = false }) }, "set scaling.peers"},
		"inflight of unseen consumers": {func(o *manifest.Options) {
			o.Strategy = scaler.StrategyInflight
			o.Queues = with(func(q *manifest.Queue) { q.Consumed = false })
		}, "inflight is the same as visible here"},
		"inflight with peers": {func(o *manifest.Options) {
			o.Peers, o.Strategy = true, scaler.StrategyInflight
			o.Queues = with(func(q *manifest.Queue) { q.Consumed = false })
		}, ""},
		"all, which a poison storm misuse": {func(o *manifest.Options) { o.Strategy = scaler.StrategyAll }, "a storm of failing messages"},
	} {
		o := good
		tt.change(&o)
		_, warnings := generate(t, o)
		switch {
		case tt.want == "" && len(warnings) > 0:
			t.Errorf("%s: warns: %q", name, warnings)
		case tt.want != "" && (len(warnings) != 1 || !strings.Contains(warnings[0], tt.want)):
			t.Errorf("%s: warns %q, want one with %q", name, warnings, tt.want)
		}
	}
}

func job(o *manifest.Options) { o.Kind, o.Image = manifest.KindJob, "orders:1.4" }

func with(change func(*manifest.Queue)) []manifest.Queue {
	q := orders
	change(&q)
	return []manifest.Queue{q}
}

func TestFaultsAreToldAtOnceByFlag(t *testing.T) {
	t.Parallel()
	_, err := manifest.Generate(manifest.Options{
		Queues: []manifest.Queue{orders, emails}, Kind: "pod", Scaler: "kafka", Auth: "magic", Strategy: scaler.StrategyDrain, QueueLength: 3,
		Activation: -1, Min: 4, Max: 2, Polling: time.Millisecond, Cooldown: -1, Fallback: -1, Name: "One Name", JobStrategy: "quick",
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, flag := range []string{
		"--kind", "--scaler", "--auth", "--queue-length", "--activation-queue-length", "--max", "--polling-interval", "--cooldown", "--fallback",
		"--name is for one object", `--name "One Name"`, "--scaling-strategy",
	} {
		if !strings.Contains(err.Error(), flag) {
			t.Errorf("nothing about %s in:\n%v", flag, err)
		}
	}
	for name, o := range map[string]manifest.Options{
		"no queue":              {},
		"a job without image":   {Queues: []manifest.Queue{orders}, Kind: manifest.KindJob},
		"a job with a target":   {Queues: []manifest.Queue{orders}, Kind: manifest.KindJob, Image: "i", Target: "x"},
		"prometheus nowhere":    {Queues: []manifest.Queue{orders}, Scaler: manifest.ScalerPrometheus},
		"two ways at once":      {Queues: []manifest.Queue{orders}, Scaler: manifest.ScalerAPI, Auth: "basic,bearer"},
		"no scheme of HTTP":     {Queues: []manifest.Queue{orders}, Scaler: manifest.ScalerAPI, Scheme: "ftp"},
		"a password over gRPC":  {Queues: []manifest.Queue{orders}, Auth: manifest.AuthBasic},
		"an image of an object": {Queues: []manifest.Queue{orders}, Image: "i"},
		"KEDA's job strategy":   {Queues: []manifest.Queue{orders}, JobStrategy: "default"},
		"drain's activation of replicas, metrics-api": {
			Queues: []manifest.Queue{orders}, Strategy: scaler.StrategyDrain, Activation: 10, Scaler: manifest.ScalerAPI,
		},
		"drain's activation of replicas, prometheus": {
			Queues: []manifest.Queue{orders}, Strategy: scaler.StrategyDrain, Activation: 10, Scaler: manifest.ScalerPrometheus, Prometheus: "http://p",
		},
		"less than Kubernetes counts": {Queues: []manifest.Queue{orders}, Strategy: scaler.StrategyAll, QueueLength: 0.0009},
		"a target no name can be":     {Queues: []manifest.Queue{orders}, Target: "-x"},
	} {
		if _, err := manifest.Generate(o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// Two objects of one name: kubectl would keep the last, and KEDA refuse two for one workload.
func TestObjectsOfOneNameAreRefused(t *testing.T) {
	t.Parallel()
	billing := orders
	billing.Account = "billing"
	for name, tt := range map[string]struct {
		o    manifest.Options
		says []string // "": goes well
	}{
		"queues of one name":          {manifest.Options{Queues: []manifest.Queue{orders, billing}}, []string{"shop/orders and billing/orders", `"orders"`, "--target"}},
		"jobs of one name":            {manifest.Options{Queues: []manifest.Queue{orders, billing}, Kind: manifest.KindJob, Image: "i"}, []string{"shop/orders and billing/orders"}},
		"a queue twice":               {manifest.Options{Queues: []manifest.Queue{orders, orders}}, []string{"shop/orders is named twice"}},
		"a queue twice in one object": {manifest.Options{Queues: []manifest.Queue{orders, orders}, Target: "w"}, []string{"shop/orders is named twice"}},
		"triggers of one object":      {manifest.Options{Queues: []manifest.Queue{orders, billing}, Target: "w"}, nil},
		"queues of two names":         {manifest.Options{Queues: []manifest.Queue{orders, emails}}, nil},
		"accounts that run together":  {manifest.Options{Queues: alike, Target: "w"}, nil},
	} {
		_, err := manifest.Generate(tt.o)
		if (err != nil) != (tt.says != nil) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, s := range tt.says {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%s: no %q in %v", name, s, err)
			}
		}
	}
}

// KEDA refuses an object in which two triggers have one name.
func TestTriggersHaveNamesOfTheirOwn(t *testing.T) {
	t.Parallel()
	name := regexp.MustCompile(`(?m)^      name: (.*)$`)
	for queues, want := range map[string][]string{
		"shop/orders shop/emails":                           {"shop-orders", "shop-emails"},
		"shop/eu-orders shop-eu/orders":                     {"shop--eu-orders", "shop-eu--orders"},
		"a-b/c a/b-c a--b/c":                                {"a-b--c", "a--b-c", "a--b--c"},
		"shop/eu-orders shop-eu/orders shop-/eu-orders":     {"shop--eu-orders", "shop-eu--orders", "shop---eu-orders"},
		"Shop/orders shop/orders sh.op/orders sh_op/orders": {"Shop-orders", "shop-orders", "sh.op-orders", "sh_op-orders"},
	} {
		o := manifest.Options{Target: "w", Strategy: scaler.StrategyAll}
		for q := range strings.FieldsSeq(queues) {
			account, name, _ := strings.Cut(q, "/")
			o.Queues = append(o.Queues, manifest.Queue{Account: account, Name: name})
		}
		text, _ := generate(t, o)
		var got []string
		for _, m := range name.FindAllStringSubmatch(text, -1) {
			got = append(got, m[1])
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", queues, diff)
		}
	}
}

// Every selector names a metric of the catalogue, with labels it has.
func TestQueriesNameWhatIsExported(t *testing.T) {
	t.Parallel()
	selector := regexp.MustCompile(`([a-z_]+)\{([^}]*)\}`)
	for _, s := range []scaler.Strategy{scaler.StrategyAll, scaler.StrategyVisible, scaler.StrategyInflight, scaler.StrategyDrain} {
		text, _ := generate(t, manifest.Options{
			Queues: []manifest.Queue{orders}, Scaler: manifest.ScalerPrometheus, Prometheus: "http://p", Strategy: s,
		})
		found := selector.FindAllStringSubmatch(text, -1)
		if len(found) == 0 {
			t.Errorf("%s: no selector in\n%s", s, text)
		}
		for _, m := range found {
			name := strings.TrimSuffix(strings.TrimSuffix(m[1], "_sum"), "_count")
			var labels []string
			for _, l := range metric.Of(name).Labels {
				labels = append(labels, l.Name)
			}
			for pair := range strings.SplitSeq(m[2], ", ") {
				if l, _, _ := strings.Cut(pair, "="); !slices.Contains(labels, l) {
					t.Errorf("%s: %s has no label %s", s, name, l)
				}
			}
		}
	}
}
