package web

import (
	"bytes"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/qwatch/qwatch/internal/cluster"
)

// pages shows the page.
type pages struct {
	*handler
	templates *template.Template
	build     string
}

// frame is what every page has.
type frame struct {
	Title, Page, Version, Build string
	At                          time.Time
	Account, Queue              string
}

func (h *handler) mountPages(mux *http.ServeMux) {
	assets, build := readAssets()
	for _, a := range assets {
		mux.Handle("/assets/"+a.name, onlyGET(a))
	}
	p := &pages{handler: h, build: build, templates: template.Must(template.New("").Funcs(pageFuncs()).ParseFS(files, "page/*.html"))}
	mux.Handle("/{$}", onlyGET(compress(cluster.RouteFleet(h.Router, http.HandlerFunc(p.fleet)))))
	mux.Handle("/queues/{account}/{queue}", onlyGET(compress(cluster.Route(h.Router, http.HandlerFunc(p.queue)))))
	mux.Handle("/view/fleet", compress(cluster.RouteFleet(h.Router, get(p.fleetJSON)))) // what the script fetches: no API to rely on
	mux.Handle("/view/queues/{account}/{queue}", compress(cluster.Route(h.Router, get(p.queueJSON))))
}

// fleetPage is what the fleet's page is made from.
type fleetPage struct {
	frame

	M          fleetModel
	Q          fleetQuery
	Pages      bool
	Prev, Next string
}

func (p *pages) fleet(w http.ResponseWriter, r *http.Request) {
	q, err := parseFleetQuery(r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	data := fleetPage{M: p.fleetModel(q), Q: q}
	data.frame = frame{Title: data.M.Title, Page: "fleet", Version: p.Version, Build: p.build, At: data.M.At}
	if q.Offset > 0 {
		data.Prev = q.with(func(q *fleetQuery) { q.Offset = max(0, q.Offset-q.Limit) })
	}
	if q.Offset+q.Limit < data.M.Matched {
		data.Next = q.with(func(q *fleetQuery) { q.Offset += q.Limit })
	}
	data.Pages = data.Prev != "" || data.Next != ""
	p.show(w, "fleet", data)
}

// queuePage is what a queue's page is made from.
type queuePage struct {
	frame

	M queueModel
}

func (p *pages) queue(w http.ResponseWriter, r *http.Request) {
	name := nameIn(r)
	s, ok := p.Story.Why(name)
	if !ok {
		http.Error(w, "this queue is not watched", http.StatusNotFound)
		return
	}
	p.show(w, "queue", queuePage{frame{
		Title: name.Queue + " · qwatch", Page: "queue", Version: p.Version, Build: p.build, At: s.At, Account: name.Account, Queue: name.Queue,
	}, p.queueModel(s)})
}

func (p *pages) fleetJSON(w http.ResponseWriter, r *http.Request) {
	q, err := parseFleetQuery(r.URL.Query())
	if err != nil {
		writeError(w, http.StatusBadRequest, err.Error())
		return
	}
	writeJSON(w, http.StatusOK, p.fleetModel(q))
}

func (p *pages) queueJSON(w http.ResponseWriter, r *http.Request) {
	s, ok := p.Story.Why(nameIn(r))
	if !ok {
		writeError(w, http.StatusNotFound, "queue "+nameIn(r).String()+" is not watched any more")
		return
	}
	writeJSON(w, http.StatusOK, p.queueModel(s))
}

func (p *pages) show(w http.ResponseWriter, name string, data any) {
	var b bytes.Buffer
	if err := p.templates.ExecuteTemplate(&b, name, data); err != nil {
		p.Logger.Error("render page", "error", err)
		http.Error(w, "the page cannot be rendered; see the log", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(b.Bytes()) // the client is gone: nobody is left to tell
}

// with returns the address of the page with the query changed.
func (q fleetQuery) with(change func(*fleetQuery)) string {
	change(&q)
	v := url.Values{}
	set := func(name, value string) {
		if value != "" {
			v.Set(name, value)
		}
	}
	set("q", q.Text)
	set("status", q.Status)
	set("account", q.Account)
	set("sort", q.Sort)
	if q.Desc {
		v.Set("desc", "1")
	}
	if q.Offset > 0 {
		v.Set("offset", strconv.Itoa(q.Offset))
	}
	if q.Limit != defaultRows {
		v.Set("limit", strconv.Itoa(q.Limit))
	}
	if len(v) == 0 {
		return "/"
	}
	return "/?" + v.Encode()
}

// pathOf is the address of a queue's page.
func pathOf(account, queue string) string {
	return "/queues/" + url.PathEscape(account) + "/" + url.PathEscape(queue)
}
