// Package web is qwatch's HTTP face: metrics, API, page and the probes' mounting.
//
// Every answer comes from state that is already there – the collector's snapshot, the
// processors' status, the registry. No request of any kind calls storage, so a scrape is
// as quick during an outage as before it; the exception is what operators ask for with their
// token, to look after messages. What the state means is decided in the packages
// it comes from; this one only shows it.
package web

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/qwatch/qwatch/collector"
	"github.com/qwatch/qwatch/health"
	"github.com/qwatch/qwatch/internal/cluster"
	"github.com/qwatch/qwatch/internal/story"
	"github.com/qwatch/qwatch/processor"
)

// Options are what the handler shows.
type Options struct {
	// Registry holds every metric but the collector's. Required. The metrics about
	// serving metrics are registered with it.
	Registry *prometheus.Registry
	// Collector watches the queues. Required.
	Collector *collector.Collector
	// Processors returns the status of every processor. Nil: there are none.
	Processors func() []processor.Status
	// Consumer returns the consumer of a queue in this process, nil when it has none. Nil: there are none.
	Consumer func(account, queue string) Consumer
	// Elsewhere returns what consumers in other processes say of a queue; false when nobody asks them. Nil: nobody does.
	Elsewhere func(account, queue string) (Elsewhere, bool)
	// Scaler answers what queues call for. Nil: nobody does, and the address is not there.
	Scaler Scaler
	// Story remembers how the queues fared. Nil: nothing is remembered, and what can be told is told
	// from the present state.
	Story *story.Recorder
	// Router tells which replica watches a queue. Nil: this one watches all.
	Router cluster.Router
	// Shard answers who this replica is among shards. Nil: it is none.
	Shard http.Handler
	// Tokens are who may steer consumers. Nil: nobody.
	Tokens *Tokens
	// Reload reads the configuration anew, for POST /-/reload. A *RefusedError says that the file is at fault.
	// Nil: it cannot be reloaded.
	Reload func(context.Context) (Reloaded, error)
	// Storage lets operators look after messages. Nil: nobody does, and the addresses are not there.
	Storage *Storage
	// Audited is told of everything that somebody did through the API. Nil: only the log is.
	Audited func(Action)
	// Health mounts the probes. Required.
	Health *health.Health
	// Version is shown on the page.
	Version string
	// Logger gets what goes wrong while serving. Nil discards.
	Logger *slog.Logger
}

// Handler returns the handler of the main listener.
func Handler(o Options) http.Handler {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Processors == nil {
		o.Processors = func() []processor.Status { return nil }
	}
	if o.Consumer == nil {
		o.Consumer = func(string, string) Consumer { return nil }
	}
	if o.Elsewhere == nil {
		o.Elsewhere = func(string, string) (Elsewhere, bool) { return Elsewhere{}, false }
	}
	if o.Story == nil {
		o.Story = story.New(story.Config{Snapshot: o.Collector.Snapshot, Queue: o.Collector.Queue, Processors: o.Processors})
	}
	if o.Router == nil {
		o.Router = cluster.Alone{}
	}
	o.Audited = alsoTold(o.Story, o.Audited)
	h := &handler{Options: o, work: newStorageWork()}
	mux := http.NewServeMux()
	mux.Handle("/metrics", metricsHandler(o.Registry, o.Collector, o.Logger))
	mux.Handle("/api/v1/queues", compress(get(h.queues)))
	h.mountStory(mux)
	mux.Handle("/api/v1/queues/{account}/{queue}", compress(cluster.Route(o.Router, get(h.queue))))
	a := newAdmin(h)
	a.mountProcessors(mux)
	if o.Storage != nil {
		if o.Storage.Work == nil {
			o.Storage.Work = &Work{}
		}
		a.mountPoison(mux)
		a.mountMessages(mux)
		a.mountVerify(mux)
	}
	h.mountScaling(mux)
	if o.Shard != nil {
		mux.Handle(cluster.ShardPath, get(o.Shard.ServeHTTP))
	}
	mux.HandleFunc("/api/", func(w http.ResponseWriter, r *http.Request) {
		writeError(w, http.StatusNotFound, "there is no "+r.URL.Path)
	})
	h.mountPages(mux)
	o.Health.Mount(mux, "")
	return secure(mux)
}

// Probes returns the handler of the probes' own listener.
func Probes(health *health.Health) http.Handler {
	mux := http.NewServeMux()
	health.Mount(mux, "")
	return secure(mux)
}

type handler struct {
	Options

	work *storageWork
}

func (h *handler) queue(w http.ResponseWriter, r *http.Request) {
	account, name := r.PathValue("account"), r.PathValue("queue")
	now := time.Now()
	states := h.Collector.Queue(account, name)
	views := viewOf(states, h.Processors(), now)
	if len(views) == 0 {
		writeError(w, http.StatusNotFound, "queue "+account+"/"+name+" is not watched; GET /api/v1/queues lists those that are")
		return
	}
	for _, s := range states {
		v := views[0].Main
		if s.Kind == collector.KindPoison {
			v = views[0].Poison
		}
		v.Evidence = s.Evidence()
	}
	writeJSON(w, http.StatusOK, views[0])
}

// onlyGET refuses every method but GET and HEAD, in plain text.
func onlyGET(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "method not allowed; use GET", http.StatusMethodNotAllowed)
			return
		}
		next.ServeHTTP(w, r)
	})
}
