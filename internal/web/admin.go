package web

import (
	"io"
	"net/http"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/qwatch/qwatch/processor"
)

// A Consumer is a processor as the API steers it.
type Consumer interface {
	Status() processor.Status
	Pause()
	Resume()
}

// Limits of the requests that change something.
const (
	wrongTokensPerSecond = 5 // over all clients
	wrongTokensBurst     = 10
	maxCommandBody       = 64 << 10 // what is sent is ignored
)

// admin answers the requests that change something.
type admin struct {
	*handler
	room  *room
	cross *http.CrossOriginProtection
	wrong *rate.Limiter // of tokens that are nobody's

	strangers, known *refusals // of those whose name is not known, and of those with a token
}

func newAdmin(h *handler) *admin {
	return &admin{
		room:    newRoom(),
		handler: h, cross: http.NewCrossOriginProtection(),
		wrong:     rate.NewLimiter(wrongTokensPerSecond, wrongTokensBurst),
		strangers: newRefusals(h.Logger, wrongTokensBurst), known: newRefusals(h.Logger, knownRefusalsBurst),
	}
}

func (a *admin) mountProcessors(mux *http.ServeMux) {
	const path = "/api/v1/processors/{account}/{queue}"
	mux.Handle("/api/v1/processors", get(a.list))
	mux.Handle(path, get(a.status))
	mux.Handle("/api/v1/whoami", get(a.whoami))
	mux.Handle(path+"/pause", a.operator("pause", Consumer.Pause))
	mux.Handle(path+"/resume", a.operator("resume", Consumer.Resume))
	a.mountReload(mux)
}

// processorView is the answer about one consumer.
type processorView struct {
	Account string `json:"account"`
	Queue   string `json:"queue"`
	*consumerView
}

func (a *admin) status(w http.ResponseWriter, r *http.Request) {
	if c := a.consumer(w, r); c != nil {
		writeProcessor(w, c)
	}
}

// list tells of every consumer in this process.
func (a *admin) list(w http.ResponseWriter, _ *http.Request) {
	now := time.Now()
	all := []processorView{}
	for _, s := range a.Processors() {
		all = append(all, processorView{s.Account, s.Queue, viewConsumer(s, now)})
	}
	writeJSON(w, http.StatusOK, processorsView{now.UTC(), all})
}

// processorsView is the answer about every consumer.
type processorsView struct {
	At         time.Time       `json:"at"`
	Processors []processorView `json:"processors"`
}

func writeProcessor(w http.ResponseWriter, c Consumer) {
	s := c.Status()
	writeJSON(w, http.StatusOK, processorView{s.Account, s.Queue, viewConsumer(s, time.Now())})
}

// consumer returns the consumer that a request names; nil when it has answered that there is none.
func (a *admin) consumer(w http.ResponseWriter, r *http.Request) Consumer {
	account, queue := r.PathValue("account"), r.PathValue("queue")
	if c := a.Consumer(account, queue); c != nil {
		return c
	}
	what := " is not watched; GET /api/v1/queues lists those that are"
	if len(a.Collector.Queue(account, queue)) > 0 {
		what = " has no consumer in this process"
	}
	writeError(w, http.StatusNotFound, "queue "+account+"/"+queue+what)
	return nil
}

// operator answers POST with what do makes of the consumer, for those who hold an operator's token.
func (a *admin) operator(operation string, do func(Consumer)) http.HandlerFunc {
	return a.guarded(func(w http.ResponseWriter, r *http.Request, who string) {
		c := a.consumer(w, r)
		if c == nil {
			return
		}
		do(c)
		s := c.Status()
		a.Story.Steered(s.Account, s.Queue, operation == "pause", who)
		a.audit(r, Action{Operator: who, Operation: operation, Account: s.Account, Queue: s.Queue})
		writeProcessor(w, c)
	})
}

// guarded answers POST with do, for those who hold an operator's token. The body is passed over.
func (a *admin) guarded(do func(w http.ResponseWriter, r *http.Request, who string)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.Header().Set("Allow", http.MethodPost)
			writeError(w, http.StatusMethodNotAllowed, "method "+r.Method+" is not allowed here; use POST")
			return
		}
		if a.cross.Check(r) != nil {
			a.crossSite(w, r)
			return
		}
		who, ok := a.authorize(w, r)
		if !ok {
			return
		}
		if _, err := io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, maxCommandBody)); err != nil {
			writeError(w, http.StatusRequestEntityTooLarge, "the body cannot be read, or is too large; send none")
			return
		}
		do(w, r, who)
	}
}

// authorize returns the name of the operator who sent r, or answers why it is refused.
func (a *admin) authorize(w http.ResponseWriter, r *http.Request) (name string, ok bool) {
	t, ok := a.authenticate(w, r)
	if ok && t.role != RoleOperator {
		a.refused(r, t.name, "role "+string(t.role))
		writeError(w, http.StatusForbidden, "the token of "+t.name+" has the role "+string(t.role)+"; this needs operator")
		return "", false
	}
	return t.name, ok
}

// authenticate returns whose token r carries, or answers why it is refused.
func (a *admin) authenticate(w http.ResponseWriter, r *http.Request) (t token, ok bool) {
	if a.Tokens == nil {
		a.refused(r, "", "no tokens file")
		writeError(w, http.StatusForbidden, "nobody is an operator: server.tokensFile is not configured")
		return token{}, false
	}
	secret, sent := bearer(r)
	if !sent {
		a.refused(r, "", "no token")
		w.Header().Set("WWW-Authenticate", `Bearer realm="qwatch"`)
		writeError(w, http.StatusUnauthorized, "send the token of an operator: Authorization: Bearer TOKEN")
		return token{}, false
	}
	// A right token is admitted whatever others sent before: strangers must not lock operators out. What
	// keeps guesses from being right is the length of tokens; the limit keeps them from filling the log.
	if t, ok = a.Tokens.find(secret); ok {
		return t, true
	}
	if !a.wrong.Allow() {
		w.Header().Set("Retry-After", "1")
		writeError(w, http.StatusTooManyRequests, "the token is not valid, and too many such were sent; try again in a second")
		return token{}, false
	}
	a.Logger.Warn("wrong token refused", "addr", r.RemoteAddr)
	w.Header().Set("WWW-Authenticate", `Bearer realm="qwatch", error="invalid_token"`)
	writeError(w, http.StatusUnauthorized, "the token is not valid")
	return token{}, false
}

// TokenHeader carries a token where Authorization carries something else: a user's password for the
// listener (see Serve), or what a proxy in front asks for.
const TokenHeader = "Qwatch-Token"

// bearer returns the token that r carries, in TokenHeader or else as a bearer token. Two of either are none.
func bearer(r *http.Request) (string, bool) {
	if values := r.Header.Values(TokenHeader); len(values) > 0 {
		return values[0], len(values) == 1 && values[0] != ""
	}
	values := r.Header.Values("Authorization")
	if len(values) != 1 {
		return "", false
	}
	scheme, secret, _ := strings.Cut(values[0], " ")
	secret = strings.TrimSpace(secret)
	return secret, strings.EqualFold(scheme, "Bearer") && secret != ""
}
