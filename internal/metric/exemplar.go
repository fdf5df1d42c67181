package metric

import "github.com/prometheus/client_golang/prometheus"

// TraceLabel is the label of every exemplar.
const TraceLabel = "trace_id"

// observe records v, with the trace as exemplar when traceparent is a valid W3C trace
// context that was sampled: an exemplar of a trace nobody kept leads nowhere. Only then
// it allocates.
func observe(o prometheus.Observer, v float64, traceparent string) {
	if id := sampledTrace(traceparent); id != "" {
		if e, ok := o.(prometheus.ExemplarObserver); ok {
			e.ObserveWithExemplar(v, prometheus.Labels{TraceLabel: id})
			return
		}
	}
	o.Observe(v)
}

// sampledTrace returns the trace id of a W3C traceparent header, or "" when the header is
// malformed or the trace was not sampled.
func sampledTrace(traceparent string) string {
	// 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
	const length = 2 + 1 + 32 + 1 + 16 + 1 + 2
	t := traceparent
	if len(t) < length || t[2] != '-' || t[35] != '-' || t[52] != '-' {
		return ""
	}
	version, trace, span, flags := t[:2], t[3:35], t[36:52], t[53:55]
	if !isHex(version) || !isHex(trace) || !isHex(span) || !isHex(flags) || version == "ff" {
		return ""
	}
	// Version 00 is exactly this long; a later one may add fields.
	if len(t) > length && (version == "00" || t[length] != '-') {
		return ""
	}
	if isZero(trace) || isZero(span) || hexBit0(flags[1]) == 0 {
		return ""
	}
	return trace
}

func isHex(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

func isZero(s string) bool {
	for i := range len(s) {
		if s[i] != '0' {
			return false
		}
	}
	return true
}

// hexBit0 returns the lowest bit of a hex digit.
func hexBit0(c byte) byte {
	if c >= 'a' {
		c -= 'a' - 10
	}
	return c & 1
}
