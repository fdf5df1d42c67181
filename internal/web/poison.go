package web

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/qwatch/qwatch/internal/triage"
	"github.com/qwatch/qwatch/poison"
)

// Bounds of what one answer holds, and takes. A stream of events has no such bounds.
const (
	maxListed   = 10_000           // entries
	maxAnswered = triage.MaxShown  // bytes of entries, about
	longest     = 30 * time.Minute // without a stream
	streamPause = time.Minute      // within which a reader of a stream must take what is sent
)

// eventStream is the media type of a stream of events, one JSON object a line.
const eventStream = "application/jsonl"

func (a *admin) mountPoison(mux *http.ServeMux) {
	const path = "/api/v1/poison/{account}/{queue}"
	type methods = map[string]func(http.ResponseWriter, *storageRequest)
	query := func(op triage.Operation) methods {
		return methods{http.MethodGet: func(w http.ResponseWriter, r *storageRequest) {
			c, err := commandOf(r.URL.Query())
			a.poison(w, r, op, c, err)
		}}
	}
	command := func(op triage.Operation) methods {
		return methods{http.MethodPost: func(w http.ResponseWriter, r *storageRequest) {
			c, err := readCommand(w, r.Request)
			a.poison(w, r, op, c, err)
		}}
	}
	mux.Handle(path, a.onStorage(query(triage.List)))
	mux.Handle(path+"/export", a.onStorage(query(triage.Export)))
	mux.Handle(path+"/replay", a.onStorage(command(triage.Replay)))
	mux.Handle(path+"/delete", a.onStorage(command(triage.Delete)))
	mux.Handle(path+"/purge", a.onStorage(command(triage.Purge)))
	mux.Handle(path+"/stop", a.guarded(a.stop))
	mux.Handle(path+"/import", a.onStorage(methods{http.MethodPost: a.importPoison}))
}

// poisonView is the answer to GET /api/v1/poison/{account}/{queue}.
type poisonView struct {
	Account     string `json:"account"`
	Queue       string `json:"queue"`
	PoisonQueue string `json:"poisonQueue"`
	triage.Summary
	Entries []triage.Entry `json:"entries"`
}

// resultView is the answer to what changes something.
type resultView struct {
	poison.Result
	Entries []triage.Entry `json:"entries,omitempty"` // of a dry run
	Partial bool           `json:"partial,omitempty"` // there are more entries than an answer holds
	Error   string         `json:"error,omitempty"`
}

// poison carries a command out, and answers with what came of it, or with its events as they come.
func (a *admin) poison(w http.ResponseWriter, r *storageRequest, op triage.Operation, c triage.Command, err error) {
	c.Operation = op
	if err == nil {
		err = c.Check()
	}
	if err == nil {
		err = r.q.NoPoison
	}
	stream := strings.Contains(r.Header.Get("Accept"), eventStream)
	if !stream && c.All && (c.Limit == 0 || c.Limit > maxListed) && (op == triage.List || c.DryRun) {
		c.Limit = maxListed
	}
	if err != nil {
		writeError(w, http.StatusBadRequest, strings.ReplaceAll(err.Error(), "\n", "; "))
		return
	}
	watch := func(sink func(triage.Event) error) func(triage.Event) error { return sink }
	if op != triage.List || c.All { // a look takes a moment, and disturbs nobody
		p, end, err := a.work.begin(r, op, c)
		if err != nil {
			w.Header().Set("Retry-After", "5")
			writeError(w, http.StatusTooManyRequests, err.Error())
			return
		}
		defer end()
		w.Header().Set(WorkHeader, p.id)
		watch = p.watch
	}
	run := func(ctx context.Context, sink func(triage.Event) error) error {
		return because(ctx, triage.Run(ctx, r.q, c, a.hooks(r, op), watch(a.telling(ctx, r, a.reading(r, c, sink)))))
	}
	switch {
	case stream:
		a.stream(w, r, op, c, run)
	case op == triage.Export:
		a.lines(w, r, c, run)
	default:
		a.whole(w, r, op, c, run)
	}
}

// hooks write the audit log, and count.
func (a *admin) hooks(r *storageRequest, op triage.Operation) triage.Hooks {
	return triage.Hooks{
		Room: triage.Room{Unpack: a.room.unpack},
		Replayed: func(ctx context.Context, m poison.Replayed) {
			act := r.act(string(op))
			act.MessageID, act.PoisonMessageID, act.NewMessageID = m.Entry.MessageID, m.Entry.PoisonMessageID, m.MessageID
			a.audit(r.Request, act)
			if a.Storage.Replayed != nil {
				a.Storage.Replayed(ctx, act.Account, act.Queue, m)
			}
		},
		Deleted: func(_ context.Context, e *poison.Entry) {
			act := r.act(string(op))
			act.MessageID, act.PoisonMessageID = e.MessageID, e.PoisonMessageID
			a.audit(r.Request, act)
		},
	}
}

