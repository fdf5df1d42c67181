package web

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/qwatch/qwatch/internal/triage"
	"github.com/qwatch/qwatch/poison"
	"github.com/qwatch/qwatch/queue"
)

// Storage lets operators look after queues through the API: the only requests that call storage.
type Storage struct {
	// Queue returns the main queue of that name. Its error is told to the client.
	Queue func(account, queue string) (triage.Queue, error)
	// Accounts returns the account of that name, or all of them for "", for those who rehearse on them. Its error
	// is told to the client. Nil: nobody rehearses.
	Accounts func(name string) ([]*queue.Account, error)
	// Replayed counts a message that was put back on its queue, if set.
	Replayed func(ctx context.Context, account, queue string, r poison.Replayed)
	// Work notes what is being done, so that it can be ended. Nil: nobody ends it.
	Work *Work
}

// Limits of the requests that call storage.
const (
	storagePerSecond = 20 // over all operators
	storageBurst     = 40
	longAtOnce       = 4 // lists, exports, replays and the like; one for each queue
)

// storageWork keeps those requests within their limits. The zero value is not usable.
type storageWork struct {
	calls *rate.Limiter

	mu   sync.Mutex
	busy map[string]*running // by poison queue, and the rehearsal
}

func newStorageWork() *storageWork {
	return &storageWork{calls: rate.NewLimiter(storagePerSecond, storageBurst), busy: map[string]*running{}}
}

// What is just ending is waited for: its client has the answer a moment before it is over here.
const (
	endingWait = time.Second
	endingPoll = 20 * time.Millisecond
)

// begin reserves the request's poison queue, which several queues may share, for one piece of work that may take
// long. The error says why it must wait.
func (s *storageWork) begin(r *storageRequest, op triage.Operation, c triage.Command) (p *running, end func(), err error) {
	p = &running{id: rand.Text(), queue: r.q.String(), operator: r.operator, operation: op, command: c, since: time.Now(), cancel: r.cancel}
	end, err = s.beginAs(r.Context(), poisonPlace(r.q), p, "somebody is at work on the poison of "+p.queue+"; try again when that is done")
	return p, end, err
}

// poisonPlace is where a queue's poison lies, however its account is called here.
func poisonPlace(q triage.Queue) string {
	return q.Account().StorageAccount() + "/" + q.Poison().Name()
}

// beginAs reserves anything by its name; busy is what to say when somebody has it.
func (s *storageWork) beginAs(ctx context.Context, name string, p *running, busy string) (end func(), err error) {
	for waited := time.Duration(0); ; waited += endingPoll {
		if end, err = s.reserve(name, p, busy); err == nil || waited >= endingWait {
			return end, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(endingPoll):
		}
	}
}

func (s *storageWork) reserve(name string, p *running, busy string) (end func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, taken := s.busy[name]; taken {
		return nil, errors.New(busy)
	}
	if len(s.busy) >= longAtOnce {
		return nil, errors.New("operators are at work on several queues; try again when one is done")
	}
	s.busy[name] = p
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.busy, name)
	}, nil
}

// storageRequest is a request of an operator that may call storage.
type storageRequest struct {
	*http.Request
	operator string
	q        triage.Queue
	cancel   context.CancelCauseFunc // ends the request's work
}

// act describes what the request does, for the audit log.
func (r *storageRequest) act(operation string) Action {
	return Action{Operator: r.operator, Operation: operation, Account: r.PathValue("account"), Queue: r.PathValue("queue")}
}

// onStorage answers requests by one method with do, for those who hold an operator's token and within
// the limits. Requests that change something must not come from another site's page.
func (a *admin) onStorage(methods map[string]func(http.ResponseWriter, *storageRequest)) http.HandlerFunc {
	var allow string
	for _, m := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
		if methods[m] != nil {
			if allow != "" {
				allow += ", "
			}
			allow += m
		}
	}
	return func(w http.ResponseWriter, r *http.Request) {
		do := methods[r.Method]
		switch {
		case do == nil:
			w.Header().Set("Allow", allow)
			writeError(w, http.StatusMethodNotAllowed, "method "+r.Method+" is not allowed here; use "+allow)
			return
		case a.cross.Check(r) != nil:
			a.crossSite(w, r)
			return
		}
		a.admit(w, r, func(r *http.Request, who string, cancel context.CancelCauseFunc) {
			if r.Method != http.MethodPost { // before the answer begins, which would wait for it without an end
				if _, err := io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, maxCommandBody)); err != nil {
					writeError(w, http.StatusRequestEntityTooLarge, "the body cannot be read, or is too large; send none")
					return
				}
			}
			q, err := a.Storage.Queue(r.PathValue("account"), r.PathValue("queue"))
			if err != nil {
				writeError(w, http.StatusNotFound, err.Error())
				return
			}
			sr := &storageRequest{Request: r, operator: who, q: q, cancel: cancel}
			defer a.everySecond(func() error { return a.stillThere(sr) }, cancel)()
			do(w, sr)
		})
	}
}

// admit has do answer a request of an operator, within the limits, until the process ends or the token is not an
// operator's any more; others it refuses. The context's cause says why it ended.
func (a *admin) admit(w http.ResponseWriter, r *http.Request, do func(r *http.Request, who string, cancel context.CancelCauseFunc)) {
	who, ok := a.authorize(w, r)
	if !ok {
		return
	}
	if !a.work.calls.Allow() {
		w.Header().Set("Retry-After", "1")
		writeError(w, http.StatusTooManyRequests, "operators ask too much of storage at once; try again in a second")
		return
	}
	r, done, ok := a.Storage.Work.begin(w, r)
	if !ok {
		w.Header().Set("Retry-After", "5")
		writeError(w, http.StatusServiceUnavailable, errEnding.Error()+": nothing is begun any more")
		return
	}
	defer done()
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	secret, _ := bearer(r)
	defer a.everySecond(func() error { return a.stillOperator(secret, who) }, cancel)()
	do(r.WithContext(ctx), who, cancel)
}

// storageStatus is the status of an answer about a failure of storage.
func storageStatus(err error) int {
	switch {
	case errors.Is(err, queue.ErrQueueNotFound):
		return http.StatusNotFound
	case errors.Is(err, queue.ErrTooLarge):
		return http.StatusRequestEntityTooLarge
	default:
		return http.StatusBadGateway
	}
}
