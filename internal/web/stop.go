package web

import (
	"net/http"
	"time"

	"github.com/qwatch/qwatch/internal/triage"
)

// WorkHeader names, in an answer, the work that it is about, to stop that and no other.
const WorkHeader = "Qwatch-Work"

// everySecond calls still a second from now and each second after that, until end is called; its first error is
// why the work is ended.
func (a *admin) everySecond(still func() error, cancel func(error)) (end func()) {
	done := make(chan struct{})
	var again func()
	again = func() {
		select {
		case <-done:
			return
		default:
		}
		if err := still(); err != nil {
			cancel(err)
			return
		}
		time.AfterFunc(recheck, again)
	}
	t := time.AfterFunc(recheck, again)
	return func() { close(done); t.Stop() }
}

// recheck is how often it is seen whether work may go on.
const recheck = time.Second

// stillOperator says why an operator's work must not go on: the token is not valid any more, or not an operator's.
func (a *admin) stillOperator(secret, who string) error {
	if t, ok := a.Tokens.find(secret); !ok || t.role != RoleOperator || t.name != who {
		return &endReason{"the token of " + who + " is not an operator's any more"}
	}
	return nil
}

// stillThere says why work on a queue must not go on: a reload took it away, or gave it another poison queue.
func (a *admin) stillThere(r *storageRequest) error {
	q, err := a.Storage.Queue(r.PathValue("account"), r.PathValue("queue"))
	switch {
	case err != nil:
		return &endReason{"the configuration has the queue no more"}
	case (q.Poison() == nil) != (r.q.Poison() == nil), q.Poison() != nil && poisonPlace(q) != poisonPlace(r.q):
		return &endReason{"the configuration gave the queue another poison queue"}
	}
	return nil
}

// find returns work of which is holds; nil when there is none.
func (s *storageWork) find(is func(place string, p *running) bool) *running {
	s.mu.Lock()
	defer s.mu.Unlock()
	for place, p := range s.busy {
		if p != nil && is(place, p) {
			return p
		}
	}
	return nil
}

// stoppedView is the answer to POST /api/v1/poison/{account}/{queue}/stop.
type stoppedView struct {
	Account   string           `json:"account"`
	Queue     string           `json:"queue"`
	Operation triage.Operation `json:"operation"`
	Operator  string           `json:"operator"` // whose work it is
	Since     time.Time        `json:"since"`
}

// stop ends the work on a queue's poison, whosever it is: at its next step, with a result for whoever asked for it.
func (a *admin) stop(w http.ResponseWriter, r *http.Request, who string) {
	account, queue := r.PathValue("account"), r.PathValue("queue")
	name, at := account+"/"+queue, ""
	if q, err := a.Storage.Queue(account, queue); err == nil && q.Poison() != nil {
		at = poisonPlace(q)
	}
	id := r.URL.Query().Get("work")
	p := a.work.find(func(place string, p *running) bool {
		return (place == at || p.queue == name) && (id == "" || p.id == id)
	})
	if p == nil {
		writeError(w, http.StatusNotFound, "nobody is at work on the poison of "+clip(name)+", or not at that any more")
		return
	}
	a.audit(r, Action{Operator: who, Operation: "stop", Account: account, Queue: queue})
	p.cancel(&endReason{who + " stopped it"})
	writeJSON(w, http.StatusOK, stoppedView{account, queue, p.operation, p.operator, p.since.UTC()})
}
