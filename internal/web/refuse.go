package web

import (
	"net/http"
	"path"
	"strings"
)

// refused writes the line about an operator's request that was turned away: whose token it carried, "" when
// that is not known, and what it wanted. Strangers get only so many lines a second, so that they cannot fill the log.
func (a *admin) refused(r *http.Request, name, reason string) {
	if name == "" && !a.noted.Allow() {
		return
	}
	attrs := []any{"operation", operationOf(r), "operator", name, "reason", reason, "addr", r.RemoteAddr}
	if account, queue := r.PathValue("account"), r.PathValue("queue"); queue != "" {
		attrs = append(attrs, "account", clip(account), "queue", clip(queue)) // as they were sent
	}
	a.Logger.Warn("operator command refused", attrs...)
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
