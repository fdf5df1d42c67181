// Package story tells what happened and why: it remembers how each queue fared (a bounded ring of
// numbers, one of events), measures what handlers do, and draws conclusions – one cause behind many
// queues, one queue's likely cause with its evidence and the next step, and which settings fit.
//
// It looks at what the collector and the processors already know and asks nobody else. The words it
// finds are the same on the page, in the API and in the commands. What a queue's status is, package
// collector decides; this one only says what it means.
package story

import "time"

// A Level says how much something matters.
type Level string

// The levels, the worst last.
const (
	LevelUnknown Level = "unknown"
	LevelGood    Level = "good"
	LevelInfo    Level = "info"
	LevelWarn    Level = "warn"
	LevelBad     Level = "bad"
)

// rank orders levels, the worst highest.
func (l Level) rank() int {
	switch l {
	case LevelBad:
		return 4
	case LevelWarn:
		return 3
	case LevelUnknown:
		return 2
	case LevelInfo:
		return 1
	default:
		return 0
	}
}

// Worse says whether l matters more than other.
func (l Level) Worse(other Level) bool { return l.rank() > other.rank() }

// A Finding is a conclusion: what is likely the case, what speaks for it, and what to do next.
type Finding struct {
	Level    Level    `json:"level"`
	Title    string   `json:"title"`
	Evidence []string `json:"evidence,omitempty"`
	Next     []Step   `json:"next,omitempty"`
}

// A Step is what to do next: in words, and as a command where there is one.
type Step struct {
	Text    string `json:"text"`
	Command string `json:"command,omitempty"`
}

// Name is a queue's full name.
type Name struct {
	Account string `json:"account"`
	Queue   string `json:"queue"`
}

// String returns "account/queue".
func (n Name) String() string { return n.Account + "/" + n.Queue }

// Settings are what a consumer is configured with, as far as advice and causes need it.
type Settings struct {
	Handler           string        // what messages are given to, without secrets: an origin or a program; "" when unknown
	HandlerTimeout    time.Duration // 0: none
	Concurrency       int
	VisibilityTimeout time.Duration
	Renew             bool
	MaxDequeueCount   int // 0: no limit
	RetryInitial      time.Duration
	RetryMax          time.Duration
}
