package collector

import (
	"log/slog"
	"strings"
	"time"

	"github.com/qwatch/qwatch/queue"
)

// line is one line for the log.
type line struct {
	level   slog.Level
	message string
	attrs   []slog.Attr
}

// incidents are an account's failures by reason, so that the log gets one line an incident rather than one a
// queue or one a poll: what is wrong with an account is wrong with all its queues, and what fails now and then
// is one incident as long as it does. Missing queues are not among them.
type incidents map[queue.Result]*incident

// incident is one that has begun and is not over.
type incident struct {
	queues int       // whose last poll failed for this reason
	polls  int       // that failed for it since it began
	until  time.Time // it lasts, whatever succeeds
}

// calm is how long nothing must fail for a reason until an incident is over, and calmPolls how many
// intervals of the queue that failed.
const (
	calm      = time.Minute
	calmPolls = 2
)

// note counts a queue's change from one reading to the next; nil: it is no longer watched.
func (in incidents) note(old, r *reading) {
	if i := in.of(old); i != nil {
		i.queues--
	}
	if i := in.of(r); i != nil {
		i.queues++
	}
}

// of returns the incident that a reading is part of, or nil.
func (in incidents) of(r *reading) *incident {
	if !r.failing() {
		return nil
	}
	return in[r.reason]
}

// changed takes in a poll and returns what is to be logged.
func (in incidents) changed(w *watch, old, r *reading) []line {
	if len(in) == 0 && !old.failing() && !r.failing() {
		return nil
	}
	var lines []line
	add := func(level slog.Level, message string, attrs ...slog.Attr) {
		lines = append(lines, line{level, message, attrs})
	}
	account, name := slog.String("account", w.account), slog.String("queue", w.spec.Load().queue.Name())
	other := old.failing() != r.failing() || old.reason != r.reason
	// A missing queue is an incident of its own; what else is wrong is the account's. One that was found
	// is told of by the listing that lacks it.
	missing := slog.LevelWarn
	if w.spec.Load().target.found {
		missing = slog.LevelDebug
	}
	if other && old.failing() {
		reason := slog.String("reason", string(old.reason))
		if old.reason == queue.ResultNotFound {
			add(min(missing, slog.LevelInfo), "queue is no longer missing", account, name, reason)
		} else {
			add(slog.LevelDebug, "queue no longer fails for this reason", account, name, reason)
		}
	}
	if r.failing() && r.reason != queue.ResultNotFound && in[r.reason] == nil {
		in[r.reason] = &incident{}
		add(slog.LevelWarn, "polls fail", account, slog.String("reason", string(r.reason)), slog.String("error", r.err))
	} else if other && r.failing() {
		reason, err := slog.String("reason", string(r.reason)), slog.String("error", r.err)
		if r.reason == queue.ResultNotFound {
			err.Value = slog.StringValue(r.err + missingHint(w.spec.Load()))
			add(missing, "queue is missing", account, name, reason, err)
		} else {
			add(slog.LevelDebug, "queue fails for this reason too", account, name, reason, err)
		}
	}
	if other {
		in.note(old, r)
	}
	if i := in.of(r); i != nil {
		i.polls++
		if until := r.lastPoll.Add(max(calm, calmPolls*r.interval)); until.After(i.until) {
			i.until = until
		}
	}
	return append(lines, in.over(account, r.lastPoll)...)
}

// over ends the incidents that have been calm for long enough.
func (in incidents) over(account slog.Attr, now time.Time) []line {
	var lines []line
	for _, reason := range pollReasons() {
		i := in[reason]
		if i == nil || i.queues > 0 || now.Before(i.until) {
			continue
		}
		delete(in, reason)
		lines = append(lines, line{slog.LevelInfo, "polls no longer fail for this reason", []slog.Attr{
			account, slog.String("reason", string(reason)), slog.Int("failures", i.polls),
		}})
	}
	return lines
}

// missingHint says what to do about a queue that is not there.
func missingHint(s *spec) string {
	switch {
	case s.target.found: // nobody named it
		return ""
	case s.target.Mode != ModeConsume:
		return ": create it, or do not watch it"
	case s.target.Queue.Config().CreateIfMissing:
		return ": it is created when it can be"
	default:
		return ": create it, or set createIfMissing"
	}
}

// metadataLine tells of metadata that cannot be taken.
func metadataLine(w *watch, faults []string) line {
	return line{slog.LevelWarn, "metadata of the queue is passed over", []slog.Attr{
		slog.String("account", w.account), slog.String("queue", w.spec.Load().queue.Name()), slog.String("reason", strings.Join(faults, "; ")),
	}}
}
