package cluster

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"
)

const (
	// MaxShards is how many shards there may be.
	MaxShards = 256
	// ShardPath is where a replica tells which shard it is.
	ShardPath = "/api/v1/shard"
)

// ShardsConfig says which shard this replica is, of how many, and where the others are. Addr is required.
type ShardsConfig struct {
	// Index of this replica, from 0, below Count.
	Index int
	// Count is how many shards there are, 1 to MaxShards.
	Count int
	// Addr returns the base URL of a shard; "" when there is no such shard.
	Addr func(index int) string
	// Heartbeat is how often the others are asked whether they live. Default 2s.
	Heartbeat time.Duration
	// DeadAfter is how long a shard may go unheard until the others share its queues. Default 10s, at least twice
	// Heartbeat.
	DeadAfter time.Duration
	// Changed is called whenever what this replica owns may have changed. It must not call Run. Default: nobody is told.
	Changed func()
	// Peers says how the others are talked to.
	Peers PeersConfig
	// Logger gets who comes and goes. Default: nothing is logged.
	Logger *slog.Logger
}

func (c ShardsConfig) withDefaults() ShardsConfig {
	if c.Heartbeat == 0 {
		c.Heartbeat = 2 * time.Second
	}
	if c.DeadAfter == 0 {
		c.DeadAfter = 10 * time.Second
	}
	if c.Changed == nil {
		c.Changed = func() {}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c ShardsConfig) validate() error {
	var errs []error
	if c.Count < 1 || c.Count > MaxShards {
		errs = append(errs, fmt.Errorf("%d shards are not 1 to %d", c.Count, MaxShards))
	}
	if c.Index < 0 || c.Index >= c.Count {
		errs = append(errs, fmt.Errorf("there is no shard %d of %d: they are counted from 0", c.Index, c.Count))
	}
	if c.Addr == nil {
		errs = append(errs, errors.New("the addresses of the shards are not known"))
	}
	if c.Heartbeat <= 0 || c.DeadAfter < 2*c.Heartbeat {
		errs = append(errs, fmt.Errorf("%v are not two heartbeats of %v", c.DeadAfter, c.Heartbeat))
	}
	return errors.Join(errs...)
}

// Shards is the sharing of a fleet among replicas that all watch a part. Its methods are safe for concurrent use. It is
// a Router.
//
// A queue belongs to that living shard which ranks highest for its name, so that a shard that comes or goes moves only its own
// share. Every shard asks the others whether they live, at the addresses it was configured with, and
// believes nothing that it did not ask for. Who cannot hear another polls that one's queues too: a
// queue polled twice for a while costs requests, one that nobody polls costs sight.
type Shards struct {
	cfg      ShardsConfig
	log      *slog.Logger
	asker    *asker
	instance string // this process

	mu      sync.Mutex
	count   int   // of this replica's configuration
	members []int // the living, this one included; ascending
	peers   map[int]*peer
	state   shardState
	since   time.Time // the first heartbeat
	beats   int       // so far
	twins   int       // how often in a row another replica answered as this shard
}

type shardState int

const (
	joining shardState = iota // nobody was asked yet
	joined
	leaving
)

// peer is another shard.
type peer struct {
	heard time.Time // it last said that it lives; zero: never
	count int       // it believes in
	gone  bool      // it said that it leaves
	err   error     // of the last heartbeat
	told  bool      // that it is dead

	deaf     int  // answers in a row that leave this shard out of the living
	toldDeaf bool // that it does not hear this one
}

// shardView is what a shard says of itself.
type shardView struct {
	Mode     string `json:"mode"`
	Index    int    `json:"index"`
	Count    int    `json:"count"`
	Instance string `json:"instance"`
	Leaving  bool   `json:"leaving,omitempty"`
	Living   []int  `json:"living"`
}

// NewShards returns a shard, which owns nothing until Run.
func NewShards(cfg ShardsConfig) (*Shards, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("shards: %w", err)
	}
	a, err := newAsker(cfg.Peers)
	if err != nil {
		return nil, fmt.Errorf("shards: %w", err)
	}
	return &Shards{
		cfg: cfg, log: cfg.Logger.With("component", "cluster"), asker: a, instance: rand.Text(),
		count: cfg.Count, peers: map[int]*peer{},
	}, nil
}

// Close releases the connections of a shard that does not run.
func (s *Shards) Close() { s.asker.close() }

