package processor

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

var errTest = errors.New("broken")

// newBreaker returns a breaker of the default settings, and a clock that the test turns.
func newBreaker(width int) (*breaker, *time.Duration) {
	b, now := &breaker{}, new(time.Duration)
	began := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	b.init(Config{Concurrency: width}.WithDefaults(), func() time.Time { return began.Add(*now) })
	return b, now
}

// delivered is a delivery of a message, in its handler since a time.
func delivered(id string, count int, started time.Duration) *delivery {
	d := &delivery{p: &Processor{cfg: Config{}.WithDefaults()}, started: started, called: true, err: errTest}
	d.msg.Message = &queue.Message{ID: id, DequeueCount: count}
	d.msg.d = d
	return d
}

// open opens it by refusals of one message.
func (b *breaker) open(t *testing.T, now time.Duration) {
	t.Helper()
	for range tripOutage {
		b.failed(delivered("opener", 1, now), blameNone, 0, now)
	}
	if _, open := b.opened(); !open {
		t.Fatal("it did not open")
	}
}

func (b *breaker) excusedOf(id string, count int) int {
	d := delivered(id, count, 0)
	b.recognize(d)
	return d.excused
}

func TestWhatFailedBeforeItOpenedIsExcused(t *testing.T) {
	b, now := newBreaker(1)
	for i := range 2 { // of a row that ends: they speak against it
		b.failed(delivered("bad", i+1, 0), blameOpen, 0, *now)
	}
	b.succeeded(*now)
	for i := range 2 {
		b.failed(delivered("a", i+1, 0), blameOpen, 0, *now)
		*now += half
	}
	for i := 0; ; i++ {
		if v := b.failed(delivered(fmt.Sprint(i), 1, 0), blameOpen, 0, *now); v.opened {
			break
		}
		if i > 10 {
			t.Fatal("it did not open")
		}
	}
	if n := b.excusedOf("a", 3); n != 2 {
		t.Errorf("%d deliveries are excused, want the 2 before it opened", n)
	}
	if n := b.excusedOf("0", 2); n != 1 {
		t.Errorf("%d deliveries are excused, want 1", n)
	}
	if n := b.excusedOf("bad", 3); n != 0 {
		t.Errorf("%d deliveries of the bad one are excused", n)
	}
}

// half is a little more than half of the least duration.
const half = 3 * time.Second

func TestWhatBeganInTheOutageDoesNotReopenIt(t *testing.T) {
	b, now := newBreaker(16)
	b.open(t, *now)
	*now += time.Minute
	if b.succeeded(*now) == nil {
		t.Fatal("it did not close")
	}
	for i := range 20 {
		if v := b.failed(delivered(fmt.Sprint("old ", i), 1, *now-time.Second), blameOpen, 0, *now); v.opened || !v.excused {
			t.Fatalf("a failure begun in the outage: %+v", v)
		}
	}
	// One bad message is not an outage; two may be, so soon after one.
	for i := range 5 {
		if v := b.failed(delivered("one", i+1, *now), blameOpen, 0, *now); v.opened {
			t.Fatal("it opened by one message")
		}
	}
	if v := b.failed(delivered("two", 1, *now), blameOpen, 0, *now); !v.opened {
		t.Error("it did not open again")
	}
}

