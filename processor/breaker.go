package processor

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// BreakerConfig says when handlers are taken to fail as a whole: when what they call is down, say.
// The processor then stops receiving, so that the outage does not use up the attempts of every
// message, and probes until they work again.
//
// The breaker opens when Attempts deliveries in a row have failed, of at least three messages and for
// at least After, without a success. Three in a row will do if they look like an outage: timeouts, errors
// of the network, Throttled; and three Unavailable open it at once. Permanent failures, unreadable messages
// and handlers cut short by shutdown or a lost lease count neither way; nor does a message that has failed
// before while others succeeded, unless with Unavailable: it is a bad one. While it is open the
// processor waits MinPause, twice as long after each probe that fails, up to MaxPause. A probe asks the
// handler, if it is a Prober, then receives one message. A success closes the breaker; concurrency
// then grows as messages succeed: 2, 4, 8. So does a queue that has been empty for five of the longest
// pauses, with nothing left to probe with.
//
// One or two messages that alone fail with errors nobody knows, on a queue where nothing else happens, are
// not told from bad ones: they are dead-lettered at MaxDequeueCount. A handler that knows better says
// Unavailable or Throttled.
//
// Deliveries that failed in the outage are not counted against a message, up to twenty of them; those
// that failed as Unavailable, without a bound in one process. A message delivered more than MaxDequeueCount times, by
// other processes perhaps, gets up to twenty attempts more while the outage lasts, and one after it. All of
// that is remembered in memory, because nothing but a count travels with a message.
//
// So that processes started since, and several that share a handful of messages, do not dead-letter what an outage
// they have not seen has cost, they leave each other word in the queue's metadata: MetadataOutage is written when
// the breaker opens, once a minute while it is open, and when it closes; MetadataFailing when a message that several
// processes had nears its last attempt. Other entries are kept, though the service has no way to do that without a
// tiny race. To keep the case of their names takes the permission to list the account's queues: without it, nothing is written
// beside entries whose names do not begin with qwatch_. Both are read once at the start, for half a second at most: in an outage
// written down lately the breaker is open from the start, and the first message probes. And they are read before a message is
// dead-lettered for deliveries that this process has not seen: one that was there in an outage gets the attempts that it has in
// one process, within twenty more than MaxDequeueCount, whatever it failed with. If that cannot be read for now, it is given
// back, within the same bound. It takes the permission to read and write the queue's metadata; where that has been refused
// for a minute there is a warning, and what was said of memory is all.
//
// Messages that end the process are the breaker's business as well. What this process did not give
// back itself was in the hands of one that may have died of it: such messages are handled one at a
// time, and after a start or a wait the first receive asks for one message, so that a second crash
// finds few others in hand. Those that are handled, or run for ten seconds, let more in.
type BreakerConfig struct {
	// Off turns all of it off: every delivery counts.
	Off bool
	// NoRecord keeps what is learnt of outages in this process: nothing is written to the queue's metadata,
	// or read from it. Default false.
	NoRecord bool
	// Attempts is how many in a row must fail. Default 10.
	Attempts int
	// After is how long they must have been failing, so that a burst of bad messages among good
	// ones does not open it. Default 5 s; −1 off.
	After time.Duration
	// MinPause and MaxPause bound the wait before a probe. Default 1 s and 1 m.
	MinPause, MaxPause time.Duration
}

// Prober is a Handler that can tell without a message whether what it calls can be reached, by
// connecting to it, say. The context is done after ten seconds.
type Prober interface {
	Probe(ctx context.Context) error
}

const (
	tripMessages   = 3  // of as many messages must the failures be
	tripOutage     = 3  // as many in a row will do if they look like an outage
	reopenAfter    = 3  // as many failures in a row reopen it while concurrency grows
	maxExcused     = 20 // deliveries an outage may cost a message, unless it is certainly not to blame
	probeTimeout   = 10 * time.Second
	neverWorked    = math.MinInt64
	lapseAfter     = 5       // longest pauses without a failure close it if the queue is empty
	breakerMemory  = 1 << 16 // messages remembered
	breakerOutages = 64      // rows of failures remembered as outages
)

func (c BreakerConfig) withDefaults() BreakerConfig {
	if c.Attempts == 0 {
		c.Attempts = 10
	}
	if c.After == 0 {
		c.After = 5 * time.Second
	}
	if c.MinPause == 0 {
		c.MinPause = time.Second
		if c.MaxPause > 0 {
			c.MinPause = min(c.MinPause, c.MaxPause)
		}
	}
	if c.MaxPause == 0 {
		c.MaxPause = max(time.Minute, c.MinPause)
	}
	return c
}

func (c BreakerConfig) validate() error {
	var errs []error
	add := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	add(c.Attempts < 1, "the breaker's attempts %d are not at least 1", c.Attempts)
	add(c.After < 0 && c.After != Off, "the breaker's least duration %v is neither positive nor -1 for off", c.After)
	add(c.MinPause < time.Millisecond, "the breaker's shortest pause %v is under 1ms", c.MinPause)
	add(c.MaxPause < c.MinPause, "the breaker's longest pause %v is shorter than the shortest, %v", c.MaxPause, c.MinPause)
	return errors.Join(errs...)
}

