package health

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode"
)

// Mount adds /livez, /readyz and /startupz to mux, below prefix ("" or like "/internal"),
// for GET and HEAD.
func (h *Health) Mount(mux *http.ServeMux, prefix string) {
	prefix = strings.Trim(prefix, "/")
	if prefix != "" {
		prefix = "/" + prefix // without the slash the mux would take it for a host
	}
	for _, p := range probes() {
		mux.Handle("GET "+prefix+"/"+path(p), h.Handler(p))
	}
}

// path is the last part of a probe's URL.
func path(p Probe) string {
	switch p {
	case Live:
		return "livez"
	case Ready:
		return "readyz"
	default:
		return "startupz"
	}
}

// Handler answers one probe: 200 when it passes, degraded or not, 503 when it fails. The
// body names every check that is not ok, with its reason.
//
// Query parameters: verbose lists the passing checks as well; exclude=name, repeatable,
// leaves a check out, and an unknown name is reported; format=json or format=text overrides
// the Accept header; strict makes a degraded /readyz fail. GET and HEAD only.
func (h *Health) Handler(p Probe) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Cache-Control", "no-store")
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			header.Set("Allow", "GET, HEAD")
			http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
			return
		}
		query := r.URL.Query()
		report := h.report(p, h.cfg.Strict || flag(query, "strict"), query["exclude"])
		body, contentType := text(report, flag(query, "verbose")), "text/plain; charset=utf-8"
		if wantsJSON(query.Get("format"), r.Header.Values("Accept")) {
			body, contentType = asJSON(report), "application/json"
		}
		header.Set("Content-Type", contentType)
		header.Set("Content-Length", strconv.Itoa(len(body)))
		header.Set("Vary", "Accept")
		header.Set("X-Content-Type-Options", "nosniff")
		if report.Status == Failed {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		if r.Method == http.MethodGet {
			_, _ = w.Write(body) // the asker went away
		}
	})
}

// flag tells whether a parameter is there and is not said to be false.
func flag(query url.Values, name string) bool {
	if !query.Has(name) {
		return false
	}
	on, err := strconv.ParseBool(query.Get(name))
	return on || err != nil
}

// wantsJSON tells whether JSON was asked for by name: */* gets text.
func wantsJSON(format string, accept []string) bool {
	switch format {
	case "json":
		return true
	case "text":
		return false
	}
	for _, value := range accept {
		for part := range strings.SplitSeq(value, ",") {
			kind, params, err := mime.ParseMediaType(part)
			if err != nil || kind != "application/json" {
				continue
			}
			if q, err := strconv.ParseFloat(params["q"], 64); err != nil || q > 0 {
				return true
			}
		}
	}
	return false
}

// text is the report in the form Kubernetes' own components use.
func text(r Report, verbose bool) []byte {
	if r.Status == OK && !verbose && len(r.Unknown) == 0 {
		return []byte("ok\n")
	}
	var b bytes.Buffer
	for _, c := range r.Checks {
		switch {
		case c.Excluded && verbose:
			fmt.Fprintf(&b, "[+]%s excluded\n", oneLine(c.Name))
		case c.Excluded, c.Status == OK && !verbose:
		case c.Status == OK:
			fmt.Fprintf(&b, "[+]%s ok", oneLine(c.Name))
			if c.Detail != "" {
				b.WriteString(": " + oneLine(c.Detail))
			}
			b.WriteByte('\n')
		default:
			mark := "-"
			if c.Status == Degraded {
				mark = "!"
			}
			fmt.Fprintf(&b, "[%s]%s %s", mark, oneLine(c.Name), c.Status)
			for _, why := range []string{string(c.Reason), c.Detail} {
				if why != "" {
					b.WriteString(": " + oneLine(why))
				}
			}
			b.WriteByte('\n')
		}
	}
	if len(r.Unknown) > 0 {
		fmt.Fprintf(&b, "warning: no check to exclude is called %s\n", quoted(r.Unknown))
	}
	verdict := map[Status]string{OK: "passed", Degraded: "passed, degraded", Failed: "failed"}
	fmt.Fprintf(&b, "%s check %s\n", path(r.Probe), verdict[r.Status])
	return b.Bytes()
}

func quoted(names []string) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = strconv.Quote(n)
	}
	return strings.Join(out, ", ")
}

// oneLine keeps what a check says from looking like another check's line.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
}

// asJSON is the report with every check, passing or not.
func asJSON(r Report) []byte {
	type check struct {
		Name     string `json:"name"`
		Status   Status `json:"status"`
		Reason   Reason `json:"reason,omitempty"`
		Detail   string `json:"detail,omitempty"`
		Excluded bool   `json:"excluded,omitempty"`
	}
	checks := make([]check, len(r.Checks))
	for i, c := range r.Checks {
		checks[i] = check{c.Name, c.Status, c.Reason, c.Detail, c.Excluded}
	}
	body, err := json.Marshal(struct {
		Probe   string   `json:"probe"`
		Status  Status   `json:"status"`
		Reasons []Reason `json:"reasons"`
		Checks  []check  `json:"checks"`
		Unknown []string `json:"unknownExcludes,omitempty"`
	}{r.Probe.String(), r.Status, append([]Reason{}, r.Reasons()...), checks, r.Unknown})
	if err != nil {
		panic(err) // strings only
	}
	return append(body, '\n')
}