func TestThePauseGrowsUntilItIsClosedForGood(t *testing.T) {
	b, now := newBreaker(16)
	b.open(t, *now)
	// paused checks the wait before the next probe, which is spread by up to a tenth.
	paused := func(want time.Duration, when string) {
		t.Helper()
		wait, open := b.next(*now)
		if !open || wait < want || wait > want+want/10 {
			t.Errorf("%s: open %v, pause %v, want %v", when, open, wait, want)
		}
	}
	fail := func() {
		d := delivered("probe", 1, *now)
		b.probe(d, *now)
		b.failed(d, blameOpen, 0, *now)
	}
	for _, want := range []time.Duration{1, 2, 4} {
		paused(want*time.Second, "in the outage")
		fail()
	}
	b.succeeded(*now)
	b.open(t, *now)
	paused(16*time.Second, "after a single success")
	b.succeeded(*now)
	if n := b.allowed(*now); n != 2 {
		t.Errorf("%d handlers allowed after a success, want 2", n)
	}
	*now += time.Minute + time.Second
	if n := b.allowed(*now); n != 16 {
		t.Errorf("%d handlers allowed after a minute without failures, want 16", n)
	}
	if !b.calm.Load() {
		t.Error("it is not calm")
	}
	b.open(t, *now)
	paused(time.Second, "in the next outage")
}

func TestAProbeMayAskForPatience(t *testing.T) {
	b, now := newBreaker(1)
	b.open(t, *now)
	for patience, want := range map[time.Duration]time.Duration{30 * time.Second: 30 * time.Second, time.Hour: time.Minute} {
		d := delivered("probe", 1, *now)
		b.probe(d, *now)
		b.failed(d, blameOutage, patience, *now)
		if wait, _ := b.next(*now); wait != want {
			t.Errorf("asked for %v: the next probe is in %v, want %v", patience, wait, want)
		}
	}
}

func TestAProbeThatSaysNothingIsFollowedByAnother(t *testing.T) {
	b, now := newBreaker(1)
	b.open(t, *now)
	d := delivered("slow", 1, *now)
	b.probe(d, *now)
	if wait, _ := b.next(*now); wait != time.Minute {
		t.Errorf("while a probe is under way the next is in %v, want a minute", wait)
	}
	*now += time.Second
	b.done(d, *now) // it comes again, abandoned by its handler, say
	if wait, open := b.next(*now); !open || wait != time.Second {
		t.Errorf("the next probe is in %v, want the shortest pause", wait)
	}
}

func TestOneAttemptMoreForEachOutage(t *testing.T) {
	b, now := newBreaker(1)
	inserted := b.clock()
	late := func(count int) *delivery {
		d := delivered("m", count, *now)
		d.msg.InsertedAt = inserted
		return d
	}
	if b.grant(late(7), *now) {
		t.Error("granted without an outage")
	}
	for range 2 {
		*now += time.Minute
		b.open(t, *now)
		*now += time.Minute
		b.succeeded(*now)
		if d := late(7); !b.grant(d, *now) || d.counted() != 5 || !d.msg.LastAttempt() {
			t.Errorf("not granted, or not as the last: %d", d.counted())
		}
		if b.grant(late(8), *now) {
			t.Error("granted twice")
		}
	}
	// While it lasts other processes spend deliveries as well.
	b.open(t, *now)
	for i := range maxExcused {
		if d := late(9 + i); !b.grant(d, *now) {
			t.Errorf("not granted for the %d. time while the outage lasts", i+1)
		}
	}
	if b.grant(late(40), *now) {
		t.Error("granted without end")
	}
	b.succeeded(*now)
	*now += time.Minute
	d := delivered("young", 7, *now)
	d.msg.InsertedAt = b.clock()
	if b.grant(d, *now) {
		t.Error("granted to a message that was sent after the outage")
	}
}

func TestOnlyMessagesThatWillBeBackAreRemembered(t *testing.T) {
	b, now := newBreaker(1)
	d := delivered("m", 1, *now)
	b.failed(d, blameOpen, 0, *now)
	b.done(d, *now)
	again := delivered("m", 2, *now)
	if b.recognize(again); again.unaccounted {
		t.Error("a message that was given back here is unaccounted for")
	}
	skipped := delivered("m", 3, *now)
	if b.recognize(skipped); !skipped.unaccounted {
		t.Error("a delivery elsewhere went unnoticed")
	}

	const more = 1000
	for i := range breakerMemory + more {
		*now += time.Second
		b.done(delivered(fmt.Sprint(i), 1, *now), *now)
	}
	if n := len(b.memory); n > breakerMemory || n < breakerMemory/4 {
		t.Errorf("%d messages are remembered, want no more than %d", n, breakerMemory)
	}
	last := delivered(fmt.Sprint(breakerMemory+more-1), 2, *now)
	if b.recognize(last); last.unaccounted {
		t.Error("the last message is forgotten")
	}
}

