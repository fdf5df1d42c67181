package web

import "net/http"

// whoView is the answer to GET /api/v1/whoami.
type whoView struct {
	Name string `json:"name"`
	Role Role   `json:"role"`
}

// whoami says whose token a request carries: the page asks before it offers what takes one.
func (a *admin) whoami(w http.ResponseWriter, r *http.Request) {
	if t, ok := a.authenticate(w, r); ok {
		writeJSON(w, http.StatusOK, whoView{t.name, t.role})
	}
}
