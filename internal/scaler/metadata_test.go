package scaler

import (
	"errors"
	"maps"
	"strings"
	"testing"
)

func TestParseTrigger(t *testing.T) {
	t.Parallel()
	good := map[string]string{"account": "acct", "queueName": "orders"}
	with := func(pairs ...string) map[string]string {
		m := maps.Clone(good)
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = pairs[i+1]
		}
		return m
	}
	for name, tt := range map[string]struct {
		metadata map[string]string
		want     Trigger
		faults   []string // the fields the error is about
	}{
		"the least":             {good, Trigger{"acct", "orders", StrategyAll, 5, 0}, nil},
		"everything":            {with("strategy", "inflight", "queueLength", "2.5", "activationQueueLength", "10"), Trigger{"acct", "orders", StrategyInflight, 2.5, 10}, nil},
		"drain":                 {with("strategy", "drain"), Trigger{"acct", "orders", StrategyDrain, 1, 0}, nil},
		"drain with its length": {with("strategy", "drain", "queueLength", "1"), Trigger{"acct", "orders", StrategyDrain, 1, 0}, nil},
		"what KEDA adds": {
			with("scalerAddress", "a:1", "enableTLS", "true", "unsafeSsl", "false", "accountName", "x", "somethingFromEnv", "y"),
			Trigger{"acct", "orders", StrategyAll, 5, 0},
			nil,
		},
		"nothing":              {nil, Trigger{}, []string{"account", "queueName"}},
		"another case":         {with("QueueLength", "3"), Trigger{}, []string{"QueueLength"}},
		"a slip of the finger": {with("queueLenght", "3", "activationQueueLegth", "3"), Trigger{}, []string{"activationQueueLegth", "queueLenght"}},
		"all kinds of wrong": {
			map[string]string{"account": "", "queueName": "q", "strategy": "Visible", "queueLength": "0", "activationQueueLength": "NaN"},
			Trigger{},
			[]string{"account", "strategy", "queueLength", "activationQueueLength"},
		},
		"too much":             {with("queueLength", "1e300"), Trigger{}, []string{"queueLength"}},
		"too little":           {with("queueLength", "0.0009"), Trigger{}, []string{"queueLength"}},
		"a thousandth":         {with("queueLength", "0.001"), Trigger{"acct", "orders", StrategyAll, 0.001, 0}, nil},
		"drain and a length":   {with("strategy", "drain", "queueLength", "5"), Trigger{}, []string{"queueLength"}},
		"a negative threshold": {with("activationQueueLength", "-1"), Trigger{}, []string{"activationQueueLength"}},
	} {
		got, err := ParseTrigger(tt.metadata)
		if got != tt.want {
			t.Errorf("%s: %+v, want %+v", name, got, tt.want)
		}
		if len(tt.faults) == 0 {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		e, ok := errors.AsType[*Error](err)
		if !ok || e.Kind != BadRequest {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var about []string
		for line := range strings.Lines(e.Text) {
			field, _, _ := strings.Cut(strings.TrimPrefix(line, "metadata "), ":")
			about = append(about, field)
		}
		if strings.Join(about, " ") != strings.Join(tt.faults, " ") {
			t.Errorf("%s: about %q, want %q:\n%v", name, about, tt.faults, err)
		}
	}
}

func TestMetricNamesArePartsOfAURL(t *testing.T) {
	t.Parallel()
	got := Trigger{Account: "Shop.eu_1", Queue: "orders", Strategy: StrategyDrain}.MetricName()
	if want := "qwatch-shop-eu-1-orders-drain"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func FuzzParseTrigger(f *testing.F) {
	f.Add("account", "acct", "queueLength", "5", "drain")
	f.Add("queueLenght", "\x00", "activationQueueLength", "1e400", "visible")
	f.Fuzz(func(t *testing.T, k1, v1, k2, v2, strategy string) {
		trigger, err := ParseTrigger(map[string]string{"account": "a", "queueName": "q", "strategy": strategy, k1: v1, k2: v2})
		if err != nil {
			if trigger != (Trigger{}) {
				t.Errorf("%+v with %v", trigger, err)
			}
			return
		}
		if !(trigger.Target > 0) || !(trigger.Activation >= 0) || trigger.Strategy.String() == "" {
			t.Errorf("%+v", trigger)
		}
		for _, r := range trigger.MetricName() {
			if !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789-", r) {
				t.Errorf("%q", trigger.MetricName())
			}
		}
	})
}
