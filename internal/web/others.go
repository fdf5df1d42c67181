package web

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/qwatch/qwatch/internal/cluster"
)

// wholeView is the answer to GET /api/v1/queues of a replica that watches a part of the fleet.
type wholeView struct {
	At         time.Time         `json:"at"`
	Queues     []json.RawMessage `json:"queues"`
	Unanswered []string          `json:"unanswered,omitempty"` // the replicas whose queues are missing here
}

// part is what one replica tells.
type part struct {
	Queues []json.RawMessage `json:"queues"`
}

// queues lists what this replica watches, and what the others do, unless one of those asks.
func (h *handler) queues(w http.ResponseWriter, r *http.Request) {
	snap := h.Collector.Snapshot()
	own := queuesView{At: snap.At.UTC(), Queues: viewOf(snap.Queues, h.Processors(), snap.At)}
	others := h.Router.Others()
	if len(others) == 0 || cluster.FromPeer(r) {
		writeJSON(w, http.StatusOK, own)
		return
	}
	view, err := h.whole(r, own, others)
	if err != nil && len(view.Unanswered) == len(others) && len(own.Queues) == 0 { // nothing is known at all
		cluster.Pass(w, nil, err)
		return
	}
	writeJSON(w, http.StatusOK, view)
}

// whole joins what this replica watches with what the others tell. The error is that of one that does not.
func (h *handler) whole(r *http.Request, own queuesView, others []string) (wholeView, error) {
	parts, errs := make([]part, len(others)), make([]error, len(others))
	var all sync.WaitGroup
	for i, addr := range others {
		all.Go(func() {
			answer, err := h.Router.Ask(r.Context(), addr, "/api/v1/queues")
			switch {
			case err != nil:
				errs[i] = err
			case answer.Status != http.StatusOK || json.Unmarshal(answer.Body, &parts[i]) != nil:
				errs[i] = cluster.ErrUnavailable
			}
		})
	}
	all.Wait()
	view := wholeView{At: own.At, Queues: []json.RawMessage{}}
	for _, q := range own.Queues {
		raw, err := json.Marshal(q)
		if err != nil {
			return view, err
		}
		view.Queues = append(view.Queues, raw)
	}
	for i, p := range parts {
		view.Queues = append(view.Queues, p.Queues...)
		if errs[i] != nil {
			view.Unanswered = append(view.Unanswered, cmp.Or(others[i], "unknown"))
		}
	}
	return view.sorted(), errors.Join(errs...)
}

// sorted orders the queues by account and name; of one that two replicas tell of, which may be while it is handed over,
// the first stays.
func (v wholeView) sorted() wholeView {
	type name struct {
		Account string `json:"account"`
		Queue   string `json:"queue"`
	}
	type named struct {
		name
		raw json.RawMessage
	}
	all := make([]named, 0, len(v.Queues))
	for _, raw := range v.Queues {
		n := named{raw: raw}
		if json.Unmarshal(raw, &n.name) == nil {
			all = append(all, n)
		}
	}
	slices.SortStableFunc(all, func(a, b named) int { return cmp.Or(cmp.Compare(a.Account, b.Account), cmp.Compare(a.Queue, b.Queue)) })
	all = slices.CompactFunc(all, func(a, b named) bool { return a.name == b.name })
	v.Queues = v.Queues[:0]
	for _, n := range all {
		v.Queues = append(v.Queues, n.raw)
	}
	return v
}
