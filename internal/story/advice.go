package story

import (
	"fmt"
	"strings"
	"time"
)

// Verdict is what an advice comes to.
type Verdict string

// The verdicts.
const (
	VerdictKeep   Verdict = "keep"
	VerdictRaise  Verdict = "raise"
	VerdictLower  Verdict = "lower"
	VerdictTooFew Verdict = "too_few" // samples, to say anything
)

// Advice says which settings fit a queue, from what this process measured.
type Advice struct {
	Account string    `json:"account"`
	Queue   string    `json:"queue"`
	Since   time.Time `json:"since"` // when measuring began

	Handled         int64   `json:"handled"` // calls of the handler, failed ones too; old ones fade
	P50Seconds      float64 `json:"p50Seconds,omitempty"`
	P95Seconds      float64 `json:"p95Seconds,omitempty"`
	P99Seconds      float64 `json:"p99Seconds,omitempty"`
	LongestSeconds  float64 `json:"longestSeconds,omitempty"`
	SucceededAt     []int64 `json:"succeededAt,omitempty"` // messages by the attempt at which they succeeded, from the first
	RecoveredAfterS float64 `json:"recoveredAfterSeconds,omitempty"`

	Settings []Recommendation `json:"settings"`
}

// A Recommendation is the advice about one setting.
type Recommendation struct {
	Setting string  `json:"setting"` // as the file spells it
	Now     string  `json:"now"`
	Advised string  `json:"advised,omitempty"` // absent: too little was seen
	Verdict Verdict `json:"verdict"`
	Why     string  `json:"why"`
	Samples int64   `json:"samples"`
	Needed  int64   `json:"needed"`
}

// Samples that it takes to give advice.
const (
	neededHandled    = 200
	neededRecoveries = 30
	neededRetried    = 20
	neededDone       = 100
)

