package story

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/qwatch/qwatch/collector"
)

// words puts each group into words.
func (f *finder) words() []Cause {
	f.stalled()
	total := map[string]int{}
	seen := map[Name]bool{}
	for i := range f.snap.Queues {
		n := Name{f.snap.Queues[i].Account, f.snap.Queues[i].Queue}
		if !seen[n] {
			seen[n] = true
			total[n.Account]++
		}
	}
	out := make([]Cause, 0, len(f.order))
	for _, k := range f.order {
		c := f.groups[k]
		f.say(k, c, total[k.account])
		c.Evidence = slices.DeleteFunc(c.Evidence, func(s string) bool { return s == "" })
		if !c.Since.IsZero() && (c.Kind == CauseThrottled || c.Kind == CauseAuth || c.Kind == CauseUnreachable) {
			c.Evidence = append(c.Evidence, "the last good answer of one of them came "+Duration(f.snap.At.Sub(c.Since))+" ago")
		}
		if c.Affected > 1 && len(c.all) > 0 {
			c.Evidence = append(c.Evidence, "affected: "+some(c.names(), 5))
		}
		c.Queues = c.all[:min(len(c.all), causeQueues)]
		out = append(out, *c)
	}
	return out
}

// stalled groups queues that stopped at about the same time.
func (f *finder) stalled() {
	slices.SortStableFunc(f.stalls, func(a, b *collector.QueueState) int {
		return cmp.Or(cmp.Compare(a.Account, b.Account), a.Since.Compare(b.Since))
	})
	var c *Cause
	var account string
	var last time.Time
	for i, s := range f.stalls {
		if c == nil || s.Account != account || s.Since.Sub(last) > together {
			c = f.group(groupKey{CauseStalled, s.Account, fmt.Sprint(i)})
		}
		account, last = s.Account, s.Since
		c.add(Name{s.Account, s.Queue}, s.Since)
	}
}

// say writes a cause's words.
func (f *finder) say(k groupKey, c *Cause, total int) {
	queues := Count(int64(c.Affected), "queue")
	share := fmt.Sprintf("%d of %s of %s", c.Affected, Count(int64(total), "queue"), k.account)
	first := ""
	if len(c.all) > 0 {
		first = c.all[0].String()
	}
	c.Level = LevelBad
	next := func(text, command string) { c.Next = append(c.Next, Step{text, command}) }
	switch c.Kind {
	case CauseThrottled:
		c.Title = "Account " + k.account + " is throttled"
		c.Evidence = []string{share + " are answered with throttling", f.errors[k]}
		next("find who asks so much: consumers polling empty queues, other programs of the account", "")
		next("let qwatch ask less: watch.requestsPerSecond, watch.interval", "")
	case CauseAuth:
		c.Title = "Account " + k.account + " refuses the credential"
		c.Evidence = []string{share + " are refused", f.errors[k]}
		next("see what the service says of it", "qwatch queue show "+Quote(first))
		next("renew the key or SAS, or give the identity its role (Storage Queue Data Reader to watch, Message Processor to consume)", "")
	case CauseUnreachable:
		c.Title = "Account " + k.account + " is out of reach (" + words(k.of) + ")"
		c.Evidence = []string{share + " cannot be read", f.errors[k]}
		next("examine the way to it, where qwatch runs and with its configuration", "qwatch doctor "+Quote(k.account))
	case CauseHandler:
		c.Title = "Handler " + cmp.Or(k.of, "of "+first) + " is down"
		c.Evidence = []string{Count(int64(c.Affected), "consumer") + " stopped receiving because its calls fail as a whole; messages wait and do not lose attempts", openFor(c.Since, f.snap.At)}
		next("bring the handler back; receiving goes on by itself, nothing has to be resumed", "")
		if strings.HasPrefix(k.of, "http") {
			next("ask it", "curl -sS -o /dev/null -w '%{http_code}\\n' "+Quote(k.of))
		}
	case CauseMissing:
		c.Title = queues + " of " + k.account + verb(c.Affected, " is", " are") + " missing"
		c.Evidence = []string{"the service says that there is no such queue"}
		next("create it, or take it out of the configuration", "")
	case CauseStalled:
		f.sayStalled(c, queues, first)
	case CauseBehind:
		c.Level = LevelWarn
		c.Title = queues + " of " + k.account + verb(c.Affected, " falls", " fall") + " behind"
		c.Evidence = []string{"messages are taken, and yet more and more wait, and ever longer"}
		next("see what bounds it: handlers all busy, or too slow", "qwatch why "+Quote(first))
		next("add consumers, or concurrency", "")
	case CausePaused:
		c.Level = LevelWarn
		c.Title = Count(int64(c.Affected), "consumer") + verb(c.Affected, " is", " are") + " paused"
		c.Evidence = []string{f.pausedBy(c.all)}
		next("resume it on its page, or by POST /api/v1/processors/"+first+"/resume", "")
	case CauseDying:
		c.Title = "Messages of " + first + " are dead-lettered"
		if c.Affected > 1 {
			c.Title = "Messages of " + queues + " die for one reason"
		}
		const most = 4
		c.Evidence = append(c.Evidence, f.deaths[k][:min(len(f.deaths[k]), most)]...)
		if n := len(f.deaths[k]) - most; n > 0 {
			c.Evidence = append(c.Evidence, fmt.Sprintf("and %d more of the kind", n))
		}
		c.Evidence = append(c.Evidence, dyingSince(c.Since, f.snap.At))
		next("look at them", "qwatch poison list "+Quote(first))
	case CauseGrowing:
		c.Level, c.Title = LevelWarn, "Poison queues of "+queues+" gain messages"
		if c.Affected == 1 {
			c.Title = "The poison queue of " + first + " gains messages"
		}
		c.Evidence = []string{"so for " + Duration(f.snap.At.Sub(c.Since))}
		for _, one := range f.Clusters(Name{}, 2) {
			if c.affects(Name{one.Account, one.Queue}) {
				c.Evidence = append(c.Evidence, fmt.Sprintf("%s of %s: %s: %s", Count(one.Messages, "message"), one.Queue, words(one.Category), one.Reason))
			}
		}
		next("see why they died", "qwatch poison list "+Quote(first))
	case CauseClock:
		c.Level, c.Title, c.Evidence = LevelWarn, "The clock is off, seen from account "+k.account, []string{f.errors[k]}
		next("set the clock of this machine", "")
	case CauseListing:
		c.Level, c.Title = LevelWarn, "The queues of "+k.account+" cannot be listed ("+words(k.of)+")"
		c.Evidence = []string{"new queues are not found meanwhile; those known are watched as before"}
	case CausePolls:
		c.Title = "qwatch does not get round to " + queues
		c.Evidence = []string{"no poll of them has ended for three intervals"}
		next("give it more requests, or longer intervals: watch.requestsPerSecond, watch.interval", "")
	}
}

