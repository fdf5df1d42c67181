package collector

import (
	"math"
	"slices"
	"time"
)

const (
	// maxSamples is how many samples are kept of a queue,
	maxSamples = 16
	// idleSamples of one that has been empty for as many polls, which its judge looks at,
	idleSamples = 10
	// emptySamples and of such a poison queue: large fleets are mostly made of them.
	emptySamples = 4
	// enoughPolls is how many good polls there must be before anything is said of a queue.
	enoughPolls = 3
	// enoughFailures is how many polls in a row must fail before a queue is called unreachable:
	// one that is missed changes nothing.
	enoughFailures = 3
)

// observation is what one poll tells the judge. Times are counted from the history's epoch.
type observation struct {
	at       time.Duration
	interval time.Duration // until the next one

	failed  uint8 // 1 + the reason's place in pollReasons; 0: the poll succeeded
	missing bool  // the service said that the main queue is not there
	count   int64
	peeked  bool // head is known, if only because there is nothing to see
	head    head

	poisoned uint64 // messages that the queue's poison queue gained so far
	busy     int    // handlers at work in this process
	held     int    // messages this process hides, those of busy included
}

// facts are what is set about a queue that its judge wants to know.
type facts struct {
	kind         Kind
	monitorOnly  bool
	objective    time.Duration
	handlerLimit time.Duration
	patience     patience
}

// patience is how long a visible message may go untouched until nobody is said to take messages.
// Everything else that the rules wait for is a part or a multiple of it, so that one number scales them all.
type patience time.Duration

func (p patience) whole() time.Duration { return time.Duration(p) }
func (p patience) quick() time.Duration { return time.Duration(p) / 2 }      // where nobody can be working
func (p patience) slow() time.Duration  { return time.Duration(p) * 2 }      // where somebody may be
func (p patience) most() time.Duration  { return time.Duration(p) * 6 }      // however slow it was before
func (p patience) slot() time.Duration  { return time.Duration(p) * 3 / 40 } // polls within it are one sample
func (p patience) gains() time.Duration { return time.Duration(p) * 3 / 2 }  // a poison queue is growing for so long

// history is what the polls of a queue have shown, and the verdict. It never changes: each poll makes a new one.
type history struct {
	epoch   time.Time
	samples []sample // oldest first
	polls   int      // good ones
	fails   int      // failed ones since the last good one

	head      head // of the last good peek
	headKnown bool
	headAt    time.Duration
	quiet     bool          // something is visible, or was until it expired
	quietAt   time.Duration // since when none of it was touched
	unchanged int           // good polls since then
	gap       time.Duration // the longest time between two touches lately
	debt      int64         // messages that expired and that the count may still hold

	touched   moment        // when a message was last taken or finished
	finished  moment        // when one was last finished
	delivered moment        // when one with deliveries behind it was last seen
	finishGap time.Duration // the longest time between two of those lately
	activity  float64       // the share of samples with anything in them, before empties
	empties   int           // samples without, since the last one with
	filled    moment        // since when the count has not been 0
	everEmpty bool          // the count was 0 while we watched

	poisoned uint64        // of the poison queue, as of the last poll
	gains    uint64        // messages this queue gained so far, those of the first poll not counted
	gainedAt time.Duration // when it last did

	verdict
	before   verdict // what held before the queue was out of reach
	patience time.Duration
	forecasts
}

// moment is a time that may never have come.
type moment struct {
	at   time.Duration
	come bool
}

// verdict is a status and how it came about.
type verdict struct {
	status     Status
	poison     PoisonStatus
	rule       Rule
	since      time.Duration
	candidate  Status
	candidates int
}

// newHistory returns a history that knows nothing.
func newHistory(epoch time.Time, kind Kind) *history {
	h := &history{epoch: epoch, verdict: verdict{status: StatusUnknown, rule: RuleNotPolled}}
	if kind == KindPoison {
		h.status, h.poison = 0, PoisonUnknown
	}
	return h
}

