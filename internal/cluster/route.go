package cluster

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
)

// FromPeer says whether a request comes from another replica: it is answered here or not at all.
func FromPeer(r *http.Request) bool { return r.Header.Get(HopHeader) != "" }

// Route answers questions about queues that this replica watches with next, and those about others with what their
// owner answers. It is for GET and HEAD on a pattern with {account} and {queue}, the main queue's name; other methods
// go to next. Without an owner's answer it is 503. A question from another replica is never
// passed on: when the queue is not watched here, the answer is 421, Misdirected Request. A nil router is Alone.
func Route(router Router, next http.Handler) http.Handler {
	if router == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		account, queue := r.PathValue("account"), r.PathValue("queue")
		_, self := router.Owner(account, queue)
		switch {
		case self || r.Method != http.MethodGet && r.Method != http.MethodHead:
			next.ServeHTTP(w, r)
		case FromPeer(r):
			refuse(w, http.StatusMisdirectedRequest, "this replica does not watch queue "+account+"/"+queue)
		default:
			answer, err := router.Forward(r.Context(), account, queue, r.URL.RequestURI())
			Pass(w, answer, err)
		}
	})
}

// RouteFleet answers questions about the fleet with what the replica answers that watches all of it, and with next where that is
// this one, where there is none, and where it cannot be asked. A nil router is Alone.
func RouteFleet(router Router, next http.Handler) http.Handler {
	if router == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if addr, ok := router.Whole(); ok && !FromPeer(r) && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
			if answer, err := router.Ask(r.Context(), addr, r.URL.RequestURI()); err == nil {
				Pass(w, answer, nil)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// Pass answers with what another replica answered, or with 503 and why there is no answer.
func Pass(w http.ResponseWriter, a *Answer, err error) {
	if err != nil {
		w.Header().Set("Retry-After", "1")
		status := http.StatusServiceUnavailable
		if !errors.Is(err, ErrUnavailable) {
			status = http.StatusInternalServerError
		}
		refuse(w, status, err.Error())
		return
	}
	h := w.Header()
	if a.ContentType != "" {
		h.Set("Content-Type", a.ContentType)
	}
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(len(a.Body)))
	w.WriteHeader(a.Status)
	_, _ = w.Write(a.Body) // the client is gone: nobody is left to tell
}

// refuse answers with an error as the API has it.
func refuse(w http.ResponseWriter, status int, message string) {
	writeJSON(w, status, struct {
		Error string `json:"error"`
	}{message})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		status, body = http.StatusInternalServerError, []byte(`{"error":"the answer cannot be written as JSON"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n'))
}