type breakerState uint8

const (
	breakerClosed  breakerState = iota
	breakerOpen                 // not receiving, but for probes
	breakerGrowing              // closed again, at less than the whole concurrency
)

// breaker keeps count of failures in a row, and of what outages have cost each message. Its lock may
// be taken while Processor.mu is not held.
type breaker struct {
	cfg   BreakerConfig
	width int              // Config.Concurrency
	most  int              // Config.MaxDequeueCount
	clock func() time.Time // the service's

	// calm is set while a success changes nothing: closed, and nothing has failed since the last.
	calm atomic.Bool

	workedAt atomic.Int64 // by Processor.now; the last success of a handler, or neverWorked

	mu      sync.Mutex
	state   breakerState
	changed time.Duration // when it opened or closed
	limit   int           // on handlers, while growing

	row      uint32        // number of the present row of failures
	failures int           // in the row
	alike    int           // at the row's end, those that look like an outage
	refused  int           // at the row's end, those that are one for certain
	began    time.Duration // of the row
	messages []string      // that failed in the row: up to tripMessages

	heard      time.Time // open on others' word alone: of an outage that began then
	openings   uint32
	openedAt   time.Time     // the last time, by the service's clock: when the failures began
	closedAt   time.Time     // by the service's clock; the last time
	over       time.Duration // the same
	outages    []uint32      // rows that were outages
	pause      backoff
	probeAt    time.Duration
	lastFailed time.Duration // the last failure of a handler
	lastDown   time.Duration // or the last time it said that it cannot be reached
	probing    *delivery
	probes     int

	memory map[string]memory
}

func (b *breaker) init(cfg Config, clock func() time.Time) {
	b.cfg, b.width, b.most, b.clock = cfg.Breaker, cfg.Concurrency, cfg.MaxDequeueCount, clock
	b.pause = backoff{least: b.cfg.MinPause, most: b.cfg.MaxPause}
	b.memory = map[string]memory{}
	b.workedAt.Store(neverWorked)
	b.calm.Store(true)
}

