package manifest

import (
	"cmp"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/qwatch/qwatch/internal/scaler"
)

const apiVersion = "keda.sh/v1alpha1"

type object struct {
	APIVersion string   `yaml:"apiVersion"`
	Kind       string   `yaml:"kind"`
	Metadata   metadata `yaml:"metadata"`
	Spec       any      `yaml:"spec"`
}

type metadata struct {
	Name      string            `yaml:"name"`
	Namespace string            `yaml:"namespace,omitempty"`
	Labels    map[string]string `yaml:"labels,omitempty"`
}

func (o Options) named(kind, name string, spec any) *object {
	return &object{apiVersion, kind, metadata{name, o.Namespace, map[string]string{"app.kubernetes.io/managed-by": "qwatch"}}, spec}
}

type scaledObject struct {
	ScaleTargetRef  targetRef `yaml:"scaleTargetRef"`
	PollingInterval int       `yaml:"pollingInterval"`
	CooldownPeriod  int       `yaml:"cooldownPeriod"`
	Min             int       `yaml:"minReplicaCount"`
	Max             int       `yaml:"maxReplicaCount"`
	Fallback        *fallback `yaml:"fallback,omitempty"`
	Advanced        *advanced `yaml:"advanced,omitempty"`
	Triggers        []trigger `yaml:"triggers"`
}

type targetRef struct {
	APIVersion string `yaml:"apiVersion,omitempty"`
	Kind       string `yaml:"kind,omitempty"`
	Name       string `yaml:"name"`
}

type fallback struct {
	FailureThreshold int    `yaml:"failureThreshold"`
	Replicas         int    `yaml:"replicas"`
	Behavior         string `yaml:"behavior"`
}

type advanced struct {
	HPA hpa `yaml:"horizontalPodAutoscalerConfig"`
}

type hpa struct {
	Behavior behavior `yaml:"behavior"`
}

type behavior struct {
	ScaleDown scaleDown `yaml:"scaleDown"`
}

type scaleDown struct {
	Window int `yaml:"stabilizationWindowSeconds"`
}

type trigger struct {
	Type       string            `yaml:"type"`
	Name       string            `yaml:"name,omitempty"`
	MetricType string            `yaml:"metricType,omitempty"`
	Metadata   map[string]string `yaml:"metadata"`
	Auth       *authRef          `yaml:"authenticationRef,omitempty"`
}

type authRef struct {
	Name string `yaml:"name"`
}

// drainWindow is how long fewer replicas must suffice until they go: drain never asks for fewer than are busy, so
// that it need not be watched for five minutes, as Kubernetes does by default.
const drainWindow = 15 * time.Second

func (o Options) object(queues []Queue, auth *object) *object {
	name := cmp.Or(o.Name, o.Target, objectName(queues[0].Name))
	s := scaledObject{
		ScaleTargetRef:  targetRef{Kind: o.TargetKind, Name: cmp.Or(o.Target, objectName(queues[0].Name))},
		PollingInterval: seconds(o.Polling), CooldownPeriod: seconds(o.Cooldown), Min: o.Min, Max: o.Max,
		Triggers: o.triggers(queues, auth),
	}
	if o.TargetKind != "" {
		s.ScaleTargetRef.APIVersion = "apps/v1"
	}
	if o.Fallback > 0 {
		s.Fallback = &fallback{FailureThreshold: 3, Replicas: o.Fallback, Behavior: "currentReplicasIfHigher"}
	}
	if o.Strategy == scaler.StrategyDrain {
		s.Advanced = &advanced{hpa{behavior{scaleDown{seconds(drainWindow)}}}}
	}
	return o.named("ScaledObject", name, s)
}

// objectName is a queue's name, which Kubernetes takes as it is.
func objectName(queue string) string { return queue }

func seconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

type scaledJob struct {
	JobTargetRef    jobSpec         `yaml:"jobTargetRef"`
	PollingInterval int             `yaml:"pollingInterval"`
	Min             int             `yaml:"minReplicaCount"`
	Max             int             `yaml:"maxReplicaCount"`
	Succeeded       int             `yaml:"successfulJobsHistoryLimit"`
	Failed          int             `yaml:"failedJobsHistoryLimit"`
	Rollout         rollout         `yaml:"rollout"`
	ScalingStrategy scalingStrategy `yaml:"scalingStrategy"`
	Triggers        []trigger       `yaml:"triggers"`
}

type rollout struct {
	Strategy string `yaml:"strategy"`
}

type scalingStrategy struct {
	Strategy string `yaml:"strategy"`
}

type jobSpec struct {
	BackoffLimit int         `yaml:"backoffLimit"`
	Template     podTemplate `yaml:"template"`
}

type podTemplate struct {
	Spec podSpec `yaml:"spec"`
}

type podSpec struct {
	RestartPolicy string      `yaml:"restartPolicy"`
	Containers    []container `yaml:"containers"`
}

type container struct {
	Name  string `yaml:"name"`
	Image string `yaml:"image"`
}