// Run asks the other shards whether they live until the context ends; from then on this shard says that it leaves,
// and owns nothing. It returns nil once they had the time to hear it. It is called once.
func (s *Shards) Run(ctx context.Context) error {
	defer s.asker.close()
	s.mu.Lock()
	s.since = time.Now()
	s.mu.Unlock()
	tick := time.NewTicker(s.cfg.Heartbeat)
	defer tick.Stop()
	for {
		s.beat(ctx)
		select {
		case <-ctx.Done():
			s.mu.Lock()
			s.state = leaving
			s.mu.Unlock()
			s.settle()
			s.linger()
			return nil
		case <-tick.C:
		}
	}
}

// linger waits until the others have heard that this shard leaves.
func (s *Shards) linger() {
	if len(s.Others()) > 0 {
		time.Sleep(s.cfg.Heartbeat + ForwardTimeout)
	}
}

// SetCount changes how many shards this replica believes in. The others learn of it with their next heartbeat. The error
// says what is wrong with it; nothing changes then.
func (s *Shards) SetCount(count int) error {
	cfg := s.cfg
	cfg.Count = count
	if err := cfg.validate(); err != nil {
		return fmt.Errorf("shards: %w", err)
	}
	s.mu.Lock()
	s.count = count
	s.mu.Unlock()
	s.settle()
	return nil
}