// next returns the history after one more poll.
func (h *history) next(o observation, f facts) *history {
	n := *h
	if o.failed > 0 {
		return n.missed(o, f)
	}
	n.polls++
	s, late := n.observe(o, f)
	n.fails = 0
	n.append(s, f.patience.slot())
	n.quarantine(late)
	if f.kind == KindPoison {
		n.judgePoison(o, f)
	} else {
		n.patience = n.patienceFor(o, f)
		n.settle(o.at, n.judge(o, f))
	}
	n.forecast(o.at, f)
	return &n
}

// missed takes in a failed poll.
func (h *history) missed(o observation, f facts) *history {
	if o.missing { // whatever comes under the name later is another queue
		n := newHistory(h.epoch, f.kind)
		n.gains, n.verdict = h.gains, h.verdict
		n.set(o.at, verdict{status: StatusMissing, rule: RuleNotFound})
		return n
	}
	h.fails++
	h.append(sample{from: o.at, at: o.at, polls: 1, failed: o.failed}, f.patience.slot())
	if h.rule == RuleNotPolled {
		h.rule = RuleTooFew
	}
	if h.fails < enoughFailures {
		return h
	}
	if h.status != StatusUnreachable && h.rule != RulePollsFail {
		h.before = h.verdict
	}
	if f.kind == KindPoison {
		h.set(o.at, verdict{poison: PoisonUnknown, rule: RulePollsFail})
	} else {
		h.set(o.at, verdict{status: StatusUnreachable, rule: RulePollsFail})
	}
	return h
}

// observe compares a good poll with the ones before. late is how many of the messages that earlier
// samples count as finished have turned up in the poison queue since.
func (h *history) observe(o observation, f facts) (s sample, late int64) {
	s = sample{from: o.at, at: o.at, polls: 1, count: o.count, peeked: o.peeked}
	var c change
	if o.peeked {
		if h.headKnown {
			c = o.head.since(&h.head)
		}
		s.left, s.taken, s.again, s.expired = uint16(c.left), uint16(c.taken), uint16(c.again), uint16(c.expired)
		s.visible, s.returned = uint8(len(o.head.seen)), uint8(o.head.returned())
		s.oldest, s.wait = o.head.ages()
	}
	if prev := h.lastGood(); prev != nil {
		h.debt += int64(c.expired)
		s.finished, s.gained, late = h.moved(o.count-prev.count, c, o.poisoned)
		if s.gained > 0 {
			h.gains += uint64(s.gained)
			h.gainedAt = o.at
		}
	}
	h.poisoned = o.poisoned
	h.debt = max(0, min(h.debt, o.count-int64(s.visible)))
	h.touch(o, &s, c, f)
	h.active(!s.empty() || s.moved())
	switch {
	case o.count == 0:
		h.filled, h.everEmpty = moment{}, true
	case !h.filled.come:
		h.filled = moment{o.at, true}
	}
	if o.peeked {
		if s.returned > 0 || s.taken > 0 {
			h.delivered = moment{o.at, true}
		}
		h.head, h.headKnown, h.headAt = o.head, true, o.at
	}
	return s, late
}

// moved draws from the change of the count how many messages were finished or gained.
func (h *history) moved(delta int64, c change, poisoned uint64) (finished, gained, late int64) {
	var quarantined int64
	if poisoned > h.poisoned {
		quarantined = int64(min(poisoned-h.poisoned, math.MaxInt32))
	}
	switch {
	case delta >= 0:
		return 0, delta, quarantined
	case c.expired > 0 && c.left == 0 && c.taken == 0:
		h.debt = 0 // nobody touched the head: what the count lost has expired, and more of it than was seen
		return 0, 0, quarantined
	}
	fewer := -delta
	expired := min(fewer, h.debt)
	h.debt -= expired
	fewer -= expired
	now := min(fewer, quarantined)
	return fewer - now, 0, quarantined - now
}

