package processor

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/qwatch/qwatch/queue"
)

const (
	boardEvery   = time.Minute      // while an outage lasts it is written down again as often
	boardAgain   = 15 * time.Second // after a write that failed
	boardDoubt   = time.Minute      // what has been refused for so long is forbidden; before, that may pass
	boardAsk     = 20 * time.Second // meanwhile it is tried as often
	boardRefused = 10 * time.Minute // and then
	boardFresh   = 2 * time.Second  // what was read is believed for so long
	boardTimeout = 10 * time.Second // for reading
	boardWrite   = 3 * time.Second  // for writing, so that what is written was read just before
	boardFar     = 10 * time.Minute // the longest gap
	boardStart   = time.Second / 2  // how long the first receive waits for what the metadata says
	boardGrace   = 5 * time.Second  // at the end, for the last write
)

// board is the queue's metadata as the place where processes leave word of outages for those that have not seen
// them. It is written when the breaker opens, while it is open, and when it closes, and when messages that several
// processes share are about to run out of attempts; and read at the start, and where a message is about to be dead-lettered for
// deliveries that this process knows nothing of.
type board struct {
	q       *queue.Queue
	off     bool
	gap     time.Duration // an outage written down no longer ago than so may last still
	writes  incident
	reads   incident
	running sync.WaitGroup

	held   chan struct{} // by who reads or writes; guards the next four
	known  posted
	err    error
	readAt time.Time
	barred denial // from reading

	mu      sync.Mutex // guards what follows
	writing bool
	owed    owed
	next    time.Time // not before
	banned  denial    // from writing
	refused bool      // for good, and told
	closed  bool
}

// posted is what the metadata says.
type posted struct {
	read    bool // the rest was
	denied  bool // it may not be read
	outage  span
	failing failing
}

func (b *board) init(p *Processor) {
	c := p.cfg.Breaker
	b.q, b.off = p.q, c.Off || c.NoRecord
	b.gap = min(max(2*c.MaxPause, 2*p.cfg.Retry.delay(p.cfg.MaxDequeueCount))+boardEvery/2, boardFar)
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
	if !b.fresh() {
		ctx, cancel := context.WithTimeout(ctx, boardTimeout)
		defer cancel()
		b.fetch(ctx)
	}
	return b.known, b.err
}

// fresh says whether what was read, or why it could not be, is believed still. The caller has hold.
func (b *board) fresh() bool {
	most := boardFresh
	switch {
	case b.known.denied:
		most = boardRefused
	case queue.Classify(b.err) == queue.ResultAuth:
		most = boardAsk
	}
	return !b.readAt.IsZero() && time.Since(b.readAt) < most
}

func (b *board) fetch(ctx context.Context) (metadata map[string]string) {
	p, err := b.q.Properties(ctx)
	b.barred.note(err)
	b.known, b.err, b.readAt = posted{denied: b.barred.lasting()}, err, time.Now()
	if err == nil {
		b.known.read = true
		b.known.outage = parseSpan(p.Metadata[MetadataOutage], p.At)
		b.known.failing = parseFailing(p.Metadata[MetadataFailing], p.At)
	}
	return p.Metadata
}

// post has change alter what the metadata says, and leaves everything else in it as it is. There is no way to write on
// a condition: what somebody else writes between the two requests is lost, a few milliseconds in an outage. So there
// is one try, and a further one reads again.
func (b *board) post(ctx context.Context, change func(posted) posted) (posted, error) {
	release, err := b.hold(ctx)
	if err != nil {
		return posted{}, err
	}
	defer release()
	if b.err != nil && b.fresh() {
		return posted{}, b.err // it is not there for each of many
	}
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
		if metadata, err = b.named(reading, metadata); err != nil {
			return now, err
		}
		writing, cancel := context.WithTimeout(ctx, boardWrite)
		defer cancel()
		if err := b.q.SetMetadata(writing, metadata); err != nil {
			return now, err
		}
	}
	b.known = now
	return now, nil
}

// named gives others' entries the names that they were written with, which cannot be told from what was read. Those of this
// module's own are in lower case, and need none. Where the names cannot be had nothing must be written.
func (b *board) named(ctx context.Context, metadata map[string]string) (map[string]string, error) {
	foreign := false
	for name := range metadata {
		foreign = foreign || !strings.HasPrefix(name, "qwatch_")
	}
	if !foreign {
		return metadata, nil
	}
	all, err := b.q.NamedMetadata(ctx)
	if err != nil {
		return nil, fmt.Errorf("others' entries would lose the case of their names: %w", err)
	}
	for name := range all {
		if l := strings.ToLower(name); l == MetadataOutage || l == MetadataFailing {
			delete(all, name)
		}
	}
	for _, name := range []string{MetadataOutage, MetadataFailing} {
		if text, ok := metadata[name]; ok {
			all[name] = text
		}
	}
	return all, nil
}

// owed is what is to be posted. Each tells all that is known of its kind, so that the last is enough.
type owed struct{ outage, failing func(posted) posted } // nil: nothing

func (o owed) none() bool { return o.outage == nil && o.failing == nil }

// over is what is owed if some was owed before.
func (o owed) over(before owed) owed {
	if o.outage == nil {
		o.outage = before.outage
	}
	if o.failing == nil {
		o.failing = before.failing
	}
	return o
}

func (o owed) change(known posted) posted {
	if o.outage != nil {
		known = o.outage(known)
	}
	if o.failing != nil {
		known = o.failing(known)
	}
	return known
}

// later has something posted by and by.
func (p *Processor) later(o owed) {
	b := &p.board
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.off || b.refused && time.Now().Before(b.next) {
		return
	}
	b.owed = o.over(b.owed)
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
		o := b.owed
		b.owed, b.writing = owed{}, !o.none()
		b.mu.Unlock()
		if o.none() {
			return
		}
		_, err := b.post(p.settling, o.change)
		p.wrote(err)
		if err == nil {
			continue
		}
		b.mu.Lock()
		if !b.refused {
			b.owed = b.owed.over(o)
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
	b.banned.note(err)
	switch {
	case err == nil:
		b.refused = false
		p.mended(&b.writes, "outages can be written down again")
	case b.refused || b.banned.lasting():
		wait = boardRefused
		if !b.refused {
			p.log.Warn("outages cannot be written to the queue's metadata; other processes do not learn of them", "error", reason(err))
		}
		b.refused, b.owed = true, owed{}
	default:
		if wait = boardAgain; queue.Classify(err) == queue.ResultAuth {
			wait = boardAsk
		}
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

// denial is a row of refusals. They may pass, as those do of a key that is being changed, or a role that was just given.
type denial struct {
	since, last time.Time
	times       int
}

// note takes note of how it went.
func (d *denial) note(err error) {
	switch {
	case err == nil:
		*d = denial{}
	case queue.Classify(err) == queue.ResultAuth:
		d.last = time.Now()
		if d.times++; d.times == 1 {
			d.since = d.last
		}
	}
}

// lasting says whether it is forbidden, as far as one can tell.
func (d *denial) lasting() bool { return d.times > 2 && d.last.Sub(d.since) >= boardDoubt }
