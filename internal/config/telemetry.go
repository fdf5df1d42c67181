package config

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/qwatch/qwatch/queue"
)

// What spans are sent.
const (
	TracesOff     = "off"
	TracesProcess = "process" // one for each message, or batch, that a consumer takes up
	TracesAll     = "all"     // and one for each receive and send
)

// Telemetry is what is sent to an OpenTelemetry receiver, by OTLP over HTTP. Nothing is, unless
// OTLP.Endpoint or one of the OTEL_EXPORTER_OTLP_…ENDPOINT variables names one.
type Telemetry struct {
	OTLP OTLP `yaml:"otlp" cfg:"omitempty"`
	// Traces is TracesOff, TracesProcess (the default) or TracesAll.
	Traces string `yaml:"traces"`
	// SemconvMetrics sends the metrics of OpenTelemetry's messaging conventions. Default false.
	SemconvMetrics bool `yaml:"semconvMetrics"`
	// PushAtExit sends what /metrics shows once, at the end, for a process that does not live long
	// enough to be scraped. Default false.
	PushAtExit bool `yaml:"pushAtExit"`
}

func (t *Telemetry) setDefaults() { t.Traces = TracesProcess }

// DefaultTelemetry is what a file without the section means.
func DefaultTelemetry() *Telemetry {
	t := &Telemetry{}
	t.setDefaults()
	return t
}

// OTLP is the receiver. What is not set comes from the standard OTEL_EXPORTER_OTLP_ variables.
type OTLP struct {
	// Endpoint is the receiver's base URL, such as http://collector:4318.
	Endpoint string `yaml:"endpoint" cfg:"omitempty"`
	// Headers go with every request.
	Headers []OTLPHeader `yaml:"headers" cfg:"omitempty"`
}

// OTLPHeader is a header of the requests to the receiver.
type OTLPHeader struct {
	Name  string       `yaml:"name"`
	Value queue.Secret `yaml:"value"`
}

func (v *validator) telemetry() {
	t := v.cfg.Telemetry
	if t == nil {
		return
	}
	switch t.Traces {
	case TracesOff, TracesProcess, TracesAll:
	default:
		v.say("telemetry.traces", "%s is none of %s, %s and %s", v.shown("telemetry.traces", t.Traces), TracesOff, TracesProcess, TracesAll)
	}
	if v.set("telemetry.otlp.endpoint") {
		u, err := url.Parse(t.OTLP.Endpoint)
		switch {
		case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Host == "", u.RawQuery != "", u.Fragment != "":
			v.say("telemetry.otlp.endpoint", "is not the base URL of a receiver, such as http://collector:4318")
		case u.User != nil:
			v.say("telemetry.otlp.endpoint", "has a user in it; set a header instead: headers: [{name: Authorization, value: …}]")
		case strings.HasSuffix(strings.TrimSuffix(u.Path, "/"), "/v1/traces"), strings.HasSuffix(strings.TrimSuffix(u.Path, "/"), "/v1/metrics"):
			v.say("telemetry.otlp.endpoint", "is the path of one signal; end it before /v1/")
		}
	}
	seen := map[string]bool{}
	for i, h := range t.OTLP.Headers {
		key := fmt.Sprintf("telemetry.otlp.headers[%d]", i)
		name := http.CanonicalHeaderKey(h.Name)
		switch {
		case h.Name == "":
			v.say(key+".name", "is missing")
		case strings.ContainsFunc(h.Name, func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune(`()<>@,;:\"/[]?={}`, r) }):
			v.say(key+".name", "is not the name of a header")
		case seen[name]:
			v.say(key+".name", "is set twice; keep one")
		case h.Value == "":
			v.say(key+".value", "is missing")
		case strings.ContainsFunc(h.Value.Reveal(), func(r rune) bool { return r < ' ' || r == 0x7f }):
			v.say(key+".value", "has a control character, perhaps the end of a line")
		}
		seen[name] = true
	}
}