func TestMessagesThatAreGoneAreForgotten(t *testing.T) {
	b, now := newBreaker(1)
	b.remember("m", memory{}, *now)
	d := delivered("m", 2, *now)
	settle(t, d)
	b.done(d, *now)
	if len(b.memory) != 0 {
		t.Error("it is still remembered")
	}
}

// settle completes the delivery's message on a service of its own.
func settle(t *testing.T, d *delivery) {
	t.Helper()
	d.msg.Message = completed(t)
	d.msg.Message.ID, d.msg.Message.DequeueCount = "m", 2
}

func TestCautionForgetsAfterAQuietMinute(t *testing.T) {
	c := caution{young: time.Hour, last: -2 * cautionQuiet}
	suspect := func(now time.Duration) *delivery {
		d := delivered("m", 3, now)
		d.unaccounted, d.since = true, now
		return d
	}
	now := time.Duration(0)
	if !c.received([]*delivery{suspect(now)}, now) {
		t.Error("the first is not told")
	}
	for range 3 * cautionTrust {
		d := suspect(now)
		if c.received([]*delivery{d}, now) {
			t.Error("told again within a minute")
		}
		c.returned(d)
	}
	now += cautionProof
	if n := c.ask(16, now); n != 4 {
		t.Errorf("asks for %d, want 4 after 25 that did no harm", n)
	}
	now += cautionQuiet + time.Second
	if n := c.ask(16, now); n != 1 {
		t.Errorf("asks for %d after a quiet minute, want 1", n)
	}
	if !c.received([]*delivery{suspect(now)}, now) {
		t.Error("the first after a quiet minute is not told")
	}
}

func TestTheHistoryIsBoundedInAll(t *testing.T) {
	var h history
	for i := range 2 * historyTotal {
		h.add(fmt.Sprint(i/2), queue.Attempt{Number: i})
		if h.total > historyTotal {
			t.Fatalf("%d attempts are kept", h.total)
		}
	}
	sum := 0
	for _, all := range h.of {
		sum += len(all)
	}
	if sum != h.total || sum < historyTotal/2 {
		t.Errorf("%d attempts are kept, %d are counted", sum, h.total)
	}
	last := fmt.Sprint(historyTotal - 1)
	h.forget(last)
	if h.list(last) != nil {
		t.Error("it is not forgotten")
	}
}

// completed returns a message that was completed.
func completed(t *testing.T) *queue.Message {
	t.Helper()
	ctx := context.Background()
	q := inProcess(t)
	if _, err := q.Send(ctx, "m", queue.SendOptions{}); err != nil {
		t.Fatal(err)
	}
	got, err := q.Receive(ctx, 1, time.Minute)
	if err != nil || len(got) != 1 {
		t.Fatalf("received %d, %v", len(got), err)
	}
	if err := got[0].Complete(ctx); err != nil {
		t.Fatal(err)
	}
	return got[0]
}

// inProcess is a queue on a service in this process.
func inProcess(t *testing.T) *queue.Queue {
	t.Helper()
	srv := queuetest.New(queuetest.Options{})
	account, err := queue.NewAccount(queue.AccountConfig{Name: "acct", ConnectionString: queue.Secret(srv.ConnectionString()), Transport: srv})
	if err != nil {
		t.Fatal(err)
	}
	q, err := account.Queue("orders", queue.Config{CreateIfMissing: true})
	if err != nil {
		t.Fatal(err)
	}
	return q
}
