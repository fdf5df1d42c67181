// Package otlp sends spans and metrics to an OpenTelemetry receiver, by OTLP over HTTP.
//
// It owns the SDK's providers, their exporters and their end. What is told is package telemetry's.
// Everything that the standard OTEL_ variables say is obeyed; what Config says wins.
package otlp

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Config says what is sent where.
type Config struct {
	// Endpoint is the receiver's base URL, to which /v1/traces and /v1/metrics are added. Default: what
	// the OTEL_EXPORTER_OTLP_… variables say; without any of them, nothing is sent at all.
	Endpoint string
	// Headers go with every request. Default: those of OTEL_EXPORTER_OTLP_HEADERS.
	Headers map[string]string
	// Traces and Metrics say what is sent while the program runs.
	Traces, Metrics bool
	// AtExit is gathered and sent once, at the end. Default: nothing.
	AtExit prometheus.Gatherer
	// Version is the service.version of what is sent.
	Version string
	// Logger is told once when sending begins to fail, and when it works again. Default: discard.
	Logger *slog.Logger
	// Env reads the environment. Default os.LookupEnv. The exporters read theirs from the process in any case.
	Env func(string) (string, bool)
}

// The signals, as in the names of the variables.
const (
	traces  = "TRACES"
	metrics = "METRICS"
)

// env is the value of a variable, or "".
func (c Config) env(name string) string {
	if c.Env == nil {
		c.Env = os.LookupEnv
	}
	v, _ := c.Env(name)
	return strings.TrimSpace(v)
}

// wanted says whether a signal has somewhere to go, and nobody has turned it off.
func (c Config) wanted(signal string) bool {
	switch {
	case strings.EqualFold(c.env("OTEL_SDK_DISABLED"), "true"), strings.EqualFold(c.env("OTEL_"+signal+"_EXPORTER"), "none"):
		return false
	case c.Endpoint != "":
		return true
	default:
		return c.env("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || c.env("OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT") != ""
	}
}

// validate refuses what the variables ask for and this program cannot do.
func (c Config) validate() error {
	var errs []error
	for _, name := range []string{"OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_" + traces + "_PROTOCOL", "OTEL_EXPORTER_OTLP_" + metrics + "_PROTOCOL"} {
		if v := c.env(name); v != "" && v != "http/protobuf" {
			errs = append(errs, fmt.Errorf("%s is %q: qwatch speaks http/protobuf alone, which receivers take on port 4318", name, v))
		}
	}
	for _, signal := range []string{traces, metrics} {
		if v := c.env("OTEL_" + signal + "_EXPORTER"); v != "" && v != "none" && v != "otlp" {
			errs = append(errs, fmt.Errorf("OTEL_%s_EXPORTER is %q: qwatch knows otlp and none", signal, v))
		}
	}
	return errors.Join(errs...)
}
