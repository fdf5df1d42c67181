package collector

import (
	"math"
	"time"
)

// opinion is what the samples say now. The zero status means that they do not decide, and that what
// was found before stands.
type opinion struct {
	status Status
	rule   Rule
}

const (
	trickle    = 3  // samples out of the last ten with messages in them that leave an idle queue idle
	fewest     = 3  // messages that must be there for deliveries in vain to be a stall
	minDepth   = 64 // messages that must wait for a queue to fall behind
	minGrowth  = 32 // and by how many they must have become more
	minSamples = 6  // that a trend takes
	minHiding  = 8  // that it takes to say that messages are hidden again and again
)

// judge says what the samples mean. The last sample is a good one. The order of the rules matters:
// each one takes for granted that those before it did not apply.
func (h *history) judge(o observation, f facts) opinion {
	s := h.lastGood()
	switch {
	case h.polls < enoughPolls:
		return opinion{StatusUnknown, RuleTooFew}
	case s.empty():
		return h.judgeEmpty()
	case !s.peeked:
		return h.judgeCounts(f)
	case h.status == StatusStalled && h.rule == RuleRedelivered && h.redelivered(f):
		return opinion{StatusStalled, RuleRedelivered} // much of what is redelivered is hidden too
	case h.hidesAll(o, f):
		return opinion{StatusHidden, h.hiddenBy(o, f)}
	case h.untouched(o.at):
		if f.monitorOnly {
			return opinion{StatusOK, RuleMonitorOnly}
		}
		return opinion{StatusStalled, RuleUntouched}
	case h.redelivered(f):
		return opinion{StatusStalled, RuleRedelivered}
	case h.fallsBehind(f):
		return opinion{StatusFallingBehind, RuleGrowingWait}
	case h.progresses(o.at, f):
		return opinion{StatusOK, RuleProgress}
	case s.visible == 0 && !h.status.bad():
		return opinion{StatusOK, RuleInFlight}
	case s.visible > 0 && h.status != StatusIdle && time.Duration(s.oldest)*time.Second < f.patience.quick() && h.debt == 0:
		return opinion{StatusOK, RuleNotOverdue}
	case h.status == StatusIdle && (h.busyOf(10) > trickle || s.count >= peekSize):
		return opinion{StatusOK, RuleNotOverdue}
	default:
		return opinion{}
	}
}

// judgeEmpty is for a queue that holds nothing now. One that keeps up with its messages is found empty
// now and then, and several times in a row: it is idle only when it was for longer than chance explains.
func (h *history) judgeEmpty() opinion {
	switch {
	case h.status == StatusIdle && h.busyOf(10) <= trickle, h.status != StatusIdle && h.empties >= h.chance():
		return opinion{StatusIdle, RuleEmpty}
	default:
		return opinion{StatusOK, RuleKeepsUp}
	}
}

// chance returns how many times in a row the queue may be found empty, by chance once in a thousand,
// given how often it was before.
func (h *history) chance() int {
	const fewest, most = 10, 32
	if h.activity == 0 {
		return enoughPolls
	}
	n := math.Log(0.001) / math.Log(max(1-h.activity, math.SmallestNonzeroFloat64))
	return int(min(max(n, fewest), most))
}

// active takes in whether the queue held anything, or anything moved. The share of good samples in
// which it did fades over sixteen of them; it stays what it was while the queue is found empty.
func (h *history) active(is bool) {
	const fade = 1.0 / 16
	if !is {
		h.empties++
		return
	}
	for range min(h.empties, 256) {
		h.activity -= fade * h.activity
	}
	h.activity += fade * (1 - h.activity)
	h.empties = 0
}

// judgeCounts is for a queue at which nobody may peek.
func (h *history) judgeCounts(f facts) opinion {
	s := h.lastGood()
	since := h.filled.at
	if h.finished.come {
		since = max(since, h.finished.at)
	}
	still := s.at - since
	switch {
	case still >= 3*f.patience.whole():
		if f.monitorOnly {
			return opinion{StatusOK, RuleMonitorOnly}
		}
		return opinion{StatusStalled, RuleCountNeverFalls}
	case h.fallsBehind(f):
		return opinion{StatusFallingBehind, RuleGrowingWait}
	case h.finished.come && s.at-h.finished.at < f.patience.whole():
		return opinion{StatusOK, RuleProgress}
	case h.everEmpty && still < f.patience.quick():
		return opinion{StatusOK, RuleNotOverdue}
	default:
		return opinion{}
	}
}

