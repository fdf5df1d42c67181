package web

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/qwatch/qwatch/internal/plainjson"
	"github.com/qwatch/qwatch/internal/triage"
	"github.com/qwatch/qwatch/queue"
)

func (a *admin) mountMessages(mux *http.ServeMux) {
	mux.Handle("/api/v1/queues/{account}/{queue}/messages", a.onStorage(map[string]func(http.ResponseWriter, *storageRequest){
		http.MethodGet: a.peek, http.MethodPost: a.send, http.MethodDelete: a.clear,
	}))
}

// peek answers with what one peek sees.
func (a *admin) peek(w http.ResponseWriter, r *storageRequest) {
	n := 10
	var err error
	if s := r.URL.Query().Get("max"); s != "" {
		if n, err = strconv.Atoi(s); err != nil || n < 1 || n > queue.MaxReceive {
			writeError(w, http.StatusBadRequest, "max is not 1 to "+strconv.Itoa(queue.MaxReceive))
			return
		}
	}
	body, err := strconv.ParseBool(cmp.Or(r.URL.Query().Get("body"), "false"))
	if err != nil {
		writeError(w, http.StatusBadRequest, "body is not true or false")
		return
	}
	room := a.room.answer()
	defer room.end()
	if err := a.room.peeks.Acquire(r.Context(), 1); err != nil {
		writeError(w, http.StatusServiceUnavailable, "operators look at many queues at once; try again")
		return
	}
	defer a.room.peeks.Release(1)
	peeked, err := r.q.PeekPacked(r.Context(), n)
	if err != nil {
		writeError(w, storageStatus(err), err.Error())
		return
	}
	messages, err := triage.DescribeAll(r.Context(), peeked.Messages, body, triage.Room{Unpack: a.room.unpack, Hold: room.hold})
	if err != nil {
		writeError(w, http.StatusServiceUnavailable, "operators read many bodies at once; try again")
		return
	}
	if body {
		act := r.act("peek")
		act.Messages = len(messages)
		a.audit(r.Request, act)
	}
	writeJSON(w, http.StatusOK, messages)
}

// maxSend holds the largest body a queue takes, as JSON may have to write it.
const maxSend = 1 << 20

// send puts one message on the queue.
func (a *admin) send(w http.ResponseWriter, r *storageRequest) {
	var m triage.Outgoing
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxSend))
	if err != nil {
		writeError(w, http.StatusRequestEntityTooLarge, "the body cannot be read, or is too large: a queue takes 64 KiB")
		return
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err = d.Decode(&m); err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("there is more than one of it")
		}
	}
	if err == nil {
		err = errors.Join(plainjson.Unambiguous(b), m.Check())
	}
	if err != nil {
		writeError(w, http.StatusBadRequest, "the body is not a message to send: "+strings.ReplaceAll(strings.TrimPrefix(err.Error(), "json: "), "\n", "; "))
		return
	}
	res, err := m.Send(r.Context(), r.q.Queue)
	if err != nil {
		status := storageStatus(err)
		if !errors.As(err, new(*queue.StorageError)) && status == http.StatusBadGateway {
			status = http.StatusBadRequest // it was never sent
		}
		writeError(w, status, err.Error())
		return
	}
	act := r.act("send")
	act.MessageID = res.MessageID
	a.audit(r.Request, act)
	writeJSON(w, http.StatusCreated, res)
}

// clear deletes every message of the queue.
func (a *admin) clear(w http.ResponseWriter, r *storageRequest) {
	var dryRun bool
	for _, s := range r.URL.Query()["dryRun"] {
		var err error
		if dryRun, err = strconv.ParseBool(s); err != nil || len(r.URL.Query()["dryRun"]) > 1 {
			writeError(w, http.StatusBadRequest, "dryRun is not true or false, once")
			return
		}
	}
	if err := patient(w, time.Now().Add(streamPause)); err != nil {
		writeError(w, http.StatusInternalServerError, "this connection cannot wait")
		return
	}
	props, err := r.q.Properties(r.Context())
	if err == nil && !dryRun {
		err = r.q.Clear(r.Context())
		act := r.act("clear")
		act.Messages = int(props.ApproximateMessages)
		if err != nil {
			act.Error = err.Error()
		}
		a.audit(r.Request, act)
	}
	if err != nil {
		writeError(w, storageStatus(err), err.Error())
		return
	}
	writeJSON(w, http.StatusOK, triage.Cleared{
		Account: r.PathValue("account"), Queue: r.q.Name(), ApproximateMessages: props.ApproximateMessages,
		Cleared: !dryRun,
	})
}