// beat asks every other shard once, and now and then who is at this one's address.
func (s *Shards) beat(ctx context.Context) {
	s.mu.Lock()
	n := s.believed()
	s.beats++
	own := s.beats%twinBeats == 0
	s.mu.Unlock()
	var all sync.WaitGroup
	if addr := s.cfg.Addr(s.cfg.Index); own && addr != "" {
		all.Go(func() { s.meetSelf(ctx, addr) })
	}
	for i := range min(n+1, MaxShards) { // and the one that would come next
		addr := ""
		if i != s.cfg.Index {
			addr = s.cfg.Addr(i)
		}
		if addr == "" {
			continue
		}
		all.Go(func() {
			v, err := s.meet(ctx, i, addr)
			if ctx.Err() == nil {
				s.heard(i, v, err)
			}
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		return
	}
	s.mu.Lock()
	if s.state == joining {
		s.state = joined
	}
	s.mu.Unlock()
	s.settle()
}

// meet asks one shard who it is.
func (s *Shards) meet(ctx context.Context, i int, addr string) (shardView, error) {
	var v shardView
	a, err := s.asker.ask(ctx, addr, ShardPath)
	switch {
	case err != nil:
		return v, err
	case a.Status != http.StatusOK:
		return v, fmt.Errorf("ask %s: it answers %d %s", addr, a.Status, http.StatusText(a.Status))
	}
	if err := json.Unmarshal(a.Body, &v); err != nil {
		return v, fmt.Errorf("ask %s: its answer is not a shard's", addr)
	}
	switch {
	case v.Instance == s.instance:
		return v, fmt.Errorf("ask %s: this replica answers itself: the addresses of the shards must differ", addr)
	case v.Mode != "shard" || v.Index != i:
		return v, fmt.Errorf("ask %s: a replica in mode %.10q that is shard %d answers, where shard %d should", addr, v.Mode, v.Index, i)
	case v.Count < 1 || v.Count > MaxShards:
		return v, fmt.Errorf("ask %s: it believes in %d shards", addr, v.Count)
	}
	return v, nil
}

// heard takes in the answer of a shard, or that there was none.
func (s *Shards) heard(i int, v shardView, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.peers[i]
	if p == nil {
		p = &peer{}
		s.peers[i] = p
	}
	if p.err = err; err != nil {
		return
	}
	p.heard, p.count, p.gone = time.Now(), v.Count, v.Leaving
	s.unheard(p, v)
}

// believed returns how many shards there are by the largest count that is heard of: while it is being changed, the
// living decide who is a member. The lock is held.
func (s *Shards) believed() int {
	n := s.count
	for i, p := range s.peers {
		if s.lives(i) && !p.heard.IsZero() {
			n = max(n, p.count)
		}
	}
	return n
}

// lives says whether a shard is taken for alive. In the beginning, those that should be there are. The lock is held.
func (s *Shards) lives(i int) bool {
	p, now := s.peers[i], time.Now()
	if p == nil || p.heard.IsZero() {
		return i < s.count && now.Sub(s.since) < s.cfg.DeadAfter
	}
	return !p.gone && now.Sub(p.heard) < s.cfg.DeadAfter
}

// settle finds out who lives, and tells when that has changed.
func (s *Shards) settle() {
	s.mu.Lock()
	before := s.members
	s.members = nil
	for i := range s.believed() {
		if i == s.cfg.Index && s.state == joined || i != s.cfg.Index && s.lives(i) {
			s.members = append(s.members, i)
		}
	}
	changed := !slices.Equal(before, s.members)
	lines := append(s.news(), s.deafNews()...)
	members := s.members
	s.mu.Unlock()
	for _, line := range lines {
		line(s.log)
	}
	if changed {
		s.log.Info("the fleet is shared anew", "shards", fmt.Sprint(members))
		s.cfg.Changed()
	}
}

// news is what is worth a line about shards that should be there. The lock is held.
func (s *Shards) news() []func(*slog.Logger) {
	var lines []func(*slog.Logger)
	for i := range s.believed() {
		p := s.peers[i]
		if i == s.cfg.Index || p == nil || s.lives(i) == !p.told {
			continue
		}
		p.told = !p.told
		err := p.err
		switch {
		case !p.told:
			lines = append(lines, func(l *slog.Logger) { l.Info("a shard is back", "shard", i) })
		case p.gone:
			lines = append(lines, func(l *slog.Logger) { l.Info("a shard has left: the others share its queues", "shard", i) })
		default:
			lines = append(lines, func(l *slog.Logger) {
				l.Warn("a shard is not heard of: the others share its queues", "shard", i, "error", err)
			})
		}
	}
	return lines
}

// Owns is for collector.Config.Owns.
func (s *Shards) Owns(account, queue string) bool {
	i, ok := s.shardOf(account, queue)
	return ok && i == s.cfg.Index
}

func (s *Shards) shardOf(account, queue string) (int, bool) {
	s.mu.Lock()
	members := s.members // never changed in place
	s.mu.Unlock()
	return shardOf(account, queue, members)
}

// Owner implements Router.
func (s *Shards) Owner(account, queue string) (addr string, self bool) {
	i, ok := s.shardOf(account, queue)
	switch {
	case !ok:
		return "", false
	case i == s.cfg.Index:
		return "", true
	}
	return s.cfg.Addr(i), false
}

// Forward implements Router.
func (s *Shards) Forward(ctx context.Context, account, queue, target string) (*Answer, error) {
	addr, _ := s.Owner(account, queue)
	return s.asker.about(ctx, addr, target)
}

// Others implements Router: the shards that live.
func (s *Shards) Others() []string {
	s.mu.Lock()
	members := s.members
	s.mu.Unlock()
	var all []string
	for _, i := range members {
		if i != s.cfg.Index {
			all = append(all, s.cfg.Addr(i))
		}
	}
	return all
}

// Whole implements Router: every shard watches a part.
func (s *Shards) Whole() (addr string, ok bool) { return "", false }

// Ask implements Router.
func (s *Shards) Ask(ctx context.Context, addr, target string) (*Answer, error) {
	return s.asker.about(ctx, addr, target)
}

// ShardState is what is known about one shard.
type ShardState struct {
	Index   int
	Self    bool
	Alive   bool
	Count   int   // how many shards it believes in; 0 when it was never heard of
	Deaf    bool  // it answers, and does not hear this replica
	Trouble error // why it did not answer the last time, or that it is deaf; of this replica: that its shard runs twice
}

// State returns what is known about every shard there should be, in order.
func (s *Shards) State() []ShardState {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []ShardState
	for i := range s.believed() {
		if i == s.cfg.Index {
			st := ShardState{Index: i, Self: true, Alive: s.state == joined, Count: s.count}
			if s.twins >= twins {
				st.Trouble = errTwice
			}
			all = append(all, st)
			continue
		}
		st := ShardState{Index: i, Alive: s.lives(i)}
		if p := s.peers[i]; p != nil {
			st.Count, st.Trouble = p.count, p.err
			if st.Alive && p.err == nil && p.isDeaf() {
				st.Deaf, st.Trouble = true, errDeaf
			}
		}
		all = append(all, st)
	}
	return all
}

// ServeHTTP answers at ShardPath.
func (s *Shards) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	v := shardView{Mode: "shard", Index: s.cfg.Index, Count: s.count, Instance: s.instance, Leaving: s.state == leaving, Living: s.members}
	s.mu.Unlock()
	writeJSON(w, http.StatusOK, v)
}