// hidesAll says whether messages have been there for minutes and (nearly) none was visible. Handlers at
// work hide messages too: where none was seen to come back, it takes longer to tell.
func (h *history) hidesAll(o observation, f facts) bool {
	s := h.lastGood()
	if o.busy > 0 && int64(o.busy) >= s.count || s.count <= h.debt {
		return false // they are being worked on here, or have expired
	}
	wait, delays := f.patience.quick(), h.hiddenBy(o, f) == RuleDelays
	if delays {
		wait = f.patience.whole() * 3 / 2
	}
	wait = max(wait, min(h.finishGap*5/2, f.patience.most()))
	seen, hiding, first := 0, 0, s.at
	h.recent(func(p *sample) bool {
		if p.count == 0 {
			return false
		}
		if seen++; p.hiding() {
			hiding++
		}
		first = p.from
		return h.status == StatusHidden || seen < minHiding || s.at-first < wait
	})
	if seen == maxSamples {
		wait = min(wait, s.at-first) // nothing older is known
	}
	if seen < minHiding || s.at-first < wait || h.net(first) > 0 || delays && h.movedSince(first) {
		return false
	}
	if h.status == StatusHidden {
		return hiding*10 >= seen*7
	}
	return hiding*5 >= seen*4
}

// hiddenBy tells retries from delays: messages that came back lately were delivered before, and so were
// those that this process holds.
func (h *history) hiddenBy(o observation, f facts) Rule {
	if o.held > o.busy || h.delivered.come && o.at-h.delivered.at < f.patience.most() {
		return RuleRetries
	}
	return RuleDelays
}

// untouched says whether messages have been visible for longer than patience allows, and none was taken.
func (h *history) untouched(now time.Duration) bool {
	return h.quiet && h.lastGood().visible > 0 && h.unchanged >= enoughPolls && now-h.quietAt >= h.patience
}

// redelivered says whether messages that came back are taken again and again, and none is finished. That they
// came back once is no sign of it: so do those that a rollout releases.
func (h *history) redelivered(f facts) bool {
	s := h.lastGood()
	if s.count < fewest {
		return false
	}
	first, n, again, visible, returned, hiding := s.at, 0, 0, 0, 0, 0
	h.recent(func(p *sample) bool {
		n++
		first = p.from
		if p.again > 0 {
			again++
		}
		if p.hiding() {
			hiding++
		}
		visible += int(p.visible)
		returned += int(p.returned)
		span := s.at - first
		return n < minSamples || span < f.patience.quick() || again < 2 && span < f.patience.whole()
	})
	if n < minSamples || s.at-first < f.patience.quick() || h.net(first) > 0 {
		return false
	}
	return again >= 2 && returned*2 >= visible && (hiding*5 < n*4 || h.status == StatusStalled)
}

// progresses says whether somebody took or finished a message lately. One sign of it does not undo a stall.
func (h *history) progresses(now time.Duration, f facts) bool {
	need, taken := 1, true
	if h.status == StatusStalled || h.status == StatusHidden {
		need, taken = 2, h.rule == RuleUntouched // that messages are taken was known of the others
	}
	wait := max(h.patience, f.patience.whole())
	signs := 0
	h.back(func(p *sample) bool {
		if now-p.at >= wait {
			return false
		}
		if p.finished > 0 || taken && p.moved() {
			signs++
		}
		return signs < need
	})
	return signs >= need
}

// busyOf counts, of the newest good samples, those with anything in them.
func (h *history) busyOf(most int) (busy int) {
	n := 0
	h.back(func(p *sample) bool {
		if !p.empty() || p.moved() {
			busy++
		}
		n++
		return n < most
	})
	return busy
}

// net returns how many messages were finished since then, less those that came to lie in the poison queue.
func (h *history) net(since time.Duration) (n int64) {
	h.back(func(p *sample) bool {
		if p.from <= since {
			return false // what it counts happened before it
		}
		n += p.finished
		return true
	})
	return n
}