// reading writes a line of the audit log for each message whose body is shown.
func (a *admin) reading(r *storageRequest, c triage.Command, sink func(triage.Event) error) func(triage.Event) error {
	if !c.Body {
		return sink
	}
	return func(e triage.Event) error {
		err := sink(e)
		if e.Entry != nil && !errors.Is(err, errFull) {
			act := r.act("read-body")
			act.MessageID, act.PoisonMessageID = e.Entry.MessageID, e.Entry.PoisonMessageID
			a.audit(r.Request, act)
		}
		return err
	}
}

// ended writes the audit log's line about a command as a whole.
func (a *admin) ended(r *storageRequest, op triage.Operation, c triage.Command, n int, err error) {
	if c.DryRun || op == triage.List && !c.All {
		return
	}
	act := r.act(string(op))
	act.Messages = n
	if err != nil {
		act.Error, act.Left = err.Error(), errors.Is(err, errLeft)
	}
	a.audit(r.Request, act)
}

// patient lets a request take its time: the server's timeouts are for what is ready at once.
func patient(w http.ResponseWriter, until time.Time) error {
	c := http.NewResponseController(w)
	err := errors.Join(c.SetReadDeadline(time.Time{}), c.SetWriteDeadline(until))
	if errors.Is(err, http.ErrNotSupported) {
		return nil // there are none to lift
	}
	return err
}

// whole answers when everything is done.
func (a *admin) whole(w http.ResponseWriter, r *storageRequest, op triage.Operation, c triage.Command, run func(context.Context, func(triage.Event) error) error) {
	if err := patient(w, time.Now().Add(longest+streamPause)); err != nil {
		writeError(w, http.StatusInternalServerError, "this connection cannot wait")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), longest)
	defer cancel()
	view := poisonView{Account: r.PathValue("account"), Queue: r.q.Name(), PoisonQueue: r.q.Poison().Name(), Entries: []triage.Entry{}}
	var result *resultView
	at, size, partial := map[string]int{}, 0, false
	room := a.room.answer()
	defer room.end()
	err := run(ctx, func(e triage.Event) error {
		switch {
		case e.Entry != nil:
			id := e.Entry.Key()
			if i, again := at[id]; again {
				view.Entries[i].Copies++
				break
			}
			n := sizeOf(e.Entry)
			full := size+n > maxAnswered && len(view.Entries) > 0
			if !full && c.Body && !room.hold(n) {
				if len(view.Entries) == 0 {
					return errCrowded
				}
				full = true
			}
			if full {
				size, partial = maxAnswered, true
				if op == triage.List {
					return errFull
				}
				break // a dry run counts on
			}
			size += n
			at[id] = len(view.Entries)
			view.Entries = append(view.Entries, *e.Entry)
		case e.Summary != nil:
			view.Summary = *e.Summary
		case e.Result != nil:
			result = &resultView{Result: *e.Result, Error: e.Error}
		}
		return nil
	})
	if errors.Is(err, errFull) && !errors.Is(err, poison.ErrNotReleased) {
		err, view.Partial = nil, true
	}
	status := http.StatusOK
	switch {
	case errors.Is(err, poison.ErrCanary):
		status = http.StatusConflict
	case errors.Is(err, errCrowded):
		status = http.StatusTooManyRequests
		w.Header().Set("Retry-After", "5")
	case err != nil:
		status = storageStatus(err)
	}
	switch {
	case result != nil:
		a.ended(r, op, c, result.Done, err)
		result.Entries, result.Partial = view.Entries, partial
		w.Header().Set(ResultHeader, "true")
		writeJSON(w, status, result)
	case err != nil:
		writeError(w, status, err.Error())
	default:
		a.ended(r, op, c, len(view.Entries), nil)
		writeJSON(w, status, view)
	}
}

// errFull ends a list whose answer would become too large.
var errFull = errors.New("the answer is full")

// stream answers with events, one a line, as they come. The last says how it ended.
func (a *admin) stream(w http.ResponseWriter, r *storageRequest, op triage.Operation, c triage.Command, run func(context.Context, func(triage.Event) error) error) {
	s, err := openStream(w)
	if err != nil {
		writeError(w, http.StatusInternalServerError, "this connection cannot wait")
		return
	}
	_ = s.flush() // whoever is gone is noticed at the first event; the others know by now what to stop
	n, ended, b := 0, false, startBeat(s.send)
	defer b.end()
	err = run(r.Context(), func(e triage.Event) error {
		switch {
		case e.Entry != nil || e.Line != nil:
			n++
		case e.Result != nil:
			n, ended = e.Result.Done, true
		}
		return b.tell(e)
	})
	b.end()
	if err != nil && !ended {
		_ = s.send(triage.Event{Error: err.Error()}) // the client is gone: nobody is left to tell
	}
	_ = s.flush() // the client is gone: nobody is left to tell
	a.ended(r, op, c, n, err)
}

