package story

import (
	"fmt"
	"time"

	"github.com/qwatch/qwatch/collector"
)

// tell finds what can be said of the queue itself, after what it shares with others.
func (t *teller) tell(now time.Time) {
	if t.main != nil {
		t.tellStatus(now)
		t.tellWait()
	}
	t.tellPoison(now)
	t.tellLoss()
	t.tellAdvice()
	if len(t.story.Findings) == 0 {
		t.find(LevelGood, "Nothing is wrong with it", []string{t.waiting(), t.rates(), t.busy()})
	}
}

// tellStatus says why the status is what it is.
func (t *teller) tellStatus(now time.Time) {
	s, e := t.main, t.story.Evidence
	peek := Step{"look at its head; that changes nothing", "qwatch queue peek " + t.name + " --max 5"}
	quiet := ""
	if e.HeadUnchangedSeconds > 0 {
		quiet = fmt.Sprintf("the same messages have been at the head for %s, and none was taken", Duration(time.Duration(e.HeadUnchangedSeconds)*time.Second))
	}
	progress := "no message was seen to be taken since qwatch started"
	if !e.LastProgress.IsZero() {
		progress = "a message was last taken " + Duration(now.Sub(e.LastProgress)) + " ago"
	}
	switch s.Rule {
	case collector.RuleUntouched:
		title := "Nobody takes messages: its consumer is gone, or cannot receive"
		next := []Step{{"look after the program that consumes it: is it running, does it log errors", ""}, peek}
		switch {
		case t.proc != nil && t.proc.BreakerOpen:
			title = "Nobody takes messages, because the handlers fail as a whole"
		case t.proc != nil && t.proc.Handlers >= t.proc.MaxHandlers:
			title = "Nobody takes messages: every handler here is busy, perhaps stuck"
			next = []Step{{"see what the handlers wait for; a handler ends at its timeout (" + Duration(t.settings.HandlerTimeout) + ")", ""}}
		case t.proc != nil && t.proc.LastError != "":
			title = "Nobody takes messages: the consumer here fails to receive (" + t.proc.LastError + ")"
		}
		t.find(LevelBad, title, []string{quiet, progress, t.waiting(), t.busy()}, next...)
	case collector.RuleRedelivered:
		t.find(LevelBad, "Messages are taken again and again, and none is finished", []string{
			attempts(s), progress, t.waiting(), t.busy(),
			"a handler that fails each time, takes longer than the visibility timeout, or never deletes looks like this",
		}, Step{"see why the handler fails: its log, or the attempts in a message's history", ""}, peek, Step{"compare the visibility timeout with how long handlers take", "qwatch tune " + t.name})
	case collector.RuleCountNeverFalls:
		t.find(LevelBad, "The count never falls: nobody seems to finish messages", []string{t.waiting(), "only counts may be read here, so that more cannot be told"},
			Step{"let qwatch peek (Storage Queue Data Message Processor), and it can tell more", ""})
	case collector.RuleGrowingWait:
		title := "More messages come than are handled"
		next := []Step{{"add consumers, or concurrency; scale by its wait rather than by its depth", ""}}
		if t.proc != nil && t.proc.Handlers < t.proc.MaxHandlers {
			next = append(next, Step{"handlers here are not all busy: see what keeps them from receiving", ""})
		}
		t.find(LevelWarn, title, []string{t.rates(), t.waiting(), t.busy()}, next...)
	case collector.RuleRetries:
		t.find(LevelWarn, "All messages wait for their next attempt: handlers fail", []string{attempts(s), hidden(s), t.busy()},
			Step{"see why the handler fails, before the messages run out of attempts", ""}, Step{"see whether the retry delay fits", "qwatch tune " + t.name})
	case collector.RuleDelays:
		t.find(LevelInfo, "All messages are scheduled for later, or handled for very long", []string{hidden(s), "none was seen to come back after a delivery", t.busy()})
	case collector.RulePaused:
		t.find(LevelWarn, "Its consumer here is paused", []string{t.waiting(), t.pausedBy(now)},
			Step{"resume it on its page, or by POST /api/v1/processors/" + t.story.Row.String() + "/resume", ""})
	case collector.RuleUndecided, collector.RuleTooFew, collector.RuleNotPolled:
		if t.nothingWaits() {
			t.find(LevelGood, "Nothing waits on it", []string{fmt.Sprintf("it was looked at %s since qwatch started", times(s.Polls)), t.waiting()})
			break
		}
		t.find(LevelUnknown, "Too little was seen so far to say why messages wait", []string{
			fmt.Sprintf("it was looked at %s since qwatch started", times(s.Polls)), t.waiting(), quiet,
		}, Step{"ask again in some minutes", "qwatch why " + t.name})
	}
}