// movedSince says whether a message was taken or finished since then.
func (h *history) movedSince(since time.Duration) (moved bool) {
	h.back(func(p *sample) bool {
		if p.from <= since {
			return false
		}
		moved = p.moved()
		return !moved
	})
	return moved
}

// back calls do with the good samples, the newest first, until it returns false.
func (h *history) back(do func(*sample) bool) {
	for i := len(h.samples) - 1; i >= 0; i-- {
		if s := &h.samples[i]; s.failed == 0 && !do(s) {
			return
		}
	}
}

// recent is back, as far as the last time the queue was out of reach.
func (h *history) recent(do func(*sample) bool) {
	for i := len(h.samples) - 1; i >= 0; i-- {
		s := &h.samples[i]
		if s.failed > 0 && s.polls >= enoughFailures || s.failed == 0 && !do(s) {
			return
		}
	}
}

// patienceFor returns how long messages may be visible untouched.
func (h *history) patienceFor(o observation, f facts) time.Duration {
	s, base := h.lastGood(), f.patience.whole()
	hidden := s.count - int64(s.visible) - h.debt
	switch {
	case !s.peeked:
	case o.busy > 0, int(s.visible) < peekSize && hidden > 0: // somebody may be working on one
		base = max(f.patience.slow(), f.handlerLimit)
	case int(s.visible) < peekSize: // every message is visible: nobody is
		base = f.patience.quick()
	}
	return max(base, min(h.gap*5/2, f.patience.most()), enoughPolls*o.interval)
}

// settle takes in an opinion: one that differs from the status must hold for a while to change it.
func (h *history) settle(at time.Duration, op opinion) {
	switch {
	case op.status == 0:
		if h.status == StatusUnreachable || h.status == StatusMissing {
			h.set(at, verdict{status: StatusUnknown, rule: RuleUndecided})
			if h.before.status != 0 {
				h.set(at, h.before)
			}
		}
		if h.status == StatusUnknown {
			h.rule = RuleUndecided
		}
	case op.status == h.status:
		h.rule, h.candidate, h.candidates = op.rule, 0, 0
	default:
		if h.candidate != op.status {
			h.candidate, h.candidates = op.status, 0
		}
		h.candidates++
		if h.candidates >= h.needed(op.status) {
			h.set(at, verdict{status: op.status, rule: op.rule})
		}
	}
}

// needed returns how many opinions in a row it takes to change the status. Rules that look at
// minutes need no more than one.
func (h *history) needed(to Status) int {
	switch {
	case h.status == StatusUnknown, h.status == StatusUnreachable, h.status == StatusMissing:
		return 1
	case h.status.bad() && (to == StatusOK || to == StatusIdle || to.bad()):
		return 3
	case h.status == StatusIdle && to == StatusOK && h.lastGood().count < peekSize:
		return trickle + 1
	case to == StatusFallingBehind:
		return 2
	default:
		return 1
	}
}

// set changes the verdict.
func (h *history) set(at time.Duration, v verdict) {
	if h.status == v.status && h.poison == v.poison {
		v.since = h.since
	} else {
		v.since = at
	}
	h.verdict = v
}

// judgePoison judges a poison queue. Growing is what it gained, not what it holds: somebody may
// take messages out of it all the while.
func (h *history) judgePoison(o observation, f facts) {
	was, s := h.poison, h.lastGood()
	growing := h.gains > 0 && o.at-h.gainedAt < f.patience.gains()
	switch {
	case s.count == 0 && !(was == PoisonGrowing && growing && h.emptyRun() < 2):
		h.set(o.at, verdict{poison: PoisonEmpty, rule: RuleEmpty})
	case growing:
		h.set(o.at, verdict{poison: PoisonGrowing, rule: RuleGained})
	default:
		h.set(o.at, verdict{poison: PoisonHolding, rule: RuleHolding})
	}
}

// emptyRun counts the newest good polls that found nothing.
func (h *history) emptyRun() (n int) {
	h.back(func(p *sample) bool {
		if p.count > 0 {
			return false
		}
		n += int(p.polls)
		return true
	})
	return n
}
