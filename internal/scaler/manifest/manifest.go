// Package manifest makes the objects that let KEDA scale on qwatch's signal: ScaledObject, ScaledJob and
// TriggerAuthentication.
//
// It is a pure generator: what it makes depends on its options alone, byte for byte. It owns which settings of
// KEDA fit which strategy, and what to warn about.
package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/qwatch/qwatch/internal/scaler"
)

// The kinds of objects.
const (
	KindObject = "scaledobject"
	KindJob    = "scaledjob"
)

// Kinds are the kinds there are, the default first.
func Kinds() []string { return []string{KindObject, KindJob} }

// The scalers of KEDA that understand qwatch.
const (
	ScalerExternal   = "external"
	ScalerPush       = "external-push"
	ScalerAPI        = "metrics-api"
	ScalerPrometheus = "prometheus"
)

// Scalers are the scalers there are, the default first.
func Scalers() []string { return []string{ScalerExternal, ScalerPush, ScalerAPI, ScalerPrometheus} }

// The ways to sign in over HTTP.
const (
	AuthNone   = "none"
	AuthBasic  = "basic"
	AuthBearer = "bearer"
	AuthTLS    = "tls"
)

// Auths are the ways there are, the default first.
func Auths() []string { return []string{AuthNone, AuthBasic, AuthBearer, AuthTLS} }

// knownAuth says whether auth is one of Auths, or AuthTLS and one of the others with a comma between them.
func knownAuth(auth string) bool {
	first, second, two := strings.Cut(auth, ",")
	if two {
		return first == AuthTLS && (second == AuthBasic || second == AuthBearer)
	}
	return slices.Contains(Auths(), auth)
}

// Queue is a queue to scale for.
type Queue struct {
	Account, Name string
	Objective     time.Duration // 0: none is configured
	HandlingTime  time.Duration // configured for drain; 0: none
	Concurrency   int           // of one replica, for drain
	CountsOnly    bool          // messages are never looked at
	Consumed      bool          // the configuration has a consumer
}

// String returns "account/queue".
func (q Queue) String() string { return q.Account + "/" + q.Name }

// Options say what to make. What is 0 or "" has the default its comment says.
type Options struct {
	// Queues to scale for. Required.
	Queues []Queue
	// Kind is KindObject or KindJob. Default KindObject.
	Kind string
	// Scaler is one of Scalers. Default ScalerExternal.
	Scaler string
	// Strategy. Default StrategyVisible for jobs and StrategyInflight for objects; StrategyDrain for objects
	// of queues that have an objective, all of them.
	Strategy scaler.Strategy
	// Target is the workload of a ScaledObject, for all queues together. Default: one object for each queue,
	// whose workload has the queue's name.
	Target string
	// TargetKind of it. Default "": a Deployment.
	TargetKind string
	// Name of the object. Default: Target, or the queue's name.
	Name string
	// Namespace of the objects. Default "": the one they are applied to.
	Namespace string
	// Address of qwatch: host, or host:port. Default "qwatch.NAMESPACE.svc" and the port of the configuration.
	Address string
	// GRPCPort and HTTPPort are the ports of the configuration. Default 9782 and 9780.
	GRPCPort, HTTPPort string
	// Prometheus is the URL of the server, for ScalerPrometheus. Required there.
	Prometheus string
	// Auth is how KEDA signs in to the API or to Prometheus: one of Auths, "tls,basic" or "tls,bearer". Default AuthNone.
	Auth string
	// Scheme of the API: http or https. Default https with an Auth, and http without.
	Scheme string
	// GRPCTLS says that the gRPC listener speaks TLS, and ClientCert that it demands a certificate.
	GRPCTLS, ClientCert bool
	// Secret holds what KEDA signs in with. Default "qwatch-scaler".
	Secret string
	// QueueLength is how many messages one replica is for. Default 5, and 1 for drain.
	QueueLength float64
	// Activation is how many messages call for no replica yet. Default 0.
	Activation float64
	// Min and Max replicas. Default 0 and 100.
	Min, Max int
	// Polling is how often KEDA asks. Default 15s, or PollInterval when that is longer, but 30s at most.
	Polling time.Duration
	// PollInterval is how often qwatch looks at its queues. Default 1m.
	PollInterval time.Duration
	// Cooldown before the last replica goes. Default 1m for drain, and 5m.
	Cooldown time.Duration
	// Fallback is how many replicas there are when qwatch cannot be asked. Default 0: as many as there were.
	Fallback int
	// Image of a ScaledJob's container. Required there.
	Image string
	// JobStrategy is KEDA's scalingStrategy. Default: what fits the strategy.
	JobStrategy string
	// Peers says that running handlers elsewhere are known, by scaling.peers.
	Peers bool
}

