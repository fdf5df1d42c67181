package collector

import (
	"log/slog"
	"strings"

	"github.com/qwatch/qwatch/queue"
)

// line is one line for the log.
type line struct {
	level   slog.Level
	message string
	attrs   []slog.Attr
}

// incidents counts an account's failing queues by reason, so that the log gets one line an
// incident rather than one a queue: what is wrong with an account is wrong with all its queues.
type incidents map[queue.Result]int

// note counts a queue's change from one reading to the next; nil: it is no longer watched.
func (in incidents) note(old, r *reading) {
	if old.failing() {
		in[old.reason]--
	}
	if r.failing() {
		in[r.reason]++
	}
}

// changed notes the change and returns what is to be logged.
func (in incidents) changed(w *watch, old, r *reading) []line {
	if old.failing() == r.failing() && old.reason == r.reason {
		return nil
	}
	in.note(old, r)
	account, name := slog.String("account", w.account), slog.String("queue", w.spec.Load().queue.Name())
	var lines []line
	add := func(level slog.Level, message string, attrs ...slog.Attr) {
		lines = append(lines, line{level, message, attrs})
	}
	// A missing queue is an incident of its own. What else is wrong is the account's: the first queue
	// begins the incident and the last one ends it, whichever they are.
	if old.failing() {
		reason := slog.String("reason", string(old.reason))
		switch {
		case old.reason == queue.ResultNotFound:
			add(slog.LevelInfo, "queue is no longer missing", account, name, reason)
		case in[old.reason] == 0:
			add(slog.LevelInfo, "polls no longer fail for this reason", account, reason)
		default:
			add(slog.LevelDebug, "queue no longer fails for this reason", account, name, reason)
		}
	}
	if r.failing() {
		reason, err := slog.String("reason", string(r.reason)), slog.String("error", r.err)
		switch {
		case r.reason == queue.ResultNotFound:
			err.Value = slog.StringValue(r.err + missingHint(w.spec.Load()))
			add(slog.LevelWarn, "queue is missing", account, name, reason, err)
		case in[r.reason] == 1:
			add(slog.LevelWarn, "polls fail", account, reason, err)
		default:
			add(slog.LevelDebug, "queue fails for this reason too", account, name, reason, err)
		}
	}
	return lines
}

// missingHint says what to do about a queue that is not there.
func missingHint(s *spec) string {
	switch {
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
