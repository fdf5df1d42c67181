package processor

import (
	"context"
	"errors"
	"slices"
	"time"
)

// postOutage has the outage of this process's breaker posted, when it has begun or ended.
func (p *Processor) postOutage() {
	s, open := p.breaker.outage(p.now())
	if s.none() {
		return
	}
	p.later(owed{outage: func(known posted) posted {
		s := s.with(known.outage, p.board.gap)
		if open && !s.from.Before(known.outage.from) && s.until.Sub(known.outage.until) < boardEvery/2 {
			return known // another process has just posted it
		}
		known.outage = s
		if !open { // it has said what it had to say
			known.failing = failing{}
		}
		return known
	}})
}

// keepPosting is called on each turn of the receive loop: an outage that lasts is posted from time to time.
func (p *Processor) keepPosting() {
	b := &p.board
	if b.off {
		return
	}
	_, open := p.breaker.opened()
	b.mu.Lock()
	due, left := !b.writing && !time.Now().Before(b.next), b.owed
	b.mu.Unlock()
	switch {
	case !due:
	case open:
		p.postOutage()
	case !left.none():
		p.later(left)
	}
}

// mercy is what becomes of a message that was delivered too often, and not by this process alone.
type mercy uint8

const (
	mercyNone    mercy = iota
	mercyAnother       // it gets another attempt: it was there in an outage
	mercyUnknown       // give it back: whether it was cannot be found out for now
)

// errUnknownPast is why such a message is given back.
var errUnknownPast = errors.New("delivered too often, and whether an outage took its attempts cannot be found out for now")

// mercyOn looks for an outage that may have taken a message's attempts in other processes: before the handler is called,
// or after it has failed on what would be the last attempt.
func (p *Processor) mercyOn(d *delivery, failed bool) mercy {
	b := &p.board
	if b.off || !p.breaker.partly(d) {
		return mercyNone
	}
	most := p.cfg.MaxDequeueCount + maxExcused
	if failed {
		most--
	}
	if d.msg.DequeueCount-d.msg.Absences() > most {
		return mercyNone
	}
	known, err := p.look(failed)
	switch {
	case err == nil:
		p.mended(&b.reads, "past outages can be looked up again")
	case known.denied:
		if b.reads.failed("auth") {
			p.log.Warn("outages that other processes saw cannot be looked up; messages delivered too often are dead-lettered", "error", reason(err))
		}
		return mercyNone
	default:
		if b.reads.failed("") {
			p.log.Warn("past outages cannot be looked up for now; messages delivered too often are given back", "error", reason(err))
		}
		return mercyUnknown
	}
	now := p.q.Account().Now()
	lasting := p.believes(known.failing, now) && known.failing.suspicious()
	// Its end is known to a pause. What came later did not see it: where it lasts this process will see that.
	if s := known.outage; !s.none() && receivable(d.msg.Message).Before(s.until.Add(min(p.cfg.Breaker.MaxPause, b.gap))) {
		lasting = lasting || now.Sub(s.until) <= b.gap
	} else if !lasting {
		return mercyNone
	}
	if !p.breaker.forgive(d, failed, lasting, p.now()) {
		return mercyNone
	}
	return mercyAnother
}

// look returns what the metadata says. Where the present failures are the last of a message it adds them first.
func (p *Processor) look(failed bool) (posted, error) {
	if mine := p.row(); failed && !mine.none() && !p.board.isRefused() {
		known, err := p.board.post(p.settling, p.joining(mine))
		p.wrote(err)
		if known.read {
			return known, nil
		}
	}
	return p.board.look(p.settling)
}

// learn asks before the first receive whether an outage lasts. Then the breaker is open from the start, and the first
// message is a probe. A storage that is slow does not keep the first receive waiting.
func (p *Processor) learn(ctx context.Context) {
	b := &p.board
	if b.off || !p.breaker.ignorant() {
		return
	}
	done := make(chan struct{})
	b.running.Go(func() {
		defer close(done)
		known, err := b.look(ctx)
		if err != nil || known.outage.none() {
			return
		}
		ago := max(0, p.q.Account().Now().Sub(known.outage.until))
		if ago <= b.gap && p.breaker.told(known.outage.from, ago, p.now()) {
			p.log.Info("an outage that other processes saw may last still; probing")
		}
	})
	wait := time.NewTimer(boardStart)
	defer wait.Stop()
	select {
	case <-done:
	case <-wait.C:
	case <-ctx.Done():
	}
}

func (b *board) isRefused() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.refused
}

// postFailing posts the present row of failures once a message that other processes had as well comes near its last
// attempt, so that who has it last knows.
func (p *Processor) postFailing(d *delivery) {
	b := &p.board
	if b.off || d.counted() < p.cfg.MaxDequeueCount-1 || p.cfg.MaxDequeueCount == Off || !p.breaker.partly(d) {
		return
	}
	if mine := p.row(); !mine.none() {
		p.later(owed{failing: p.joining(mine)})
	}
}

// joining adds a row of failures to what is posted.
func (p *Processor) joining(mine failing) func(posted) posted {
	return func(known posted) posted {
		if p.believes(known.failing, mine.until) {
			mine = mine.with(known.failing, p.board.gap)
			if slices.Equal(mine.marks, known.failing.marks) && mine.until.Sub(known.failing.until) < boardAgain {
				return known
			}
		}
		known.failing = mine
		return known
	}
}

// row is this process's present row of failures, if no handler has succeeded for a while.
func (p *Processor) row() failing {
	b := &p.breaker
	now, clock := p.now(), p.q.Account().Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	if at := b.workedAt.Load(); b.failures == 0 || at != neverWorked && now-time.Duration(at) < max(0, b.cfg.After) {
		return failing{}
	}
	f := failing{span: span{clock.Add(b.began - now), clock}}
	for _, id := range b.messages {
		f.mark(markOf(id))
	}
	if b.alike > 0 {
		f.mark(markOutage)
	}
	return f
}

// believes says whether a row of failures may go on as far as this process knows: it is not long past, and no handler
// has succeeded here since it began.
func (p *Processor) believes(f failing, now time.Time) bool {
	if f.none() || now.Sub(f.until) > p.board.gap {
		return false
	}
	at := p.breaker.workedAt.Load()
	return at == neverWorked || now.Add(time.Duration(at)-p.now()).Before(f.from)
}