// lines answers with an export as an import takes it. It breaks the connection when it cannot finish.
func (a *admin) lines(w http.ResponseWriter, r *storageRequest, c triage.Command, run func(context.Context, func(triage.Event) error) error) {
	s, err := openStream(w)
	if err != nil {
		writeError(w, http.StatusInternalServerError, "this connection cannot wait")
		return
	}
	n := 0
	err = run(r.Context(), func(e triage.Event) error {
		if e.Line == nil {
			return nil
		}
		n++
		return s.write(e.Line, false)
	})
	a.ended(r, triage.Export, c, n, err)
	switch {
	case err != nil && n == 0:
		writeError(w, storageStatus(err), err.Error())
	case err != nil:
		panic(http.ErrAbortHandler)
	default:
		_ = s.flush() // the client is gone: nobody is left to tell
	}
}

// eventWriter writes events, one a line.
type eventWriter struct {
	w   http.ResponseWriter
	buf *bufio.Writer
	at  time.Time // of the last flush
}

func openStream(w http.ResponseWriter) (*eventWriter, error) {
	if err := patient(w, time.Now().Add(streamPause)); err != nil {
		return nil, err
	}
	h := w.Header()
	h.Set("Content-Type", eventStream)
	h.Set("Cache-Control", "no-store")
	return &eventWriter{w: w, buf: bufio.NewWriterSize(w, 32<<10)}, nil
}

func (s *eventWriter) send(e triage.Event) error {
	var b bytes.Buffer
	if e.Entry != nil {
		b.Grow(e.Entry.Size() + 1<<10) // or it is doubled again and again
	}
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // it would write what is large six times as large
	if err := enc.Encode(e); err != nil {
		return fmt.Errorf("write an event: %w", err)
	}
	return s.write(b.Bytes(), e.Entry == nil && e.Line == nil)
}

// write writes a line, and sees to it that it is read soon.
func (s *eventWriter) write(b []byte, atOnce bool) error {
	if atOnce || s.buf.Available() < len(b) || time.Since(s.at) > 100*time.Millisecond {
		if err := s.extend(); err != nil {
			return err
		}
		if _, err := s.buf.Write(b); err != nil {
			return left(err)
		}
		return s.flush()
	}
	_, err := s.buf.Write(b)
	return left(err)
}

// extend gives the reader its time again.
func (s *eventWriter) extend() error {
	return patient(s.w, time.Now().Add(streamPause))
}

func (s *eventWriter) flush() error {
	s.at = time.Now()
	if err := s.buf.Flush(); err != nil {
		return left(err)
	}
	return left(http.NewResponseController(s.w).Flush())
}

// ResultHeader is on answers that tell what was done, also when it ended early.
const ResultHeader = "Qwatch-Result"

// importOptions reads the parameters of an import.
func importOptions(v url.Values) (triage.ImportOptions, error) {
	var o triage.ImportOptions
	var errs []error
	for name, into := range map[string]*int{"from": &o.From, "line": &o.First} {
		if s := v.Get(name); s != "" {
			var err error
			if *into, err = strconv.Atoi(s); err != nil || *into < 1 {
				errs = append(errs, errors.New(name+" is not the number of a line"))
			}
		}
	}
	if s := v.Get("dryRun"); s != "" {
		var err error
		if o.DryRun, err = strconv.ParseBool(s); err != nil || len(v["dryRun"]) > 1 {
			errs = append(errs, errors.New("dryRun is not true or false"))
		}
	}
	return o, errors.Join(errs...)
}

// importPoison puts the lines of an export, which are the request's body, back on the poison queue.
func (a *admin) importPoison(w http.ResponseWriter, r *storageRequest) {
	o, err := importOptions(r.URL.Query())
	if err = errors.Join(r.q.NoPoison, err); err != nil {
		writeError(w, http.StatusBadRequest, strings.ReplaceAll(err.Error(), "\n", "; "))
		return
	}
	_, end, err := a.work.begin(r, opImport, triage.Command{DryRun: o.DryRun})
	if err != nil {
		w.Header().Set("Retry-After", "5")
		writeError(w, http.StatusTooManyRequests, err.Error())
		return
	}
	defer end()
	if err := patient(w, time.Now().Add(longest+streamPause)); err != nil {
		writeError(w, http.StatusInternalServerError, "this connection cannot wait")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), longest)
	defer cancel()
	o.Imported = func(e *poison.Exported) {
		act := r.act("import")
		act.MessageID = e.MessageID
		a.audit(r.Request, act)
	}
	lines, read := uploading(ctx, w, r.Request)
	defer read()
	res, err := triage.Import(ctx, r.q, lines, o)
	err = because(ctx, err)
	a.ended(r, "import", triage.Command{DryRun: o.DryRun}, res.Imported, err)
	view := struct {
		triage.Imported
		Error string `json:"error,omitempty"`
	}{Imported: res}
	status := http.StatusOK
	if err != nil {
		view.Error = err.Error()
		switch status = storageStatus(err); {
		case errors.As(err, new(*triage.LineError)):
			status = http.StatusBadRequest
		case errors.Is(err, errSilent):
			status = http.StatusRequestTimeout
		}
	}
	w.Header().Set(ResultHeader, "true")
	writeJSON(w, status, view)
}
