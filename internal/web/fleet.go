package web

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/qwatch/qwatch/internal/cluster"
	"github.com/qwatch/qwatch/internal/story"
)

// Bounds of one answer about the fleet.
const (
	defaultRows = 100
	maxRows     = 500
	sparkPoints = 30
	maxFilter   = 200 // bytes
	sideCauses  = 12
	sideEvents  = 12
	sideExpiry  = 12
	sideCluster = 8
)

// fleetQuery is which rows of the fleet are asked for.
type fleetQuery struct {
	Text          string // words that account, queue, team or status must hold, all of them
	Status        string
	Account       string
	Sort          string // "" is the worst first
	Desc          bool
	Offset, Limit int
}

// fleetView is the answer to GET /api/v1/fleet.
type fleetView struct {
	At       time.Time       `json:"at"`
	Version  string          `json:"version"`
	Totals   story.Totals    `json:"totals"`
	Causes   []story.Cause   `json:"causes"` // the worst of them
	More     int             `json:"moreCauses,omitempty"`
	Expiring []story.Expiry  `json:"expiring"`
	Clusters []story.Cluster `json:"deadLetters"`
	Events   []story.Event   `json:"events"`
	Matched  int             `json:"matched"` // rows that the filter leaves
	Offset   int             `json:"offset"`
	Rows     []fleetRow      `json:"rows"`
}

type fleetRow struct {
	story.Row

	Trend []int64 `json:"trend,omitempty"` // latest counts of the main queue, the oldest first; −1 not known
}

// sorts are the orders that rows can have, ascending, besides the worst first.
var sorts = map[string]func(a, b *story.Row) int{
	"queue":    func(a, b *story.Row) int { return 0 }, // what ties are broken by
	"status":   func(a, b *story.Row) int { return cmp.Compare(a.Status, b.Status) },
	"messages": func(a, b *story.Row) int { return compareNumbers(a.Messages, b.Messages) },
	"oldest":   func(a, b *story.Row) int { return compareNumbers(a.Oldest, b.Oldest) },
	"poison":   func(a, b *story.Row) int { return compareNumbers(a.Poison, b.Poison) },
	"loss":     func(a, b *story.Row) int { return compareAbsent(a.LossSeconds, b.LossSeconds) },
	"drain":    func(a, b *story.Row) int { return compareAbsent(a.DrainSeconds, b.DrainSeconds) },
	"handlers": func(a, b *story.Row) int { return cmp.Compare(a.Handlers, b.Handlers) },
	"read":     func(a, b *story.Row) int { return cmp.Compare(a.ReadSeconds, b.ReadSeconds) },
	"team":     func(a, b *story.Row) int { return cmp.Compare(a.Team, b.Team) },
}

// compareNumbers puts what is not known before every number.
func compareNumbers(a, b story.Number) int {
	value := func(n story.Number) int64 {
		if !n.Known {
			return -1
		}
		return n.Value
	}
	return cmp.Compare(value(a), value(b))
}

// compareAbsent puts what is absent after every number.
func compareAbsent(a, b float64) int {
	switch {
	case a == b:
		return 0
	case a == 0:
		return 1
	case b == 0:
		return -1
	}
	return cmp.Compare(a, b)
}

// parseFleetQuery reads which rows are asked for.
func parseFleetQuery(v url.Values) (fleetQuery, error) {
	q := fleetQuery{Text: v.Get("q"), Status: v.Get("status"), Account: v.Get("account"), Sort: v.Get("sort"), Limit: defaultRows}
	if len(q.Text) > maxFilter || len(q.Status) > maxFilter || len(q.Account) > maxFilter {
		return q, fmt.Errorf("a filter has more than %d bytes", maxFilter)
	}
	if _, ok := sorts[q.Sort]; q.Sort != "" && !ok {
		names := make([]string, 0, len(sorts))
		for name := range sorts {
			names = append(names, name)
		}
		slices.Sort(names)
		return q, fmt.Errorf("sort: there is no such order; there are: %s", strings.Join(names, ", "))
	}
	switch v.Get("desc") {
	case "", "0", "false":
	case "1", "true":
		q.Desc = true
	default:
		return q, fmt.Errorf("desc: want 1 or 0")
	}
	for name, n := range map[string]*int{"offset": &q.Offset, "limit": &q.Limit} {
		if s := v.Get(name); s != "" {
			i, err := strconv.Atoi(s)
			if err != nil || i < 0 || i > 1_000_000 {
				return q, fmt.Errorf("%s: want a number from 0 to 1000000", name)
			}
			*n = i
		}
	}
	q.Limit = min(q.Limit, maxRows)
	return q, nil
}