func (f *finder) sayStalled(c *Cause, queues, first string) {
	c.Title = first + " is stalled"
	if c.Affected > 1 {
		c.Title = queues + " of " + c.Account + " stopped moving together"
		c.Evidence = append(c.Evidence, "they stalled within "+Duration(together)+" of each other: one consumer program, or one release, may serve them all")
	}
	rules := map[collector.Rule]int64{}
	for _, s := range f.stalls {
		if c.affects(Name{s.Account, s.Queue}) {
			rules[s.Rule]++
		}
	}
	for _, r := range []struct {
		rule collector.Rule
		say  string
	}{
		{collector.RuleUntouched, "nobody takes its messages"},
		{collector.RuleRedelivered, "its messages are taken again and again, and none is finished"},
		{collector.RuleCountNeverFalls, "its count never falls"},
	} {
		if n := rules[r.rule]; n > 0 && c.Affected == 1 {
			c.Evidence = append(c.Evidence, r.say)
		} else if n > 0 {
			c.Evidence = append(c.Evidence, "of "+Count(n, "queue")+": "+r.say)
		}
	}
	c.Next = append(c.Next, Step{"see what is known of it", "qwatch why " + Quote(first)}, Step{"look after the program that consumes it", ""})
}

func (f *finder) pausedBy(names []Name) string {
	latest := f.log.latest(1, func(e *Event) bool {
		return e.Kind == EventPaused && slices.Contains(names, Name{e.Account, e.Queue})
	})
	if len(latest) == 0 {
		return ""
	}
	e, by := latest[0], ""
	if e.By != "" {
		by = " by " + e.By
	}
	return e.Queue + " was paused" + by + " " + Duration(f.snap.At.Sub(e.At)) + " ago"
}

func openFor(since, now time.Time) string {
	if since.IsZero() {
		return ""
	}
	return "so for " + Duration(now.Sub(since))
}

func dyingSince(since, now time.Time) string {
	return "first seen " + Duration(now.Sub(since)) + " ago"
}

func verb(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// words writes a label's value for people.
func words(label string) string { return strings.ReplaceAll(label, "_", " ") }

func poisonWords(status string) string {
	switch status {
	case "growing":
		return "gains messages"
	case "holding":
		return "gains no more, and holds messages"
	case "empty":
		return "is empty"
	default:
		return words(status)
	}
}

// plainWord is what a shell leaves alone.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:@%+=,-]+$`)

// Quote writes a word so that a shell takes it as it is.
func Quote(s string) string {
	if plainWord.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
