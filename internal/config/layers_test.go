package config_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/qwatch/qwatch/internal/config"
	"github.com/qwatch/qwatch/queue"
)

func parse(t *testing.T, text string) (*config.Config, []config.Warning) {
	t.Helper()
	cfg, warnings, err := config.Parse("qwatch.yaml", []byte(text), env)
	if err != nil {
		t.Fatal(err)
	}
	return cfg, warnings
}

const account = "accounts:\n  - name: orders\n    connectionString: UseDevelopmentStorage=true\n"

func TestTheExampleOfTheDocumentationMeansWhatItSays(t *testing.T) {
	cfg, warnings, err := config.Load("testdata/good/interface.yaml", env)
	if err != nil || len(warnings) > 0 {
		t.Fatalf("warnings %v, error %v", warnings, err)
	}
	if got := cfg.Accounts[0].ConnectionString.Reveal(); got != environment["ORDERS_CONNECTION_STRING"] {
		t.Error("the connection string is not the environment's")
	}
	want := config.Queue{
		Account: "orders",
		Name:    "orders",
		Settings: config.Settings{
			PoisonQueue:           "orders-poison",
			Encoding:              queue.EncodingNone,
			CreatePoisonIfMissing: true,
			TypeHeader:            "message-type",
			Objective:             &config.Objective{TimeInQueue: 5 * time.Minute, Target: 0.99},
			Team:                  "payments",
			Tier:                  1,
			Consumer: &config.Consumer{
				Handler:            config.Handler{HTTP: &config.HTTPHandler{URL: "http://127.0.0.1:8081/orders", Timeout: 30 * time.Second}},
				Concurrency:        16,
				VisibilityTimeout:  time.Minute,
				Renew:              true,
				LongRunningWarning: 10 * time.Minute,
				MaxDequeueCount:    5,
				MaxAge:             24 * time.Hour,
				Retry:              config.Retry{Initial: 5 * time.Second, Max: 5 * time.Minute, Jitter: 0.1},
				EmptyBackoff:       config.Backoff{Min: time.Second, Max: 30 * time.Second},
				Breaker:            true,
				OutageRecord:       true,
				ErrorBackoffMax:    time.Minute,
				DrainTimeout:       30 * time.Second,
			},
		},
	}
	if diff := cmp.Diff(want, cfg.Accounts[0].Queues[0], cmpopts.IgnoreFields(config.Queue{}, "Pos")); diff != "" {
		t.Errorf("queue (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(&config.Discovery{Include: []string{"*"}, Exclude: []string{"*-tmp"}, Interval: 5 * time.Minute, MaxQueues: 5000}, cfg.Accounts[1].Discovery); diff != "" {
		t.Errorf("discovery (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(config.Server{Listen: ":9780", Probes: ":9781", GRPC: ":9782"}, cfg.Server); diff != "" {
		t.Errorf("server (-want +got):\n%s", diff)
	}
}

func TestMinimalFileGetsEveryDefault(t *testing.T) {
	cfg, warnings := parse(t, account+"    queues: [{name: one, consumer: {handler: {exec: {command: [\"true\"]}}}}, {name: two}]\n")
	if len(warnings) > 0 {
		t.Errorf("warnings: %v", warnings)
	}
	c := cfg.Accounts[0].Queues[0].Consumer
	if c.Concurrency != 1 || c.VisibilityTimeout != time.Minute || c.MaxDequeueCount != 5 || c.MaxAge != 0 || !c.Renew ||
		c.DrainTimeout != 30*time.Second || c.Handler.Timeout() != 30*time.Second {
		t.Errorf("consumer = %+v", c)
	}
	if q := cfg.Accounts[0].Queues[1]; q.Consumer != nil || q.PoisonQueue != "two-poison" || q.Tier != 0 {
		t.Errorf("watched queue = %+v", q)
	}
	want := config.Watch{
		Interval: time.Minute, IdleInterval: 5 * time.Minute, RequestsPerSecond: 100,
		Patience: 10 * time.Minute, Series: config.SeriesFull,
	}
	if diff := cmp.Diff(want, cfg.Watch); diff != "" {
		t.Errorf("watch (-want +got):\n%s", diff)
	}
}

func TestDefaultsAndTheQueueItself(t *testing.T) {
	exec := "consumer: {handler: {exec: {command: [\"true\"]}}}"
	tests := map[string]struct {
		queue, defaults string
		got             func(config.Queue) any
		want            any
	}{
		"the last default that matches wins":              {"tier: 1", "[{match: '*', team: a}, {match: 'or*', team: b}, {match: 'x*', team: c}]", func(q config.Queue) any { return q.Team }, "b"},
		"the queue wins over every default":               {"team: own", "[{match: '*', team: a}]", func(q config.Queue) any { return q.Team }, "own"},
		"a glob with a slash is held against the account": {"tier: 1", "[{match: 'orders/or*', team: a}, {match: 'other/*', team: b}]", func(q config.Queue) any { return q.Team }, "a"},
		"an asterisk does not reach over the slash":       {"tier: 1", "[{match: '*', team: a}, {match: 'o*/*', team: b}]", func(q config.Queue) any { return q.Team }, "b"},
		"settings merge one by one":                       {"consumer: {handler: {exec: {command: [\"true\"]}}, retry: {max: 1h}}", "[{match: '*', consumer: {retry: {initial: 1m, max: 2m}}}]", func(q config.Queue) any { return q.Consumer.Retry }, config.Retry{Initial: time.Minute, Max: time.Hour, Jitter: 0.1}},
		"a default makes no consumer":                     {"tier: 1", "[{match: '*', " + exec + "}]", func(q config.Queue) any { return q.Consumer == nil }, true},
		"a default fills an empty consumer":               {"consumer: {}", "[{match: '*', " + exec + "}]", func(q config.Queue) any { return q.Consumer.Handler.Exec.Command }, []string{"true"}},
		"the queue's kind of handler wins":                {exec, "[{match: '*', consumer: {handler: {http: {url: 'http://127.0.0.1/', timeout: 5s}}}}]", func(q config.Queue) any { return q.Consumer.Handler.HTTP == nil }, true},
		"the later default's kind of handler wins":        {"consumer: {}", "[{match: '*', " + exec + "}, {match: '*', consumer: {handler: {http: {url: 'http://127.0.0.1/'}}}}]", func(q config.Queue) any { return q.Consumer.Handler.Exec == nil }, true},
		"a default's handler timeout reaches the queue":   {"consumer: {handler: {http: {url: 'http://127.0.0.1/'}}}", "[{match: '*', consumer: {handler: {http: {timeout: 5s}}}}]", func(q config.Queue) any { return q.Consumer.Handler.Timeout() }, 5 * time.Second},
		"a consumer does not take monitorOnly":            {exec, "[{match: '*', monitorOnly: true}]", func(q config.Queue) any { return q.MonitorOnly }, false},
		"a poison queue named for all is not its own":     {"tier: 1", "[{match: '*', poisonQueue: orders}]", func(q config.Queue) any { return q.NoPoison }, true},
		"the queue's poison queue wins over noPoison":     {"poisonQueue: mine", "[{match: '*', noPoison: true}]", func(q config.Queue) any { return q.PoisonQueue }, "mine"},
		"the queue's noPoison wins over a poison queue":   {"noPoison: true", "[{match: '*', poisonQueue: all-poison}]", func(q config.Queue) any { return q.PoisonQueue }, ""},
		"maxAge can be turned off again":                  {"consumer: {handler: {exec: {command: [\"true\"]}}, maxAge: off}", "[{match: '*', consumer: {maxAge: 1d}}]", func(q config.Queue) any { return q.Consumer.MaxAge }, time.Duration(0)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			cfg, _ := parse(t, account+"    queues:\n      - name: orders\n        "+tt.queue+"\ndefaults: "+tt.defaults+"\n")
			if diff := cmp.Diff(tt.want, tt.got(cfg.Accounts[0].Queues[0])); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDefaultsAreNotSharedBetweenQueues(t *testing.T) {
	cfg, _ := parse(t, account+`    queues:
      - {name: one, consumer: {concurrency: 2}}
      - {name: two, consumer: {concurrency: 3}}
      - {name: three, objective: {target: 0.5}}
      - {name: four}
defaults:
  - {match: "*", objective: {timeInQueue: 1m}, consumer: {handler: {http: {url: "http://127.0.0.1/"}}}}
`)
	q := cfg.Accounts[0].Queues
	if q[0].Consumer.Concurrency != 2 || q[1].Consumer.Concurrency != 3 || q[0].Consumer.Handler.HTTP == q[1].Consumer.Handler.HTTP {
		t.Error("the consumers of two queues are one")
	}
	if q[2].Objective.Target != 0.5 || q[3].Objective.Target != 0.99 {
		t.Errorf("objectives = %v, %v", q[2].Objective, q[3].Objective)
	}
}

func TestPoisonQueuesAmongTheQueues(t *testing.T) {
	cfg, warnings := parse(t, account+`    queues:
      - name: orders
      - name: orders-poison
      - {name: a-queue, poisonQueue: bad}
      - {name: b-queue, poisonQueue: bad}
      - {name: bad}
      - {name: c-queue, poisonQueue: worse}
      - {name: d-queue, poisonQueue: worse}
      - {name: alone}
`)
	var got []string
	for _, q := range cfg.Accounts[0].Queues {
		got = append(got, fmt.Sprintf("%s: poison %q none %v shared %v", q.Name, q.PoisonQueue, q.NoPoison, q.SharedPoison))
	}
	want := []string{
		`orders: poison "orders-poison" none false shared true`,
		`orders-poison: poison "" none true shared false`,
		`a-queue: poison "bad" none false shared true`,
		`b-queue: poison "bad" none false shared true`,
		`bad: poison "" none true shared false`,
		`c-queue: poison "worse" none false shared true`,
		`d-queue: poison "worse" none false shared true`,
		`alone: poison "alone-poison" none false shared false`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(warnings) > 0 {
		t.Errorf("warnings = %v", warnings)
	}
}

func TestWhatComesFromDefaultsIsTold(t *testing.T) {
	cfg, _ := parse(t, account+`    queues:
      - {name: own, team: a, tier: 1, objective: {timeInQueue: 5m}}
      - {name: none}
      - {name: mixed, tier: 2, objective: {target: 0.9}}
      - {name: plain-none}
defaults:
  - {match: "[nm]*", team: b, tier: 3, objective: {timeInQueue: 1h}}
`)
	want := []config.Inherited{{}, {Team: true, Tier: true, Objective: true}, {Team: true}, {}}
	for i, q := range cfg.Accounts[0].Queues {
		if q.FromDefaults != want[i] {
			t.Errorf("%s: %+v, want %+v", q.Name, q.FromDefaults, want[i])
		}
	}
	if got := cfg.QueueFor("orders", "found").FromDefaults; got != (config.Inherited{Team: true, Tier: true, Objective: true}) {
		t.Errorf("a queue that was found: %+v", got)
	}
}

func TestQueuesFoundByDiscoveryGetTheDefaults(t *testing.T) {
	cfg, _ := parse(t, account+`    discovery: {}
    queues: [{name: orders, team: own, tier: 1}]
defaults:
  - {match: "*", poisonQueue: all-poison, tier: 3, consumer: {handler: {http: {url: "http://127.0.0.1/"}}}}
  - {match: "plain*", noPoison: true}
`)
	got := func(name string) string {
		q := cfg.QueueFor("orders", name)
		return fmt.Sprintf("%s/%s tier %d poison %q none %v consumed %v %q", q.Account, q.Name, q.Tier, q.PoisonQueue, q.NoPoison, q.Consumer != nil, q.Pos)
	}
	for name, want := range map[string]string{
		"orders":     `orders/orders tier 1 poison "all-poison" none false consumed false "qwatch.yaml:5: accounts[0].queues[0]"`,
		"found":      `orders/found tier 3 poison "all-poison" none false consumed false ""`,
		"all-poison": `orders/all-poison tier 3 poison "" none true consumed false ""`,
		"plain":      `orders/plain tier 3 poison "" none true consumed false ""`,
	} {
		if diff := cmp.Diff(want, got(name)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	long := strings.Repeat("a", 60)
	if q := (&config.Config{}).QueueFor("orders", long); !q.NoPoison {
		t.Errorf("a long name found without a poison queue's name got %q", q.PoisonQueue)
	}
	if q := (&config.Config{}).QueueFor("orders", "found"); q.PoisonQueue != "found-poison" || q.Encoding != queue.EncodingNone {
		t.Errorf("without defaults: %+v", q)
	}
}

func TestPlacesInTheFile(t *testing.T) {
	cfg, _ := parse(t, account+`    queues:
      - name: orders
        tier: 1
      - name: billing
defaults: [{match: "bill*", team: a}]
`)
	for path, want := range map[string]string{
		"accounts[0]":                  "qwatch.yaml:2: accounts[0]",
		"accounts[0].connectionString": "qwatch.yaml:3: accounts[0].connectionString",
		"accounts[0].queues[0].tier":   "qwatch.yaml:6: accounts[0].queues[0].tier",
		"accounts[0].queues[1]":        "qwatch.yaml:7: accounts[0].queues[1]",
		"accounts[0].queues[1].team":   "qwatch.yaml:8: defaults[0].team",
		"accounts[0].queues[1].tier":   "qwatch.yaml:7: accounts[0].queues[1].tier",
		"server.listen":                "qwatch.yaml:1: server.listen",
	} {
		if got := cfg.At(path); got != want {
			t.Errorf("At(%q) = %q, want %q", path, got, want)
		}
	}
	if got := cfg.Accounts[0].Pos.String(); got != cfg.At("accounts[0]") {
		t.Errorf("Pos = %q", got)
	}
	if got := cfg.Accounts[0].Queues[1].Pos.Line; got != 7 {
		t.Errorf("the second queue's line = %d, want 7", got)
	}
}
