// Command kedaclient runs KEDA's own scaler code against a running qwatch, so that tests see what KEDA would.
//
//	kedaclient ask     reads a JSON array of triggers, asks each once, and writes what KEDA gets
//	kedaclient push    reads one trigger and writes a line each time the scaler says whether it is active, until its input ends
//	kedaclient decode  reads YAML documents, decodes them strictly into KEDA's types and builds the scaler of each trigger
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	v2 "k8s.io/api/autoscaling/v2"

	"github.com/kedacore/keda/v2/pkg/scalers"
	"github.com/kedacore/keda/v2/pkg/scalers/scalersconfig"
)

func main() {
	if len(os.Args) != 2 {
		fail(fmt.Errorf("usage: kedaclient ask|push|decode"))
	}
	var err error
	switch os.Args[1] {
	case "ask":
		err = ask(os.Stdin, os.Stdout)
	case "push":
		err = push(os.Stdin, os.Stdout)
	case "decode":
		err = decode(os.Stdin, os.Stdout)
	default:
		err = fmt.Errorf("there is no command %q", os.Args[1])
	}
	if err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "kedaclient:", err)
	os.Exit(1)
}

// Trigger is one trigger of a ScaledObject, with what KEDA would resolve for it.
type Trigger struct {
	Type     string            `json:"type"`
	Metadata map[string]string `json:"metadata"`
	Auth     map[string]string `json:"auth"`
	Env      map[string]string `json:"env"`
}

// Result is what KEDA gets of a trigger.
type Result struct {
	Metric  string  `json:"metric"`
	Target  float64 `json:"target"`
	Value   float64 `json:"value"`
	Active  bool    `json:"active"`
	Error   string  `json:"error,omitempty"`
	Spec    float64 `json:"specSeconds"`
	Metrics float64 `json:"metricsSeconds"`
}

func (t Trigger) config() *scalersconfig.ScalerConfig {
	return &scalersconfig.ScalerConfig{
		ScalableObjectName: "orders", ScalableObjectNamespace: "prod", ScalableObjectType: "ScaledObject",
		GlobalHTTPTimeout: 3 * time.Second, TriggerName: "t", MetricType: v2.AverageValueMetricType,
		TriggerMetadata: t.Metadata, AuthParams: t.Auth, ResolvedEnv: t.Env,
	}
}

// scaler builds what KEDA builds.
func (t Trigger) scaler() (scalers.Scaler, error) {
	switch t.Type {
	case "external":
		return scalers.NewExternalScaler(t.config())
	case "external-push":
		return scalers.NewExternalPushScaler(t.config())
	case "metrics-api":
		return scalers.NewMetricsAPIScaler(t.config(), nil)
	case "prometheus":
		return scalers.NewPrometheusScaler(t.config())
	case "azure-queue":
		return scalers.NewAzureQueueScaler(t.config())
	default:
		return nil, fmt.Errorf("there is no scaler %q here", t.Type)
	}
}

func ask(in io.Reader, out io.Writer) error {
	var triggers []Trigger
	if err := json.NewDecoder(in).Decode(&triggers); err != nil {
		return fmt.Errorf("read the triggers: %w", err)
	}
	results := make([]Result, 0, len(triggers))
	for _, t := range triggers {
		results = append(results, t.ask())
	}
	return json.NewEncoder(out).Encode(results)
}

// ask does what KEDA does on each poll: the specification, then the value and whether it is active.
func (t Trigger) ask() (r Result) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	s, err := t.scaler()
	if err != nil {
		r.Error = err.Error()
		return r
	}
	defer func() { _ = s.Close(ctx) }()
	begin := time.Now()
	specs := s.GetMetricSpecForScaling(ctx)
	r.Spec = time.Since(begin).Seconds()
	if len(specs) != 1 {
		r.Error = fmt.Sprintf("%d specifications", len(specs))
		return r
	}
	r.Metric = specs[0].External.Metric.Name
	r.Target = specs[0].External.Target.AverageValue.AsApproximateFloat64()
	begin = time.Now()
	values, active, err := s.GetMetricsAndActivity(ctx, r.Metric)
	r.Metrics = time.Since(begin).Seconds()
	if err != nil {
		r.Error = err.Error()
		return r
	}
	if len(values) != 1 {
		r.Error = fmt.Sprintf("%d values", len(values))
		return r
	}
	r.Value, r.Active = values[0].Value.AsApproximateFloat64(), active
	return r
}

func push(in io.Reader, out io.Writer) error {
	dec := json.NewDecoder(in)
	var t Trigger
	if err := dec.Decode(&t); err != nil {
		return fmt.Errorf("read the trigger: %w", err)
	}
	s, err := scalers.NewExternalPushScaler(t.config())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, io.MultiReader(dec.Buffered(), in))
		cancel()
	}()
	active := make(chan bool)
	go s.Run(ctx, active)
	streamer, ok := s.(interface{ MetricSpecChan() <-chan []v2.MetricSpec })
	if !ok {
		return fmt.Errorf("the push scaler does not stream its specification")
	}
	go func() {
		for specs := range streamer.MetricSpecChan() {
			if len(specs) == 1 {
				fmt.Fprintln(out, "spec", specs[0].External.Metric.Name, specs[0].External.Target.AverageValue.String())
			}
		}
	}()
	for a := range active {
		fmt.Fprintln(out, "active", a)
	}
	return nil
}