// quarantine takes messages that turned up in the poison queue off those that the sample before the
// last counts as finished: the two queues are not polled at the same moment.
func (h *history) quarantine(n int64) {
	if i := len(h.samples) - 2; n > 0 && i >= 0 {
		h.samples[i].finished -= min(n, h.samples[i].finished)
	}
}

// touch notes whether somebody took or finished a message, and since when nobody has.
func (h *history) touch(o observation, s *sample, c change, f facts) {
	moved := s.moved()
	known := h.fails == 0 // what happened while polls failed may have happened at any time
	if moved && h.quiet && known {
		h.gap = learn(h.gap, o.at-h.quietAt, f)
	}
	if moved {
		h.touched = moment{o.at, true}
	}
	if s.finished > 0 {
		if h.finished.come && known {
			h.finishGap = learn(h.finishGap, o.at-h.finished.at, f)
		}
		h.finished = moment{o.at, true}
	}
	if !o.peeked {
		return
	}
	switch {
	case s.visible == 0 && !(c.expired > 0 && c.left == 0 && c.taken == 0):
		h.quiet, h.unchanged = false, 0
	case moved || !h.quiet && s.visible > 0:
		h.quiet, h.quietAt, h.unchanged = true, o.at, 0
	default:
		h.unchanged++
	}
}

// learn takes in a time between two signs of progress; old ones fade. One so long that the queue was
// rightly called stalled is nothing to get used to.
func learn(longest, d time.Duration, f facts) time.Duration {
	if d > 3*f.patience.whole() {
		d = 0
	}
	return max(longest-longest/10, d)
}

// append adds a sample, or merges it with the one before when that is of the same moment.
func (h *history) append(s sample, slot time.Duration) {
	last := len(h.samples) - 1
	if last >= 0 {
		p := &h.samples[last]
		both := s.failed > 0 && p.failed > 0
		if both || (s.failed == 0) == (p.failed == 0) && s.at-p.from < slot {
			merged := *p
			merged.merge(s)
			h.samples = append(slices.Clone(h.samples[:last]), merged)
			return
		}
	}
	kept, most := h.samples, h.room()
	if len(kept) >= most {
		kept = kept[len(kept)-most+1:]
	}
	h.samples = append(append(make([]sample, 0, len(kept)+1), kept...), s)
}

// room returns how many samples are worth keeping.
func (h *history) room() int {
	switch {
	case h.empties < maxSamples:
		return maxSamples
	case h.poison == PoisonEmpty:
		return emptySamples
	case h.status == StatusIdle:
		return idleSamples
	default:
		return maxSamples
	}
}

// lastGood returns the newest sample of polls that succeeded, or nil.
func (h *history) lastGood() *sample {
	for i := len(h.samples) - 1; i >= 0; i-- {
		if h.samples[i].failed == 0 {
			return &h.samples[i]
		}
	}
	return nil
}

// unchangedFor returns how long the head has been visible without a message being taken, as of the last peek.
func (h *history) unchangedFor() time.Duration {
	if last := h.lastGood(); h.quiet && last != nil && last.visible > 0 {
		return last.at - h.quietAt
	}
	return 0
}

// evidence returns what the verdict rests on.
func (h *history) evidence() *Evidence {
	e := &Evidence{
		Rule: h.rule, Since: h.epoch.Add(h.since), Candidate: h.candidate, CandidateSamples: h.candidates,
		HeadUnchangedSeconds: h.unchangedFor().Seconds(), PatienceSeconds: h.patience.Seconds(),
		Samples: make([]Sample, len(h.samples)),
	}
	if h.touched.come {
		e.LastProgress = h.epoch.Add(h.touched.at)
	}
	for i := range h.samples {
		e.Samples[i] = h.samples[i].public(h.epoch)
	}
	return e
}