func times(n uint64) string {
	if n == 1 {
		return "once"
	}
	return Digits(int64(n)) + " times"
}

func (t *teller) pausedBy(now time.Time) string {
	for _, e := range t.story.Events {
		if e.Kind == EventPaused {
			if e.By != "" {
				return "paused by " + e.By + " " + Duration(now.Sub(e.At)) + " ago"
			}
			return "paused " + Duration(now.Sub(e.At)) + " ago"
		}
	}
	return ""
}

func attempts(s *collector.QueueState) string {
	if s.Peek.MaxDequeueCount == 0 {
		return ""
	}
	return "a message at the head was delivered " + times(uint64(s.Peek.MaxDequeueCount))
}

func hidden(s *collector.QueueState) string {
	n, floor, ok := s.Hidden()
	if !ok {
		return ""
	}
	if floor {
		return Count(n, "message") + " or more are hidden"
	}
	return Count(n, "message") + verb(int(min(n, 2)), " is", " are") + " hidden"
}

// tellWait compares the wait with the objective.
func (t *teller) tellWait() {
	row, s := &t.story.Row, t.main
	oldest := time.Duration(row.Oldest.Value) * time.Second
	if s.Objective <= 0 || oldest <= s.Objective || s.Status == collector.StatusStalled {
		return
	}
	t.find(LevelWarn, "Messages wait for longer than the objective", []string{
		fmt.Sprintf("the oldest visible message waits for %s, and the objective is %s", Duration(oldest), Duration(s.Objective)), t.rates(),
	})
}

// tellPoison tells why messages die.
func (t *teller) tellPoison(now time.Time) {
	row := &t.story.Row
	if t.poison == nil || !row.Poison.Known || row.Poison.Value == 0 {
		return
	}
	evidence := []string{Count(row.Poison.Value, "message") + verb(int(min(row.Poison.Value, 2)), " lies", " lie") + " there"}
	if row.PoisonOldest.Value > 0 {
		evidence[0] += ", the oldest for " + Duration(time.Duration(row.PoisonOldest.Value)*time.Second)
	}
	for _, c := range t.story.Clusters[:min(3, len(t.story.Clusters))] {
		evidence = append(evidence, fmt.Sprintf("%s since %s ago, the latest %s ago: %s: %s",
			Count(c.Messages, "message"), Duration(now.Sub(c.Since)), Duration(now.Sub(c.Last)), words(c.Category), c.Reason))
	}
	level, title := LevelWarn, "Its poison queue holds messages"
	if row.PoisonStatus == "growing" {
		level, title = LevelBad, "Messages are dead-lettered right now"
	}
	t.find(level, title, evidence,
		Step{"see why they died", "qwatch poison list " + t.name},
		Step{"when the cause is mended, bring them back", "qwatch poison replay " + t.name + " --dry-run"})
}

// tellLoss tells what will be lost.
func (t *teller) tellLoss() {
	tell := func(s *collector.QueueState, what string, next Step) {
		if s == nil || !s.Loss.Known || s.Loss.In > ExpirySpan {
			return
		}
		t.find(LevelBad, "Messages will be lost: the first "+what+" expires in "+Duration(s.Loss.In), []string{
			"a message that expires is deleted by the service, and leaves no trace",
		}, next)
	}
	tell(t.main, "message", Step{"have it consumed before, or look at what it holds", "qwatch queue peek " + t.name + " --max 32"})
	tell(t.poison, "dead-lettered message", Step{"keep a copy of what matters", "qwatch poison export " + t.name})
}

// tellAdvice tells of settings that do not fit.
func (t *teller) tellAdvice() {
	if t.story.Advice == nil {
		return
	}
	var evidence []string
	for _, rec := range t.story.Advice.Settings {
		if rec.Verdict == VerdictRaise || rec.Verdict == VerdictLower {
			evidence = append(evidence, fmt.Sprintf("%s: %s instead of %s; %s", rec.Setting, rec.Advised, rec.Now, rec.Why))
		}
	}
	if len(evidence) > 0 {
		t.find(LevelInfo, "Its settings could fit better", evidence, Step{"see all advice", "qwatch tune " + t.name})
	}
}
