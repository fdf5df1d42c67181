package scaler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// Bounds of what peers are asked.
const (
	peerTimeout  = 2 * time.Second
	roundTimeout = 10 * time.Second
	peersAtOnce  = 16
	maxPeers     = 2000
	maxPeerBytes = 32 << 20
	firstSamples = 100    // what a peer handled before it was first asked weighs like so many messages
	roundSamples = 1000   // what it handled between two questions weighs like so many at most: it may say anything
	maxSlots     = 10_000 // of a peer for a queue
)

// PeersConfig says where the consumers in other processes are.
type PeersConfig struct {
	// Hosts are the names of headless services, each a host or host:port. Required.
	Hosts []string
	// Port of those that name none. Default "9780".
	Port string
	// Every is the time between two rounds of questions. Default 10s. What a peer said counts for three
	// rounds, and for at least half a minute.
	Every time.Duration
	// Self says whether an address is this process's own, which is not asked. Nil: none is.
	Self func(hostport string) bool
	// Lookup resolves a host. Nil: the system's resolver.
	Lookup func(ctx context.Context, host string) ([]string, error)
	// Transport makes the requests. Nil: one of its own.
	Transport http.RoundTripper
	// Logger gets one line an incident. Nil discards.
	Logger *slog.Logger
}

// Peers asks the consumers in other processes, through their /metrics, how many handlers run and how
// long they take. Every consumer that exports the metrics of docs/metrics.md is understood. Its methods are
// safe for concurrent use.
type Peers struct {
	cfg    PeersConfig
	log    *slog.Logger
	client *http.Client

	mu      sync.Mutex
	pods    map[string]*pod // by host:port
	listed  time.Time       // when every host was last resolved; zero: never
	asked   bool            // a round has ended: those that were there at the start had their turn
	failing string          // why the hosts are not resolved; "": they are
	warned  map[string]bool // incidents that were told
}

// pod is one peer.
type pod struct {
	listed  time.Time // when it was first among the addresses
	at      time.Time // of its last answer; zero: none yet
	err     string    // why it did not answer; "": it did
	refused bool      // nothing listened there
	queues  map[key]work
}

// work is what a peer said about one queue.
type work struct {
	handlers, slots, held int
	progress
}

// learned is what peers have handled since they were asked before.
type learned struct {
	key
	progress
}

// NewPeers returns peers that nobody has asked yet.
func NewPeers(cfg PeersConfig) *Peers {
	if cfg.Port == "" {
		cfg.Port = "9780"
	}
	if cfg.Every == 0 {
		cfg.Every = 10 * time.Second
	}
	if cfg.Self == nil {
		cfg.Self = func(string) bool { return false }
	}
	if cfg.Lookup == nil {
		cfg.Lookup = net.DefaultResolver.LookupHost
	}
	if cfg.Transport == nil {
		// Peers are neighbours: asked directly, whatever the environment says about proxies.
		cfg.Transport = &http.Transport{MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute, ResponseHeaderTimeout: peerTimeout}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Peers{
		cfg: cfg, log: cfg.Logger.With("component", "peers"), pods: map[string]*pod{}, warned: map[string]bool{},
		client: &http.Client{
			Transport:     cfg.Transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// staleAfter is how long what a peer said counts.
func (p *Peers) staleAfter() time.Duration { return max(3*p.cfg.Every, 30*time.Second) }

// workers adds up what the peers do for a queue.
func (p *Peers) workers(k key, now time.Time) workers {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := workers{known: true}
	unknown := func(format string, args ...any) {
		if w.known {
			w.known, w.why = false, fmt.Sprintf(format, args...)
		}
	}
	switch {
	case p.listed.IsZero() && p.failing != "", !p.listed.IsZero() && now.Sub(p.listed) > p.staleAfter():
		unknown("%s", p.failing)
	case !p.asked:
		unknown("the peers have not been asked yet")
	}
	silent, heard := "", false
	for address, pod := range p.pods {
		if pod.at.IsZero() {
			// It starts, or nothing runs there: no handlers are known of it, and it says nothing of the others'.
			if !pod.refused && now.Sub(pod.listed) > p.staleAfter() {
				silent = fmt.Sprintf("no peer has ever answered, peer %s: %s", address, pod.err)
			}
			continue
		}
		heard = true
		q, ok := pod.of(k)
		if !ok {
			continue // its silence hides no handlers of this queue
		}
		if now.Sub(pod.at) > p.staleAfter() {
			unknown("peer %s does not answer: %s", address, pod.err)
			continue
		}
		w.age = max(w.age, now.Sub(pod.at))
		w.replicas++
		w.handlers += q.handlers
		w.slots += q.slots
		w.heldElsewhere += q.held
	}
	if silent != "" && !heard {
		unknown("%s", silent) // the consumers are not seen at all, as behind a network policy
	}
	return w
}

// Elsewhere is what the consumers in other processes do for a queue.
type Elsewhere struct {
	Unknown  string // why it is not known; "": it is
	Replicas int
	Handlers int           // at work
	Slots    int           // handlers there may be
	Age      time.Duration // of what was said the longest ago
}

// Elsewhere returns what the consumers in other processes do for a queue, by what they said last; false when
// nobody knows where they are.
func (s *Scaler) Elsewhere(account, queue string) (Elsewhere, bool) {
	if s.cfg.Peers == nil {
		return Elsewhere{}, false
	}
	w := s.cfg.Peers.workers(key{account, queue}, time.Now())
	if !w.known {
		return Elsewhere{Unknown: w.why}, true
	}
	return Elsewhere{Replicas: w.replicas, Handlers: w.handlers, Slots: w.slots, Age: w.age}, true
}

// of returns what a peer does for a queue: consumers that are not qwatch may not know the account.
func (p *pod) of(k key) (work, bool) {
	if w, ok := p.queues[k]; ok {
		return w, true
	}
	w, ok := p.queues[key{"", k.queue}]
	return w, ok
}

// round asks every peer once, and returns what they have handled meanwhile.
func (p *Peers) round(ctx context.Context) []learned {
	ctx, cancel := context.WithTimeout(ctx, roundTimeout)
	defer cancel()
	addresses, err := p.resolve(ctx)
	p.list(addresses, err)
	var (
		mu  sync.Mutex
		all []learned
		g   errgroup.Group
	)
	g.SetLimit(peersAtOnce)
	for _, address := range p.addresses() {
		g.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, peerTimeout)
			defer cancel()
			queues, err := p.fetch(ctx, address)
			news := p.heard(address, queues, err)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, news...)
			return nil
		})
	}
	_ = g.Wait() // what failed is remembered with the peer
	if err == nil {
		p.mu.Lock()
		p.asked = true
		p.mu.Unlock()
	}
	return all
}