// pick returns the rows of the fleet that are asked for, and how many there are in all.
func (q fleetQuery) pick(rows []story.Row) (picked []story.Row, matched int) {
	words := strings.Fields(strings.ToLower(q.Text))
	if len(words) > 0 || q.Status != "" || q.Account != "" || q.Sort != "" {
		kept := make([]story.Row, 0, len(rows))
		for i := range rows {
			if q.matches(&rows[i], words) {
				kept = append(kept, rows[i])
			}
		}
		rows = kept
	}
	if by := sorts[q.Sort]; by != nil {
		slices.SortFunc(rows, func(a, b story.Row) int {
			c := by(&a, &b)
			if c == 0 {
				c = cmp.Or(cmp.Compare(a.Account, b.Account), cmp.Compare(a.Queue, b.Queue))
				if q.Sort != "queue" {
					return c
				}
			}
			if q.Desc {
				c = -c
			}
			return c
		})
	}
	from := min(q.Offset, len(rows))
	return rows[from:min(from+q.Limit, len(rows))], len(rows)
}

func (q fleetQuery) matches(r *story.Row, words []string) bool {
	if q.Account != "" && r.Account != q.Account || q.Status != "" && r.Status != q.Status && r.PoisonStatus != q.Status {
		return false
	}
	if len(words) == 0 {
		return true
	}
	text := strings.ToLower(r.Account + "/" + r.Queue + " " + r.Team + " " + r.Status + " " + strings.ReplaceAll(r.Status, "_", " ") + " " + r.Reason)
	for _, w := range words {
		if !strings.Contains(text, w) {
			return false
		}
	}
	return true
}

// fleetView puts together what there is to say about the fleet.
func (h *handler) fleetView(q fleetQuery) fleetView {
	f := h.Story.Fleet()
	picked, matched := q.pick(f.Rows)
	v := fleetView{
		At: f.At.UTC(), Version: h.Version, Totals: f.Totals, Matched: matched, Offset: min(q.Offset, matched),
		Causes: f.Causes[:min(len(f.Causes), sideCauses)], More: max(0, len(f.Causes)-sideCauses), Expiring: f.Expiring[:min(len(f.Expiring), sideExpiry)],
		Clusters: h.Story.Clusters(story.Name{}, sideCluster), Events: h.Story.Events(story.Name{}, sideEvents),
		Rows: make([]fleetRow, len(picked)),
	}
	names := make([]story.Name, len(picked))
	for i := range picked {
		names[i] = picked[i].Name
	}
	sparks := h.Story.Sparks(names, sparkPoints)
	for i := range picked {
		v.Rows[i] = fleetRow{picked[i], sparks[i]}
	}
	if v.Expiring == nil {
		v.Expiring = []story.Expiry{}
	}
	if v.Clusters == nil {
		v.Clusters = []story.Cluster{}
	}
	return v
}

// mountStory adds the API of what the page and the commands tell.
func (h *handler) mountStory(mux *http.ServeMux) {
	mux.Handle("/api/v1/fleet", compress(cluster.RouteFleet(h.Router, get(h.fleet))))
	mux.Handle("/api/v1/why/{account}/{queue}", compress(cluster.Route(h.Router, get(h.why))))
	mux.Handle("/api/v1/tune", compress(cluster.RouteFleet(h.Router, get(h.tuneAll))))
	mux.Handle("/api/v1/tune/{account}/{queue}", compress(cluster.Route(h.Router, get(h.tune))))
}

func (h *handler) fleet(w http.ResponseWriter, r *http.Request) {
	q, err := parseFleetQuery(r.URL.Query())
	if err != nil {
		writeError(w, http.StatusBadRequest, err.Error())
		return
	}
	writeJSON(w, http.StatusOK, h.fleetView(q))
}

func nameIn(r *http.Request) story.Name {
	return story.Name{Account: r.PathValue("account"), Queue: r.PathValue("queue")}
}

func (h *handler) why(w http.ResponseWriter, r *http.Request) {
	s, ok := h.Story.Why(nameIn(r))
	if !ok {
		writeError(w, http.StatusNotFound, "queue "+nameIn(r).String()+" is not watched; GET /api/v1/queues lists those that are")
		return
	}
	writeJSON(w, http.StatusOK, s)
}

func (h *handler) tune(w http.ResponseWriter, r *http.Request) {
	a, ok := h.Story.Tune(nameIn(r))
	if !ok {
		what := " is not watched; GET /api/v1/queues lists those that are"
		if len(h.Collector.Queue(r.PathValue("account"), r.PathValue("queue"))) > 0 {
			what = " has no consumer in this process: nothing was measured that advice could rest on"
		}
		writeError(w, http.StatusNotFound, "queue "+nameIn(r).String()+what)
		return
	}
	writeJSON(w, http.StatusOK, a)
}

func (h *handler) tuneAll(w http.ResponseWriter, _ *http.Request) {
	all := []*story.Advice{}
	for _, p := range h.Processors() {
		if a, ok := h.Story.Tune(story.Name{Account: p.Account, Queue: p.Queue}); ok {
			all = append(all, a)
		}
	}
	writeJSON(w, http.StatusOK, all)
}
