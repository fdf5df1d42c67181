package processor

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/qwatch/qwatch/queue"
)

const (
	boardEvery   = time.Minute      // while an outage lasts it is written down again as often
	boardAgain   = 15 * time.Second // after a write that failed
	boardRefused = 10 * time.Minute // after one that was refused
	boardFresh   = 2 * time.Second  // what was read is believed for so long
	boardTimeout = 10 * time.Second // for reading, and for writing
	boardGrace   = 5 * time.Second  // at the end, for the last write
)

// board is the queue's metadata as the place where processes leave word of outages for those that have not seen
// them. It is written when the breaker opens, while it is open, and when it closes, and when messages that several
// processes share are about to run out of attempts; and read only where a message is about to be dead-lettered for
// deliveries that this process knows nothing of.
type board struct {
	q       *queue.Queue
	off     bool
	gap     time.Duration // an outage written down no longer ago than so may last still
	writes  incident
	reads   incident
	running sync.WaitGroup

	held   chan struct{} // by who reads or writes; guards the next three
	known  posted
	err    error
	readAt time.Time

	mu      sync.Mutex // guards what follows
	writing bool
	owed    func(posted) posted // nil: nothing
	next    time.Time           // not before
	refused bool                // and told
	closed  bool
}

// posted is what the metadata says.
type posted struct {
	read    bool // the rest was
	outage  span
	failing failing
}

func (b *board) init(p *Processor) {
	c := p.cfg.Breaker
	b.q, b.off = p.q, c.Off || c.NoRecord
	b.gap = max(2*c.MaxPause, 2*p.cfg.Retry.delay(p.cfg.MaxDequeueCount)) + boardEvery/2
	b.held = make(chan struct{}, 1)
}

// hold waits until nobody else reads or writes.
func (b *board) hold(ctx context.Context) (release func(), err error) {
	select {
	case b.held <- struct{}{}:
		return func() { <-b.held }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// look returns what the metadata says.
func (b *board) look(ctx context.Context) (posted, error) {
	release, err := b.hold(ctx)
	if err != nil {
		return posted{}, err
	}
	defer release()
	fresh := boardFresh
	if queue.Classify(b.err) == queue.ResultAuth {
		fresh = boardRefused
	}
	if b.readAt.IsZero() || time.Since(b.readAt) >= fresh {
		ctx, cancel := context.WithTimeout(ctx, boardTimeout)
		defer cancel()
		b.fetch(ctx)
	}
	return b.known, b.err
}

func (b *board) fetch(ctx context.Context) (metadata map[string]string) {
	p, err := b.q.Properties(ctx)
	b.known, b.err, b.readAt = posted{}, err, time.Now()
	if err == nil {
		b.known.read = true
		b.known.outage = parseSpan(p.Metadata[MetadataOutage], p.At)
		b.known.failing = parseFailing(p.Metadata[MetadataFailing], p.At)
	}
	return p.Metadata
}

// post has change alter what the metadata says, and leaves everything else in it as it is. There is no way to write on
// a condition: what somebody else writes between the two requests is lost, a few milliseconds in an outage.
func (b *board) post(ctx context.Context, change func(posted) posted) (posted, error) {
	release, err := b.hold(ctx)
	if err != nil {
		return posted{}, err
	}
	defer release()
	reading, cancel := context.WithTimeout(ctx, boardTimeout)
	defer cancel()
	metadata := maps.Clone(b.fetch(reading))
	if b.err != nil {
		return posted{}, b.err
	}
	if metadata == nil {
		metadata = map[string]string{}
	}
	now := change(b.known)
	changed := false
	put := func(key, text string) {
		if metadata[key] != text {
			metadata[key], changed = text, true
		}
	}
	if !now.outage.none() && now.outage != b.known.outage {
		put(MetadataOutage, now.outage.String())
	}
	switch {
	case !now.failing.none():
		put(MetadataFailing, now.failing.String())
	case !b.known.failing.none():
		delete(metadata, MetadataFailing)
		changed = true
	}
	if changed {
		writing, cancel := context.WithTimeout(ctx, boardTimeout)
		defer cancel()
		if err := b.q.SetMetadata(writing, metadata); err != nil {
			return now, err
		}
	}
	b.known = now
	return now, nil
}

// later has a change posted by and by. One that is owed already is forgotten: each tells all that is known.
func (p *Processor) later(change func(posted) posted) {
	b := &p.board
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.off || b.refused && time.Now().Before(b.next) {
		return
	}
	b.owed = change
	if !b.writing {
		b.writing = true
		b.running.Go(p.postOwed)
	}
}

// postOwed posts what is owed.
func (p *Processor) postOwed() {
	b := &p.board
	for {
		b.mu.Lock()
		change := b.owed
		b.owed, b.writing = nil, change != nil
		b.mu.Unlock()
		if change == nil {
			return
		}
		_, err := b.post(p.settling, change)
		p.wrote(err)
		if err == nil {
			continue
		}
		b.mu.Lock()
		if b.owed == nil && !b.refused {
			b.owed = change
		}
		b.writing = false
		b.mu.Unlock()
		return
	}
}

// wrote takes note of how a write went.
func (p *Processor) wrote(err error) {
	b := &p.board
	b.mu.Lock()
	defer b.mu.Unlock()
	wait := boardEvery
	switch {
	case err == nil:
		b.refused = false
		p.mended(&b.writes, "outages can be written down again")
	case queue.Classify(err) == queue.ResultAuth:
		wait = boardRefused
		if !b.refused {
			p.log.Warn("outages cannot be written to the queue's metadata; other processes do not learn of them", "error", reason(err))
		}
		b.refused, b.owed = true, nil
	default:
		wait = boardAgain
		if b.writes.failed("") {
			p.log.Warn("writing an outage to the queue's metadata failed; trying again", "error", reason(err), "delay", wait)
		}
	}
	b.next = time.Now().Add(wait)
}

// finish gives the last write a little time.
func (b *board) finish(cancel context.CancelFunc) {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	done := make(chan struct{})
	go func() { b.running.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(boardGrace):
	}
	cancel()
	<-done
}
