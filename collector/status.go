package collector

import (
	"fmt"
	"slices"
	"time"

	"github.com/qwatch/qwatch/internal/metric"
	"github.com/qwatch/qwatch/queue"
)

// Status says how a main queue is doing, judged by its trend.
type Status int

// The statuses. The zero Status, of queues that are not main queues, has none of these meanings.
const (
	StatusOK            Status = iota + 1 // messages come and go, or have not waited for long
	StatusIdle                            // empty, with no more than a trickle
	StatusFallingBehind                   // messages are taken, yet more and more wait, and ever longer
	StatusStalled                         // messages wait and none is finished: nobody takes them, or takes them in vain
	StatusHidden                          // none is visible for minutes on end: retry delays, or messages scheduled ahead
	StatusPaused                          // the consumer in this process is paused
	StatusUnreachable                     // polls fail, or stay away
	StatusMissing                         // the service says that the queue is not there
	StatusUnknown                         // too little was seen so far
)

// Statuses returns every Status.
func Statuses() []Status {
	return []Status{
		StatusOK, StatusIdle, StatusFallingBehind, StatusStalled, StatusHidden,
		StatusPaused, StatusUnreachable, StatusMissing, StatusUnknown,
	}
}

// String returns the label form: "ok", "falling_behind", …; "" for the zero Status.
func (s Status) String() string { return nameOf(metric.QueueStatuses(), int(s)) }

// MarshalText implements encoding.TextMarshaler.
func (s Status) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler. It takes what MarshalText writes, the empty
// text of the zero Status included; anything else is an error and changes nothing.
func (s *Status) UnmarshalText(text []byte) error {
	i, err := numberOf(metric.QueueStatuses(), text)
	if err == nil {
		*s = Status(i)
	}
	return err
}

// bad says whether the status is a finding against the queue that takes more than a moment to undo.
func (s Status) bad() bool {
	return s == StatusStalled || s == StatusHidden || s == StatusFallingBehind
}

// PoisonStatus says how a poison queue is doing.
type PoisonStatus int

// The statuses of a poison queue. The zero PoisonStatus, of queues that are not poison queues,
// has none of these meanings.
const (
	PoisonEmpty   PoisonStatus = iota + 1 // also when the queue is not there
	PoisonHolding                         // it holds messages and gained none lately
	PoisonGrowing                         // it gained messages lately
	PoisonUnknown                         // it could not be read lately
)

// PoisonStatuses returns every PoisonStatus.
func PoisonStatuses() []PoisonStatus {
	return []PoisonStatus{PoisonEmpty, PoisonHolding, PoisonGrowing, PoisonUnknown}
}

// String returns the label form: "empty", "holding", …; "" for the zero PoisonStatus.
func (s PoisonStatus) String() string { return nameOf(metric.QueuePoisonStatuses(), int(s)) }

// MarshalText implements encoding.TextMarshaler.
func (s PoisonStatus) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler, as Status's does.
func (s *PoisonStatus) UnmarshalText(text []byte) error {
	i, err := numberOf(metric.QueuePoisonStatuses(), text)
	if err == nil {
		*s = PoisonStatus(i)
	}
	return err
}

// nameOf returns the i-th name, counted from 1.
func nameOf(names []string, i int) string {
	if i < 1 || i > len(names) {
		return ""
	}
	return names[i-1]
}

// numberOf is the inverse of nameOf: 0 for the empty text.
func numberOf(names []string, text []byte) (int, error) {
	i := slices.Index(names, string(text)) + 1
	if i == 0 && len(text) > 0 {
		return 0, fmt.Errorf("%.40q is not the status of a queue", text)
	}
	return i, nil
}

// Rule is the rule that a status was found by.
type Rule string

