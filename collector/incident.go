package collector

import (
	"log/slog"

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
	attrs := []slog.Attr{slog.String("account", w.account), slog.String("queue", w.spec.Load().queue.Name())}
	var lines []line
	if old.failing() {
		// A missing queue is an incident of its own; for the rest the last one ends it.
		level := slog.LevelDebug
		if old.reason == queue.ResultNotFound || in[old.reason] == 0 {
			level = slog.LevelInfo
		}
		lines = append(lines, line{level, "polls no longer fail for this reason", append(attrs[:2:2], slog.String("reason", string(old.reason)))})
	}
	if r.failing() {
		level := slog.LevelDebug
		if r.reason == queue.ResultNotFound || in[r.reason] == 1 {
			level = slog.LevelWarn
		}
		lines = append(lines, line{level, "poll failed", append(attrs[:2:2], slog.String("reason", string(r.reason)), slog.String("error", r.err))})
	}
	return lines
}