func (o Options) withDefaults() Options {
	set := func(s *string, value string) {
		if *s == "" {
			*s = value
		}
	}
	set(&o.Kind, KindObject)
	set(&o.Scaler, ScalerExternal)
	set(&o.Auth, AuthNone)
	if o.Auth != AuthNone {
		set(&o.Scheme, "https")
	}
	set(&o.Scheme, "http")
	set(&o.Secret, "qwatch-scaler")
	set(&o.GRPCPort, "9782")
	set(&o.HTTPPort, "9780")
	if o.Address == "" {
		namespace := o.Namespace
		set(&namespace, "default")
		o.Address = "qwatch." + namespace + ".svc"
	}
	if o.Strategy == 0 {
		o.Strategy = o.fitting()
	}
	if o.Strategy == scaler.StrategyDrain && o.QueueLength == 0 {
		o.QueueLength = 1
	}
	if o.QueueLength == 0 {
		o.QueueLength = scaler.DefaultTarget
	}
	if o.Max == 0 {
		o.Max = 100
	}
	if o.PollInterval == 0 {
		o.PollInterval = time.Minute
	}
	if o.Polling == 0 {
		o.Polling = min(max(15*time.Second, o.PollInterval), 30*time.Second)
	}
	if o.Cooldown == 0 {
		o.Cooldown = 5 * time.Minute
		if o.Strategy == scaler.StrategyDrain {
			o.Cooldown = time.Minute
		}
	}
	return o
}

// fitting is the strategy for who names none.
func (o Options) fitting() scaler.Strategy {
	switch {
	case o.Kind == KindJob:
		return scaler.StrategyVisible
	case !slices.ContainsFunc(o.Queues, func(q Queue) bool { return q.Objective == 0 }):
		return scaler.StrategyDrain
	default:
		return scaler.StrategyInflight
	}
}