// The rules. What each looks at is in docs/status.md.
const (
	RuleNotPolled       Rule = "not_polled"        // unknown: no poll has ended yet
	RuleTooFew          Rule = "too_few_samples"   // unknown: fewer than three polls
	RuleUndecided       Rule = "undecided"         // unknown: messages wait, and it is too early to say why
	RuleNotFound        Rule = "not_found"         // missing
	RulePollsFail       Rule = "polls_fail"        // unreachable: three polls in a row
	RulePollsStayAway   Rule = "polls_stay_away"   // unreachable: none ended within three intervals
	RulePaused          Rule = "paused"            // paused
	RuleEmpty           Rule = "empty"             // idle
	RuleKeepsUp         Rule = "keeps_up"          // ok: empty now, and busy before
	RuleProgress        Rule = "progress"          // ok: messages were taken or finished
	RuleInFlight        Rule = "in_flight"         // ok: every message is being worked on, or was just hidden
	RuleNotOverdue      Rule = "not_overdue"       // ok: what waits has not waited for long
	RuleMonitorOnly     Rule = "monitor_only"      // ok: nobody takes messages, and nobody is meant to
	RuleGrowingWait     Rule = "growing_wait"      // falling_behind
	RuleUntouched       Rule = "untouched"         // stalled: nobody took a message
	RuleRedelivered     Rule = "redelivered"       // stalled: the same messages are taken again and again
	RuleCountNeverFalls Rule = "count_never_falls" // stalled: all that counts alone can tell
	RuleRetries         Rule = "retries"           // hidden, and messages came back after deliveries
	RuleDelays          Rule = "delays"            // hidden, and none was seen to have been delivered
	RuleHolding         Rule = "holding"           // poison holding
	RuleGained          Rule = "gained"            // poison growing
)

// Evidence is what a status rests on. Times are on the local clock.
type Evidence struct {
	Rule  Rule      `json:"rule"`
	Since time.Time `json:"since,omitzero"` // when the status began; zero when that is not known

	// Candidate is what the latest samples say, as long as they are too few to change the
	// status: 0 when they agree with it.
	Candidate        Status `json:"candidate,omitzero"`
	CandidateSamples int    `json:"candidateSamples,omitempty"`

	// HeadUnchangedSeconds is how long the same messages have been visible at the head without
	// one being taken; 0 when none is visible.
	HeadUnchangedSeconds float64 `json:"headUnchangedSeconds"`
	// PatienceSeconds is how long that may go on until the queue is called stalled: longer where
	// somebody may be working on a message, or has been slow before.
	PatienceSeconds float64 `json:"patienceSeconds,omitempty"`
	// LastProgress is when a message was last seen to be taken or finished; zero when never.
	LastProgress time.Time `json:"lastProgress,omitzero"`

	Samples []Sample `json:"samples"` // oldest first
}

// Sample is what the polls of a moment showed, next to the sample before. Messages are compared by
// id; nothing of a message is kept.
type Sample struct {
	At       time.Time    `json:"at"`                 // of the last poll in it
	Polls    int          `json:"polls"`              // polls in short succession are one sample
	Failed   queue.Result `json:"failed,omitempty"`   // why the polls failed; nothing else is known then
	Messages *int64       `json:"messages,omitempty"` // by the service's count
	Visible  *int         `json:"visible,omitempty"`  // in the peek: 32 is a floor

	Left     int   `json:"left,omitempty"`     // seen in the sample before and no more, though they had not expired
	Taken    int   `json:"taken,omitempty"`    // seen before, with one more delivery now
	Again    int   `json:"again,omitempty"`    // of left and taken: those that had been delivered before
	Expired  int   `json:"expired,omitempty"`  // seen before, and expired since
	Returned int   `json:"returned,omitempty"` // visible with deliveries behind them
	Finished int64 `json:"finished,omitempty"` // fewer by the count, less what expired or went to the poison queue
	Gained   int64 `json:"gained,omitempty"`   // more by the count

	OldestAgeSeconds int `json:"oldestAgeSeconds,omitempty"` // service clock
}