func (o Options) job(queues []Queue, auth *object) *object {
	name := cmp.Or(o.Name, objectName(queues[0].Name))
	return o.named("ScaledJob", name, scaledJob{
		// A job that failed leaves its message to the next one.
		JobTargetRef:    jobSpec{0, podTemplate{podSpec{"Never", []container{{"consumer", o.Image}}}}},
		PollingInterval: seconds(o.Polling), Min: o.Min, Max: o.Max, Succeeded: 5, Failed: 5,
		// A new version does not end the jobs that hold messages.
		Rollout:         rollout{"gradual"},
		ScalingStrategy: scalingStrategy{cmp.Or(o.JobStrategy, o.jobStrategy())},
		Triggers:        o.triggers(queues, auth),
	})
}

// jobStrategy is KEDA's scalingStrategy that fits: "default" subtracts the running jobs from the value, and so
// needs one in which their messages are counted; "accurate" does not, and so needs one in which they are not.
func (o Options) jobStrategy() string {
	if o.countsRunning() {
		return "default"
	}
	return "accurate"
}

// countsRunning says whether the value counts the messages that jobs are working on.
func (o Options) countsRunning() bool {
	switch o.Strategy {
	case scaler.StrategyAll:
		return true
	case scaler.StrategyVisible:
		return false
	default:
		return o.Peers
	}
}

func (o Options) triggers(queues []Queue, auth *object) []trigger {
	all := make([]trigger, 0, len(queues))
	hyphen := triggerHyphen(queues)
	for _, q := range queues {
		t := trigger{Type: o.Scaler, Metadata: o.metadata(q)}
		if len(queues) > 1 {
			t.Name = q.Account + hyphen + q.Name
		}
		if o.Kind == KindObject {
			t.MetricType = "AverageValue"
		}
		if auth != nil {
			t.Auth = &authRef{auth.Metadata.Name}
		}
		all = append(all, t)
	}
	return all
}

// triggerHyphen is what stands between account and queue in the names of an object's triggers, which KEDA wants to
// differ: one hyphen, or two for all of them where with one a queue b-c of account a were the queue c of account a-b. No
// queue's name has two hyphens in a row or begins with one, so that two tell the names apart whatever accounts are called.
func triggerHyphen(queues []Queue) string {
	seen := map[string]bool{}
	for _, q := range queues {
		name := q.Account + "-" + q.Name
		if seen[name] {
			return "--"
		}
		seen[name] = true
	}
	return "-"
}

func (o Options) metadata(q Queue) map[string]string {
	target, activation := number(o.QueueLength), number(o.Activation)
	switch o.Scaler {
	case ScalerAPI:
		u := url.URL{
			Scheme: o.Scheme, Host: withPort(o.Address, o.HTTPPort), Path: "/api/v1/scaling/" + q.Account + "/" + q.Name,
			RawQuery: url.Values{"strategy": {o.Strategy.String()}}.Encode(),
		}
		m := map[string]string{"url": u.String(), "valueLocation": "value", "targetValue": target, "activationTargetValue": activation}
		if o.Auth != AuthNone {
			m["authMode"] = o.Auth
		}
		return m
	case ScalerPrometheus:
		m := map[string]string{
			"serverAddress": o.Prometheus, "query": o.query(q), "threshold": target, "activationThreshold": activation,
			"ignoreNullValues": "false", // what is not known is not 0
		}
		if o.Auth != AuthNone {
			m["authModes"] = o.Auth
		}
		return m
	default:
		m := map[string]string{
			"scalerAddress": withPort(o.Address, o.GRPCPort), "account": q.Account, "queueName": q.Name, "strategy": o.Strategy.String(),
			"queueLength": target, "activationQueueLength": activation,
		}
		if o.GRPCTLS {
			m["enableTLS"] = "true"
		}
		return m
	}
}

func number(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// withPort adds a port to an address that names none.
func withPort(address, port string) string {
	if _, _, err := net.SplitHostPort(address); err == nil {
		return address
	}
	return net.JoinHostPort(address, port)
}

type authentication struct {
	Refs []secretRef `yaml:"secretTargetRef"`
}

type secretRef struct {
	Parameter string `yaml:"parameter"`
	Name      string `yaml:"name"`
	Key       string `yaml:"key"`
}

// authentication is what KEDA signs in with; nil when it need not.
func (o Options) authentication() *object {
	var refs []secretRef
	add := func(parameter, key string) { refs = append(refs, secretRef{parameter, o.Secret, key}) }
	if o.external() {
		if !o.GRPCTLS {
			return nil
		}
		add("caCert", "ca.crt")
		if o.ClientCert {
			add("tlsClientCert", "tls.crt")
			add("tlsClientKey", "tls.key")
		}
		return o.named("TriggerAuthentication", o.Secret, authentication{refs})
	}
	for way := range strings.SplitSeq(o.Auth, ",") {
		switch way {
		case AuthBasic:
			add("username", "username")
			add("password", "password")
		case AuthBearer:
			add("bearerToken", "token")
		case AuthTLS:
			add("ca", "ca.crt")
			add("cert", "tls.crt")
			add("key", "tls.key")
		}
	}
	if refs == nil {
		return nil
	}
	return o.named("TriggerAuthentication", o.Secret, authentication{refs})
}
