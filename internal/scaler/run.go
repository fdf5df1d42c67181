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
	before := map[key]progress{}
	tick := time.NewTicker(learnEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case news := <-peers:
			s.learn(news)
		case <-tick.C:
			s.learn(handled(local(), before))
		}
	}
}

// A Consumer is a consumer in this process: its queue, and how many messages it has handled in which time.
type Consumer struct {
	Account, Queue string
	Handled        func() (n uint64, total time.Duration)
}

func handled(local []Consumer, before map[key]progress) []learned {
	var news []learned
	for _, c := range local {
		k := key{c.Account, c.Queue}
		n, total := c.Handled()
		p := progress{n, total}
		if d := p.since(before[k]); d.n > 0 {
			news = append(news, learned{k, d})
		}
		before[k] = p
	}
	return news
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

// learn counts what was handled. Consumers that do not know the account count for the queue of every one.
func (s *Scaler) learn(news []learned) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range news {
		h := s.handling[l.key]
		if h == nil {
			h = &handling{}
			s.handling[l.key] = h
		}
		h.add(now, l.n, l.total)
	}
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