// Tune returns the advice for a queue; not ok when this process has no consumer of it.
func (r *Recorder) Tune(name Name) (*Advice, bool) {
	m := r.measures.get(name)
	settings, ok := r.cfg.Settings(name.Account, name.Queue)
	if m == nil || !ok {
		return nil, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	a := &Advice{
		Account: name.Account, Queue: name.Queue, Since: m.since.UTC(), Handled: m.took.n,
		P50Seconds: m.took.quantile(0.5).Seconds(), P95Seconds: m.took.quantile(0.95).Seconds(),
		P99Seconds: m.took.quantile(0.99).Seconds(), LongestSeconds: m.took.longest.Seconds(),
		RecoveredAfterS: m.wait.quantile(0.5).Seconds(),
	}
	last := 0
	for i, n := range m.done {
		if n > 0 {
			last = i
		}
	}
	for i := 1; i <= last; i++ {
		a.SucceededAt = append(a.SucceededAt, m.done[i])
	}
	a.Settings = []Recommendation{m.visibility(settings), m.retry(settings), m.dequeues(settings)}
	return a, true
}

// visibility advises on the lease.
func (m *measure) visibility(s Settings) Recommendation {
	rec := Recommendation{Setting: "visibilityTimeout", Now: setting(s.VisibilityTimeout), Samples: m.took.n, Needed: neededHandled}
	if m.took.n < neededHandled {
		return rec.tooFew("handler calls")
	}
	p99 := m.took.quantile(0.99)
	var want time.Duration
	if s.Renew {
		want = nice(max(2*p99, 30*time.Second))
		rec.Why = fmt.Sprintf("99 of 100 handlers end within %s; a lease of twice that lets them end before it has to be renewed at half time, and a message whose process dies is delivered again after %s",
			Duration(p99), Duration(want))
	} else {
		want = nice(max(m.took.longest, s.HandlerTimeout) * 5 / 4)
		rec.Why = fmt.Sprintf("leases are not renewed, so that one must outlast every handler: the longest took %s, and the limit is %s", Duration(m.took.longest), Duration(s.HandlerTimeout))
	}
	return rec.decide(want, s.VisibilityTimeout, s.VisibilityTimeout < want && (!s.Renew || s.VisibilityTimeout < 2*p99), s.VisibilityTimeout > 4*want)
}

// retry advises on the first retry delay.
func (m *measure) retry(s Settings) Recommendation {
	rec := Recommendation{Setting: "retry.initial", Now: setting(s.RetryInitial), Samples: m.wait.n, Needed: neededRecoveries}
	if m.wait.n < neededRecoveries {
		return rec.tooFew("messages that failed here and succeeded later")
	}
	var retried, second int64
	for i := 2; i <= attemptsKept; i++ {
		retried += m.done[i]
	}
	second = m.done[2]
	median := m.wait.quantile(0.5)
	switch share := float64(second) / float64(max(retried, 1)); {
	case share < 0.5:
		want := nice(max(median, 2*s.RetryInitial))
		rec.Why = fmt.Sprintf("only %s of the messages that recover do so at the second attempt; half of them take %s from the first failure: what makes them fail outlasts the delay, and attempts are spent in vain",
			percent(second, retried), Duration(median))
		return rec.decide(want, s.RetryInitial, want > s.RetryInitial, false)
	case share >= 0.95 && s.RetryInitial > 10*time.Second:
		want := nice(s.RetryInitial / 2)
		rec.Why = fmt.Sprintf("%s of the messages that recover do so at the second attempt, so that the delay may be longer than it need be; that they would recover sooner cannot be seen, hence half", percent(second, retried))
		return rec.decide(want, s.RetryInitial, false, true)
	default:
		rec.Why = fmt.Sprintf("%s of the messages that recover do so at the second attempt, half of them within %s of the first failure", percent(second, retried), Duration(median))
		return rec.decide(s.RetryInitial, s.RetryInitial, false, false)
	}
}

// dequeues advises on the maximum dequeue count.
func (m *measure) dequeues(s Settings) Recommendation {
	now := "no limit"
	if s.MaxDequeueCount > 0 {
		now = fmt.Sprint(s.MaxDequeueCount)
	}
	rec := Recommendation{Setting: "maxDequeueCount", Now: now, Needed: neededRetried}
	var done, tail int64
	for _, n := range m.done {
		done += n
	}
	for i := 2; i <= attemptsKept; i++ {
		rec.Samples += m.tries[i]
	}
	if done < neededDone {
		rec.Samples, rec.Needed = done, neededDone
		return rec.tooFew("messages handled with success")
	}
	if rec.Samples < neededRetried {
		return rec.tooFew("second and later attempts")
	}
	enough := attemptsKept // the attempt by which 999 of 1,000 that succeed have done so
	for i := attemptsKept; i >= 1 && float64(tail+m.done[i])*1000 <= float64(done); i-- {
		tail += m.done[i]
		enough = i - 1
	}
	enough = max(enough, 1)
	limit := s.MaxDequeueCount
	if limit > 0 && limit <= attemptsKept && m.tries[limit] >= neededRetried && m.done[limit]*5 >= m.tries[limit] {
		rec.Why = fmt.Sprintf("%s of the messages that come to the last attempt succeed in it (%s of %s): with more attempts fewer would be dead-lettered that can be handled",
			percent(m.done[limit], m.tries[limit]), Digits(m.done[limit]), Digits(m.tries[limit]))
		return rec.number(limit+max(2, limit/2), VerdictRaise)
	}
	want := max(3, enough+2)
	var beyond, vain int64
	for i := enough + 1; i <= attemptsKept; i++ {
		beyond += m.tries[i]
		vain += m.tries[i] - m.done[i]
	}
	rec.Why = fmt.Sprintf("999 of 1,000 messages that succeed do so by attempt %d", enough)
	if beyond > 0 {
		rec.Why += fmt.Sprintf("; of %s %s were in vain", Count(beyond, "later attempt"), Digits(vain))
	}
	switch {
	case limit == 0 || limit > 2*want:
		rec.Why += fmt.Sprintf("; two to spare make %d, and what cannot be handled is set aside sooner", want)
		return rec.number(want, VerdictLower)
	case limit <= enough:
		rec.Why += fmt.Sprintf("; two to spare make %d", want)
		return rec.number(want, VerdictRaise)
	default:
		return rec.number(limit, VerdictKeep)
	}
}

func (rec Recommendation) tooFew(what string) Recommendation {
	rec.Verdict = VerdictTooFew
	rec.Why = fmt.Sprintf("seen so far: %s; it takes %s %s, and nothing is advised on less", Digits(rec.Samples), Digits(rec.Needed), what)
	return rec
}

func (rec Recommendation) number(n int, v Verdict) Recommendation {
	rec.Advised, rec.Verdict = fmt.Sprint(n), v
	return rec
}

func (rec Recommendation) decide(want, now time.Duration, raise, lower bool) Recommendation {
	rec.Verdict, rec.Advised = VerdictKeep, setting(now)
	switch {
	case raise:
		rec.Verdict, rec.Advised = VerdictRaise, setting(want)
	case lower:
		rec.Verdict, rec.Advised = VerdictLower, setting(want)
	}
	return rec
}

// nice rounds a duration up to one that people write.
func nice(d time.Duration) time.Duration {
	steps := []time.Duration{
		time.Second, 2 * time.Second, 3 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 20 * time.Second, 30 * time.Second, 45 * time.Second,
		time.Minute, 90 * time.Second, 2 * time.Minute, 3 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 20 * time.Minute, 30 * time.Minute, 45 * time.Minute,
		time.Hour, 90 * time.Minute, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour,
	}
	for _, s := range steps {
		if d <= s {
			return s
		}
	}
	return (d + time.Hour - 1).Truncate(time.Hour)
}

// setting writes a duration as the configuration file has it.
func setting(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