// resolve returns the addresses behind the hosts. A name that does not exist has none: the consumers of a
// headless service may all be gone.
func (p *Peers) resolve(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, peerTimeout)
	defer cancel()
	var out []string
	for _, h := range p.cfg.Hosts {
		host, port, err := net.SplitHostPort(h)
		if err != nil {
			host, port = h, p.cfg.Port
		}
		found, err := p.cfg.Lookup(ctx, host)
		if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound {
			p.incident("name "+host, "no peer is behind the name", errors.New("it has no address: no consumer runs, or the name is wrong"))
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("resolve the peers %s: %w", host, err)
		}
		p.recovered("name "+host, "peers are behind the name again")
		for _, a := range found {
			if _, _, err := net.SplitHostPort(a); err != nil {
				a = net.JoinHostPort(a, port)
			}
			if !p.cfg.Self(a) {
				out = append(out, a)
			}
		}
	}
	slices.Sort(out)
	out = slices.Compact(out)
	if len(out) > maxPeers {
		return nil, fmt.Errorf("resolve the peers: %d addresses are more than %d", len(out), maxPeers)
	}
	return out, nil
}

// list notes which peers there are. Without an answer those there were stay.
func (p *Peers) list(addresses []string, err error) {
	if err != nil {
		p.incident("resolve", "peers cannot be resolved", err)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.failing = err.Error()
		return
	}
	p.recovered("resolve", "peers are resolved again")
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listed, p.failing = time.Now(), ""
	for _, a := range addresses {
		if p.pods[a] == nil {
			p.pods[a] = &pod{listed: p.listed, err: "it has not been asked yet"}
		}
	}
	for a := range p.pods {
		if !slices.Contains(addresses, a) {
			delete(p.pods, a)
			delete(p.warned, "peer "+a)
		}
	}
}

func (p *Peers) addresses() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]string, 0, len(p.pods))
	for a := range p.pods {
		out = append(out, a)
	}
	return out
}

// heard notes a peer's answer and returns what is new in it.
func (p *Peers) heard(address string, queues map[key]work, err error) []learned {
	if err != nil {
		p.incident("peer "+address, "a peer does not answer", fmt.Errorf("%s: %w", address, err))
	} else {
		p.recovered("peer "+address, "a peer answers again")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.pods[address]
	if known == nil {
		return nil // gone meanwhile
	}
	if err != nil {
		known.err, known.refused = err.Error(), errors.Is(err, syscall.ECONNREFUSED)
		return nil
	}
	var news []learned
	for k, w := range queues {
		before, seen := known.queues[k]
		n := w.since(before.progress)
		most := uint64(roundSamples)
		if !seen {
			most = firstSamples
		}
		if n.n > most {
			n = progress{most, time.Duration(float64(n.total) / float64(n.n) * float64(most))}
		}
		if n.n > 0 {
			news = append(news, learned{k, n})
		}
	}
	known.at, known.err, known.queues = time.Now(), "", queues
	return news
}

// incident tells of something once, until it has recovered.
func (p *Peers) incident(id, what string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.warned[id] {
		p.warned[id] = true
		p.log.Warn(what, "error", strings.TrimSpace(err.Error()))
	}
}

func (p *Peers) recovered(id, what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.warned[id] {
		delete(p.warned, id)
		p.log.Info(what, "addr", strings.TrimPrefix(strings.TrimPrefix(id, "peer "), "name "))
	}
}