// validate returns every fault. Each names the flag of the command.
func (o Options) validate() error {
	var errs []error
	bad := func(when bool, format string, args ...any) {
		if when {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	bad(len(o.Queues) == 0, "there is no queue to scale for")
	bad(!slices.Contains(Kinds(), o.Kind), "--kind %q is not one of %s", o.Kind, strings.Join(Kinds(), ", "))
	bad(!slices.Contains(Scalers(), o.Scaler), "--scaler %q is not one of %s", o.Scaler, strings.Join(Scalers(), ", "))
	bad(!knownAuth(o.Auth), "--auth %q is not one of %s, nor tls,basic or tls,bearer", o.Auth, strings.Join(Auths(), ", "))
	bad(o.Scheme != "http" && o.Scheme != "https", "scheme %q is neither http nor https", o.Scheme)
	bad(o.Strategy == scaler.StrategyDrain && o.QueueLength != 1, "--queue-length %v does not go with drain, whose value is replicas already: its target is 1", o.QueueLength)
	bad(!(o.QueueLength >= scaler.LeastTarget), "--queue-length %v must be at least %v, the least that Kubernetes counts in", o.QueueLength, scaler.LeastTarget)
	bad(!(o.Activation >= 0), "--activation-queue-length %v must not be negative", o.Activation)
	bad(o.Strategy == scaler.StrategyDrain && o.Activation > 0 && !o.external(),
		"--activation-queue-length with drain goes with --scaler %s and %s alone, where it means messages: to %s the value is replicas, and so would be the threshold", ScalerExternal, ScalerPush, o.Scaler)
	bad(o.Min < 0, "--min %d must not be negative", o.Min)
	bad(o.Max < 1 || o.Max < o.Min, "--max %d must be at least 1, and at least --min", o.Max)
	bad(o.Polling < time.Second, "--polling-interval %v must be at least 1s", o.Polling)
	bad(o.Cooldown < 0, "--cooldown %v must not be negative", o.Cooldown)
	bad(o.Fallback < 0, "--fallback %d must not be negative", o.Fallback)
	bad(o.Scaler == ScalerPrometheus && o.Prometheus == "", "--scaler prometheus needs --prometheus, the URL of the server")
	bad(o.Auth != AuthNone && o.external(), "--auth is for metrics-api and prometheus; of gRPC the configuration tells: server.grpcTLS")
	bad(o.Kind == KindJob && o.Image == "", "--kind scaledjob needs --image, what the job runs")
	bad(o.Kind == KindJob && o.Target != "", "--target is for scaledobject; a job brings its own")
	bad(o.Kind == KindObject && o.Image != "", "--image is for scaledjob")
	bad(o.Kind == KindObject && o.JobStrategy != "", "--scaling-strategy is for scaledjob")
	bad(o.Name != "" && o.Target == "" && len(o.Queues) > 1, "--name is for one object, and there would be %d; add --target, or name one queue", len(o.Queues))
	bad(o.JobStrategy != "" && !slices.Contains([]string{"default", "accurate", "eager"}, o.JobStrategy), "--scaling-strategy %q is not one of default, accurate, eager", o.JobStrategy)
	for flag, name := range map[string]string{"--name": o.Name, "--target": o.Target, "--secret": o.Secret, "--namespace": o.Namespace} {
		bad(name != "" && !isName(name), "%s %q is not a name in Kubernetes: use lower-case letters, digits, hyphens and dots", flag, name)
	}
	return errors.Join(append(errs, o.collisions()...)...)
}

// collisions are queues that would be one trigger twice, or two objects of one name, of which kubectl would keep the last.
func (o Options) collisions() []error {
	var errs []error
	by := map[string]Queue{}
	for _, q := range o.Queues {
		id := objectName(q.Name)
		if o.Target != "" {
			id = q.String()
		}
		before, twice := by[id]
		switch {
		case twice && before.String() == q.String():
			errs = append(errs, fmt.Errorf("%s is named twice", q))
		case twice:
			errs = append(errs, fmt.Errorf("%s and %s would both be the object %q, for the workload of that name: generate them one by one with --name and --target, or add --target NAME to make them triggers of one object", before, q, id))
		default:
			by[id] = q
		}
	}
	return errs
}

var nameForm = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)

func isName(s string) bool { return nameForm.MatchString(s) }

func (o Options) external() bool { return o.Scaler == ScalerExternal || o.Scaler == ScalerPush }

// Generated is what was made.
type Generated struct {
	objects  []any
	Warnings []string // of what will hardly do what is meant
}

// Generate makes the objects. Errors tell every fault of the options.
func Generate(o Options) (*Generated, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	g := &Generated{Warnings: o.warnings()}
	auth := o.authentication()
	if auth != nil {
		g.objects = append(g.objects, auth)
	}
	groups := [][]Queue{o.Queues}
	if o.Target == "" {
		groups = nil
		for _, q := range o.Queues {
			groups = append(groups, []Queue{q})
		}
	}
	for _, queues := range groups {
		if o.Kind == KindJob {
			g.objects = append(g.objects, o.job(queues, auth))
		} else {
			g.objects = append(g.objects, o.object(queues, auth))
		}
	}
	return g, nil
}

// Write writes the objects as YAML documents.
func (g *Generated) Write(w io.Writer) error {
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	for _, o := range g.objects {
		if err := enc.Encode(o); err != nil {
			return fmt.Errorf("write manifests: %w", err)
		}
	}
	if err := enc.Close(); err != nil {
		return fmt.Errorf("write manifests: %w", err)
	}
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("write manifests: %w", err)
	}
	return nil
}
