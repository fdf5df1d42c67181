package scaler

import (
	"context"
	"time"
)

// learnEvery is how often the consumers here are looked at.
const learnEvery = 5 * time.Second

// Run learns from the consumers, here and in other processes, until ctx ends, and returns nil. Those here are as
// local returns them each time.
func (s *Scaler) Run(ctx context.Context, local func() []Consumer) error {
	peers := make(chan []learned)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.askPeers(ctx, peers)
	}()
	defer func() { <-done }()
	var before map[key]progress
	tick := time.NewTicker(learnEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case news := <-peers:
			s.learn(news)
		case <-tick.C:
			var news []learned
			news, before = handled(local(), before)
			s.learn(news)
		}
	}
}

// A Consumer is a consumer in this process: its queue, and how many messages it has handled in which time.
type Consumer struct {
	Account, Queue string
	Handled        func() (n uint64, total time.Duration)
}

// handled returns what is new since before, and what to compare with the next time.
func handled(local []Consumer, before map[key]progress) (news []learned, now map[key]progress) {
	now = make(map[key]progress, len(local))
	for _, c := range local {
		k := key{c.Account, c.Queue}
		n, total := c.Handled()
		p := progress{n, total}
		if d := p.since(before[k]); d.n > 0 {
			news = append(news, learned{k, d})
		}
		now[k] = p
	}
	return news, now
}

func (s *Scaler) askPeers(ctx context.Context, peers chan<- []learned) {
	p := s.cfg.Peers
	if p == nil {
		return
	}
	tick := time.NewTicker(p.cfg.Every)
	defer tick.Stop()
	defer p.client.CloseIdleConnections()
	for {
		news := p.round(ctx)
		select {
		case peers <- news:
		case <-ctx.Done():
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// What is remembered of how long messages take: of queues that may be asked about, for as long as somebody handles
// some now and then, a long weekend included. Peers may name anything.
const (
	handlingKept = 7 * 24 * time.Hour
	maxHandling  = 20_000 // queues
	pruneEvery   = time.Minute
)

// learn counts what was handled. Consumers that do not know the account count for the queue of every one.
func (s *Scaler) learn(news []learned) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.pruned) >= pruneEvery {
		s.pruned = now
		for k, h := range s.handling {
			if now.Sub(h.at) > handlingKept || !s.known(k) {
				delete(s.handling, k)
			}
		}
	}
	for _, l := range news {
		h := s.handling[l.key]
		if h == nil {
			if len(s.handling) >= maxHandling || !s.known(l.key) {
				continue
			}
			h = &handling{}
			s.handling[l.key] = h
		}
		h.add(now, l.n, l.total)
	}
}

// known says whether anybody may ask about the queue; of one without an account it cannot be told.
func (s *Scaler) known(k key) bool {
	if k.account == "" {
		return true
	}
	_, ok := s.cfg.Known(k.account, k.queue)
	return ok
}

// mean is how long a message of the queue takes; false when it was not measured.
func (s *Scaler) mean(k key) (time.Duration, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range []key{k, {"", k.queue}} {
		if h := s.handling[k]; h != nil {
			if mean, ok := h.mean(); ok {
				return mean, true
			}
		}
	}
	return 0, false
}
