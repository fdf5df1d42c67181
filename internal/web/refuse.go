package web

import (
	"log/slog"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// refusalsToldEvery is how long requests that were refused without a line are counted before that is told.
const refusalsToldEvery = 10 * time.Second

// knownRefusalsBurst is how many requests in a row are refused with a line each to those who have a token.
const knownRefusalsBurst = 40

// refusals are the lines about requests that were turned away: some in a row and five a second, then how many more
// there were. Safe for concurrent use.
type refusals struct {
	log   *slog.Logger
	lines *rate.Limiter

	mu   sync.Mutex
	more int // that have no line
}

func newRefusals(log *slog.Logger, burst int) *refusals {
	return &refusals{log: log, lines: rate.NewLimiter(wrongTokensPerSecond, burst)}
}

func (f *refusals) note(attrs []any) {
	if f.lines.Allow() {
		f.log.Warn("operator command refused", attrs...)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.more++; f.more == 1 {
		time.AfterFunc(refusalsToldEvery, f.tell)
	}
}

// tell tells how many have no line.
func (f *refusals) tell() {
	f.mu.Lock()
	n := f.more
	f.more = 0
	f.mu.Unlock()
	f.log.Warn("more operator commands were refused", "count", n)
}

// refused writes the line about an operator's request that was turned away: whose token it carried, "" when
// that is not known, and what it wanted. Strangers cannot hide the refusals of those who have a token: each kind
// has so many lines a second.
func (a *admin) refused(r *http.Request, name, reason string) {
	attrs := []any{"operation", operationOf(r), "operator", name, "reason", reason, "addr", r.RemoteAddr}
	if account, queue := r.PathValue("account"), r.PathValue("queue"); queue != "" {
		attrs = append(attrs, "account", clip(account), "queue", clip(queue)) // as they were sent
	}
	if name == "" {
		a.strangers.note(attrs)
	} else {
		a.known.note(attrs)
	}
}

// crossSite answers a request that comes from another site's page.
func (a *admin) crossSite(w http.ResponseWriter, r *http.Request) {
	name := ""
	if secret, sent := bearer(r); sent && a.Tokens != nil {
		if t, found := a.Tokens.find(secret); found { // the answer does not tell
			name = t.name
		}
	}
	a.refused(r, name, "cross-site")
	writeError(w, http.StatusForbidden, "the request comes from the page of another site")
}

// operationOf is what a request wants, in the words of the audit log.
func operationOf(r *http.Request) string {
	switch last := path.Base(r.Pattern); {
	case last == "messages":
		return map[string]string{http.MethodGet: "peek", http.MethodPost: "send", http.MethodDelete: "clear"}[r.Method]
	case strings.HasPrefix(last, "{"):
		return "list"
	default:
		return last
	}
}

// clip bounds what a client sent, for the log.
func clip(s string) string { return s[:min(len(s), 80)] }