// allowed is how many handlers may run.
func (b *breaker) allowed(now time.Duration) int {
	if b.calm.Load() {
		return b.width
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state != breakerGrowing {
		return b.width
	}
	if now-b.changed > b.cfg.MaxPause { // nothing has spoken against it
		b.grown()
		return b.width
	}
	return b.limit
}

// grown ends the growing. The caller holds mu.
func (b *breaker) grown() {
	b.state = breakerClosed
	b.pause.reset()
	b.calm.Store(b.failures == 0)
}

// next says whether the breaker is open, and how long to wait before a probe.
func (b *breaker) next(now time.Duration) (wait time.Duration, open bool) {
	if b.calm.Load() {
		return 0, false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.probeAt - now, b.state == breakerOpen
}

// opened says whether it is open, and since when.
func (b *breaker) opened() (since time.Duration, open bool) {
	if b.calm.Load() {
		return 0, false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.changed, b.state == breakerOpen
}

// outage is the last one by the service's clock, and whether it lasts. Its end is known to a pause: with an empty queue
// there is nothing to see it by.
func (b *breaker) outage(now time.Duration) (s span, open bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.openedAt.IsZero() {
		return span{}, false
	}
	open = b.state == breakerOpen
	ended := now
	if !open {
		ended = b.over
	}
	return span{b.openedAt, b.clock().Add(min(ended, b.lastDown+b.cfg.MaxPause) - now)}, open
}

// ignorant says whether no handler has told anything yet.
func (b *breaker) ignorant() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.untouched()
}

func (b *breaker) untouched() bool {
	return b.state == breakerClosed && b.row == 0 && b.openings == 0 && b.workedAt.Load() == neverWorked
}

// told opens it on others' word: of an outage from a time on that was seen so long ago. It is false where handlers have told
// more.
func (b *breaker) told(from time.Time, ago, now time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.untouched() {
		return false
	}
	b.state, b.changed, b.probing, b.probes, b.probeAt = breakerOpen, now, nil, 0, now
	b.heard, b.lastFailed, b.lastDown = from, now-ago, now-ago
	b.pause.next = min(max(b.clock().Sub(from)/4, b.cfg.MinPause), b.cfg.MaxPause) // they wait as long by now
	b.calm.Store(false)
	return true
}

// probe takes note of the message that probes. One that takes long does not keep the next from trying.
func (b *breaker) probe(d *delivery, now time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state == breakerOpen {
		b.probing, b.probeAt = d, now+b.cfg.MaxPause
		b.probes++
	}
}

// unreachable plans the next probe after one that cost no message.
func (b *breaker) unreachable(now time.Duration) (wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.probes++
	b.lastDown = now
	wait = b.pause.wait()
	b.probeAt = now + wait
	return wait
}

// lapse closes a breaker that nothing is left to probe with: the queue is empty, none of its messages
// waits on this process's account, and the last failure is long past. Where handlers fail still, the next
// messages reopen it. It is not nil when that closes the breaker.
func (b *breaker) lapse(now time.Duration) *recovery {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state != breakerOpen || b.probing != nil || now-b.lastFailed < lapseAfter*b.cfg.MaxPause {
		return nil
	}
	r := &recovery{now - b.changed, b.probes}
	b.failures, b.alike, b.refused, b.messages = 0, 0, 0, b.messages[:0]
	b.state, b.changed, b.limit = breakerGrowing, now, min(2, b.width)
	b.closedAt, b.over, b.heard = b.clock(), now, time.Time{}
	return r
}

// recovery is what there is to tell when the breaker closes.
type recovery struct {
	lasted time.Duration
	probes int
}

// succeeded counts a success. It is not nil when that closes the breaker.
func (b *breaker) succeeded(now time.Duration) *recovery {
	if b.cfg.Off {
		return nil
	}
	b.workedAt.Store(int64(now))
	if b.calm.Load() {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures, b.alike, b.refused, b.messages = 0, 0, 0, b.messages[:0]
	switch b.state {
	case breakerOpen:
		r := &recovery{now - b.changed, b.probes}
		b.state, b.changed, b.limit, b.probing = breakerGrowing, now, 2, nil
		b.closedAt, b.over, b.heard = b.clock(), now, time.Time{}
		if b.limit >= b.width {
			b.grown()
		}
		return r
	case breakerGrowing:
		if b.limit++; b.limit >= b.width {
			b.grown()
		}
	default:
		b.calm.Store(true)
	}
	return nil
}

// wait is how long to wait before the next probe.
func (b *breaker) wait(patience time.Duration) time.Duration {
	return max(b.pause.wait(), min(patience, b.cfg.MaxPause))
}

// verdictOn is what the breaker says about a failure.
type verdictOn struct {
	excused bool          // do not dead-letter the message for it
	counted bool          // it counts against the message, though nothing else speaks against that
	opened  bool          // the breaker opened with it
	pause   time.Duration // before the first probe, then
	outage  bool          // it is part of one: come back soon
}

// failed counts a transient failure, after which the handler asked for some patience.
func (b *breaker) failed(d *delivery, by blame, patience, now time.Duration) verdictOn {
	if b.cfg.Off {
		return verdictOn{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calm.Store(false)
	b.lastFailed, b.lastDown = now, now
	m := b.recall(d.msg.ID)
	defer func() { b.remember(d.msg.ID, m, now) }()
	excuse := func() bool {
		ok := by == blameNone || m.excused < maxExcused
		if ok {
			m.excused++
		}
		return ok
	}
	switch {
	case b.state == breakerOpen:
		if b.probing == d {
			b.probing, b.probeAt = nil, now+b.wait(patience)
		}
		v := verdictOn{excused: excuse(), outage: true}
		if !b.heard.IsZero() { // so it is
			v.opened, v.pause = true, b.probeAt-now
			b.openings++
			b.openedAt, b.heard = b.heard, time.Time{}
		}
		return v
	case b.state == breakerGrowing && d.started < b.changed:
		return verdictOn{excused: excuse(), outage: true} // begun in the outage that has ended
	}
	if m.suspect && by != blameNone {
		return verdictOn{}
	}
	if b.failures++; b.failures == 1 {
		b.row++
		b.began = now
	}
	if b.alike++; by == blameOpen {
		b.alike = 0
	}
	if b.refused++; by != blameNone {
		b.refused = 0
	}
	if len(b.messages) < tripMessages && !slices.Contains(b.messages, d.msg.ID) {
		b.messages = append(b.messages, d.msg.ID)
	}
	if b.trips(now) {
		b.state, b.changed, b.probing, b.probes = breakerOpen, now, nil, 0
		b.openings++
		b.openedAt = b.clock().Add(b.began - now)
		b.outages = append(b.outages[max(0, len(b.outages)-breakerOutages+1):], b.row)
		wait := b.wait(patience)
		b.probeAt = now + wait
		return verdictOn{excused: excuse(), opened: true, pause: wait, outage: true}
	}
	if by == blameNone {
		return verdictOn{excused: excuse()}
	}
	// The row may turn out to be an outage, whose other failures other processes see. A last attempt in it
	// gets another.
	if d.msg.LastAttempt() && b.suspicious(by) {
		return verdictOn{excused: excuse()}
	}
	m.failed(b.row)
	return verdictOn{counted: true}
}

// suspicious says whether a row of failures, this one by the way, looks like an outage already.
func (b *breaker) suspicious(by blame) bool {
	return by == blameOutage || len(b.messages) >= tripMessages
}

func (b *breaker) trips(now time.Duration) bool {
	switch {
	case b.refused >= tripOutage:
		return true
	case b.state == breakerGrowing:
		return b.failures >= min(reopenAfter, b.cfg.Attempts) && len(b.messages) > 1
	default:
		return (b.failures >= b.cfg.Attempts && len(b.messages) >= tripMessages || b.alike >= tripOutage) && now-b.began >= b.cfg.After
	}
}
