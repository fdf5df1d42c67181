package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/qwatch/qwatch/internal/triage"
	"github.com/qwatch/qwatch/internal/verify"
)

// mountVerify mounts the rehearsal for operators.
func (a *admin) mountVerify(mux *http.ServeMux) {
	if a.Storage.Accounts == nil {
		return
	}
	mux.HandleFunc("/api/v1/verify", func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.Header().Set("Allow", http.MethodPost)
			writeError(w, http.StatusMethodNotAllowed, "method "+r.Method+" is not allowed here; use POST")
			return
		}
		if a.cross.Check(r) != nil {
			a.crossSite(w, r)
			return
		}
		a.admit(w, r, func(r *http.Request, who string, _ context.CancelCauseFunc) { a.verify(w, r, who) })
	})
}

// verifyRequest is what to rehearse on; {} is every account.
type verifyRequest struct {
	Account string          `json:"account"` // "": all of them
	Lease   triage.Duration `json:"lease"`   // 0: the default
}

// verifyView is the answer to a rehearsal that is not a stream.
type verifyView struct {
	Outcomes []verify.Outcome `json:"outcomes"`
	Notices  []string         `json:"notices,omitempty"`
	Error    string           `json:"error,omitempty"`
}

// rehearsal is the name of what is at work, which no queue has.
const rehearsal = " rehearsal"

const maxVerifyBody = 4 << 10

func readVerify(w http.ResponseWriter, r *http.Request) (v verifyRequest, err error) {
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxVerifyBody))
	if err != nil {
		return v, errors.New("the body cannot be read, or is too large")
	}
	if b = bytes.TrimSpace(b); !bytes.HasPrefix(b, []byte("{")) {
		return v, errors.New("the body is not a JSON object: send account and lease, or {} for every account")
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		return v, errors.New("the body: " + strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return v, errors.New("the body is more than one JSON object")
	}
	return v, verify.CheckLease(time.Duration(v.Lease))
}

// verify rehearses on temporary queues of the accounts, one rehearsal at a time. The end of the request ends it,
// and so does the end of the process; its queues are removed in any case.
func (a *admin) verify(w http.ResponseWriter, r *http.Request, who string) {
	v, err := readVerify(w, r)
	if err != nil {
		writeError(w, http.StatusBadRequest, err.Error())
		return
	}
	accounts, err := a.Storage.Accounts(v.Account)
	if err != nil {
		writeError(w, http.StatusNotFound, err.Error())
		return
	}
	end, err := a.work.beginAs(r.Context(), rehearsal, nil, "a rehearsal is at work; try again when it is over")
	if err != nil {
		w.Header().Set("Retry-After", "10")
		writeError(w, http.StatusTooManyRequests, err.Error())
		return
	}
	defer end()
	run := func(sink func(verify.Event) error) error {
		var at, failure string
		checks, failed := 0, 0
		audit := func(err error) { // a line for each account
			if at == "" {
				return
			}
			act := Action{Operator: who, Operation: "verify", Account: at}
			switch {
			case failure != "":
				act.Error = failure
			case err != nil:
				act.Error = err.Error()
			}
			a.audit(r, act)
			if failed > 0 {
				a.Logger.Warn("checks of a rehearsal failed", "account", at, "checks", checks, "failed", failed)
			}
			at, failure, checks, failed = "", "", 0, 0
		}
		err := verify.Rehearse(r.Context(), accounts, verify.Options{Lease: time.Duration(v.Lease)}, func(e verify.Event) error {
			switch {
			case e.Begun > 0:
				audit(nil)
				at = e.Account
			case e.Error != "":
				failure = e.Error
			case e.Outcome != nil:
				if checks++; !e.Outcome.OK {
					failed++
				}
			}
			return sink(e)
		})
		err = because(r.Context(), err)
		audit(err)
		return err
	}
	if strings.Contains(r.Header.Get("Accept"), eventStream) {
		a.streamVerify(w, run)
		return
	}
	a.wholeVerify(w, len(accounts), run)
}

// streamVerify tells each event as it comes. The last is the end, or why there is none.
func (a *admin) streamVerify(w http.ResponseWriter, run func(func(verify.Event) error) error) {
	s, err := openStream(w)
	if err != nil {
		writeError(w, http.StatusInternalServerError, "this connection cannot wait")
		return
	}
	send := func(e verify.Event) error {
		b, err := json.Marshal(e)
		if err != nil {
			return fmt.Errorf("write an event: %w", err)
		}
		return s.write(append(b, '\n'), true)
	}
	if err := run(send); err != nil {
		_ = send(verify.Event{Error: err.Error()}) // the client is gone: nobody is left to tell
	}
}

// wholeVerify answers when everything is done: 502 when an account could not be rehearsed on.
func (a *admin) wholeVerify(w http.ResponseWriter, accounts int, run func(func(verify.Event) error) error) {
	if err := patient(w, time.Now().Add(time.Duration(accounts)*verify.Longest+streamPause)); err != nil {
		writeError(w, http.StatusInternalServerError, "this connection cannot wait")
		return
	}
	view := verifyView{Outcomes: []verify.Outcome{}}
	var failures []string
	err := run(func(e verify.Event) error {
		switch {
		case e.Outcome != nil:
			view.Outcomes = append(view.Outcomes, *e.Outcome)
		case e.Notice != "":
			view.Notices = append(view.Notices, e.Account+": "+e.Notice)
		case e.Error != "":
			failures = append(failures, e.Account+": "+e.Error)
		}
		return nil
	})
	if err != nil && !errors.Is(err, context.Canceled) {
		failures = append(failures, err.Error())
	}
	verify.Sort(view.Outcomes)
	status := http.StatusOK
	if view.Error = strings.Join(failures, "; "); view.Error != "" || err != nil {
		status = http.StatusBadGateway
	}
	w.Header().Set(ResultHeader, "true")
	writeJSON(w, status, view)
}
