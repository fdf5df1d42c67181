package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// Reloaded is what a reload of the configuration changed.
type Reloaded struct {
	Accounts  Difference `json:"accounts"`
	Queues    Difference `json:"queues"`
	Consumers Difference `json:"consumers"` // those that changed drain before they go on with the new settings

	Settings []string `json:"settings,omitempty"`     // what else changed, such as watch.interval
	Restart  []string `json:"needsRestart,omitempty"` // settings that only a restart applies, each with its place
	Warnings []string `json:"warnings,omitempty"`     // settings that hardly do what is meant, each with its place
}

// Difference names what was added, changed and removed.
type Difference struct {
	Added   []string `json:"added,omitempty"`
	Changed []string `json:"changed,omitempty"`
	Removed []string `json:"removed,omitempty"`
}

// Changes sums the differences up in a line: "none", or such as "queues: 1 added, 2 removed".
func (r Reloaded) Changes() string {
	var parts []string
	for _, d := range []struct {
		what string
		Difference
	}{{"accounts", r.Accounts}, {"queues", r.Queues}, {"consumers", r.Consumers}} {
		var counts []string
		for _, c := range []struct {
			n   int
			how string
		}{{len(d.Added), "added"}, {len(d.Changed), "changed"}, {len(d.Removed), "removed"}} {
			if c.n > 0 {
				counts = append(counts, fmt.Sprintf("%d %s", c.n, c.how))
			}
		}
		if len(counts) > 0 {
			parts = append(parts, d.what+": "+strings.Join(counts, ", "))
		}
	}
	if len(r.Settings) > 0 {
		parts = append(parts, "settings: "+strings.Join(r.Settings, ", "))
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, "; ")
}

// RefusedError is why a configuration was not taken: nothing has changed.
type RefusedError struct {
	Faults []string // each with file, line, path and cure; no secrets
}

// Error returns one fault a line.
func (e *RefusedError) Error() string { return strings.Join(e.Faults, "\n") }

// refusedView is the answer to a reload that was refused.
type refusedView struct {
	Error  string   `json:"error"`
	Faults []string `json:"faults"`
}

// mountReload mounts the reload for operators.
func (a *admin) mountReload(mux *http.ServeMux) {
	mux.Handle("/-/reload", a.guarded(func(w http.ResponseWriter, r *http.Request, who string) {
		if a.Reload == nil {
			writeError(w, http.StatusNotImplemented, "this process cannot reload its configuration")
			return
		}
		a.Logger.Info("operator command", "operation", "reload", "operator", who, "addr", r.RemoteAddr)
		// Once begun it goes on, whether or not the client waits.
		done, err := a.Reload(context.WithoutCancel(r.Context()))
		if refused, ok := errors.AsType[*RefusedError](err); ok {
			writeJSON(w, http.StatusUnprocessableEntity, refusedView{"the configuration was refused; the one before stays in use", refused.Faults})
			return
		}
		if err != nil {
			writeError(w, http.StatusServiceUnavailable, "not reloaded: "+err.Error())
			return
		}
		writeJSON(w, http.StatusOK, done)
	}))
}
