package scaler

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// The metadata of a trigger.
const (
	keyAccount    = "account"
	keyQueue      = "queueName"
	keyStrategy   = "strategy"
	keyTarget     = "queueLength"
	keyActivation = "activationQueueLength"
)

// DefaultTarget is how many messages one replica is for, unless the trigger says.
const DefaultTarget = 5

// LeastTarget is the least of what one replica may be for: Kubernetes counts in thousandths.
const LeastTarget = 0.001

// Trigger is what a ScaledObject asks for.
type Trigger struct {
	Account, Queue string
	Strategy       Strategy
	Target         float64 // of the value, per replica
	Activation     float64 // more messages than that call for the first replica
}

// ParseTrigger reads the metadata of a trigger. The error is an *Error that tells every fault, each
// with the field it is about.
func ParseTrigger(metadata map[string]string) (Trigger, error) {
	var errs []error
	bad := func(field, format string, args ...any) {
		errs = append(errs, fmt.Errorf("metadata %s: %s", field, fmt.Sprintf(format, args...)))
	}
	t := Trigger{Account: metadata[keyAccount], Queue: metadata[keyQueue], Strategy: StrategyAll, Target: DefaultTarget}
	if t.Account == "" {
		bad(keyAccount, "is missing; it is the account's name in qwatch's configuration")
	}
	if t.Queue == "" {
		bad(keyQueue, "is missing; it is the name of the main queue")
	}
	var err error
	if t.Strategy, err = ParseStrategy(metadata[keyStrategy]); err != nil {
		bad(keyStrategy, "%s", err)
	}
	if t.Strategy == StrategyDrain {
		t.Target = 1
	}
	if text, ok := metadata[keyTarget]; ok {
		switch n, problem := number(text); {
		case problem != "":
			bad(keyTarget, "%q %s", text, problem)
		case n < LeastTarget:
			bad(keyTarget, "must be at least %v: it is how many messages one replica is for", LeastTarget)
		case t.Strategy == StrategyDrain && n != 1:
			bad(keyTarget, "%q is not 1: the value of drain is replicas already; remove it", text)
		default:
			t.Target = n
		}
	}
	if text, ok := metadata[keyActivation]; ok {
		switch n, problem := number(text); {
		case problem != "":
			bad(keyActivation, "%q %s", text, problem)
		default:
			t.Activation = n
		}
	}
	for _, k := range slices.Sorted(maps.Keys(metadata)) {
		if meant := misspelt(k); meant != "" {
			bad(k, "is not a field; is %s meant?", meant)
		}
	}
	if len(errs) > 0 {
		return Trigger{}, &Error{BadRequest, errors.Join(errs...).Error()}
	}
	return t, nil
}

// number reads a number that is not negative, with what is wrong about it.
func number(s string) (n float64, problem string) {
	n, err := strconv.ParseFloat(s, 64)
	switch {
	case err != nil || math.IsNaN(n) || math.IsInf(n, 0) || n > maxReplicas:
		return 0, "is not a number"
	case n < 0:
		return 0, "is negative"
	default:
		return n, ""
	}
}

// misspelt returns the field that a key resembles without being it; "". KEDA's own keys come along with
// ours and resemble none.
func misspelt(k string) string {
	fields := []string{keyAccount, keyQueue, keyStrategy, keyTarget, keyActivation}
	if slices.Contains(fields, k) || k == "accountName" {
		return ""
	}
	for _, f := range fields {
		if strings.EqualFold(k, f) || distance(strings.ToLower(k), strings.ToLower(f)) <= 2 {
			return f
		}
	}
	return ""
}

// distance is how many letters must change, come or go to make b of a. Long names are far from everything.
func distance(a, b string) int {
	const long = 64
	if len(a) > long {
		return long
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}

// MetricName is the name of the trigger's metric, which is part of a URL in Kubernetes.
func (t Trigger) MetricName() string {
	name := "qwatch-" + t.Account + "-" + t.Queue + "-" + t.Strategy.String()
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		default:
			return '-'
		}
	}, name)
}
