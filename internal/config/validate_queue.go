package config

import (
	"fmt"
	"strings"
	"time"

	"github.com/qwatch/qwatch/queue"
)

// queues checks an account's queues, and settles where each one's poison goes.
func (v *validator) queues(account string, a *Account) {
	first := map[string]string{}
	poisonOf := map[string]int{} // how many queues send their poison there
	for i := range a.Queues {
		q, key := &a.Queues[i], fmt.Sprintf("%s.queues[%d]", account, i)
		switch {
		case q.Name == "":
			v.say(key+".name", "is missing; every queue needs its name")
		case nameFault(q.Name) != "":
			v.say(key+".name", "%s is not a queue name: %s", v.shown(key+".name", q.Name), nameFault(q.Name))
		case first[q.Name] != "":
			v.say(key+".name", "%s is also the name of %s (line %d); keep one", v.shown(key+".name", q.Name), first[q.Name], v.line(first[q.Name]+".name"))
		default:
			first[q.Name] = key
		}
		if p := poison(q); p != "" {
			poisonOf[p]++
		}
	}
	next := map[string]string{}
	for i := range a.Queues {
		q, key := &a.Queues[i], fmt.Sprintf("%s.queues[%d]", account, i)
		if q.Consumer == nil && q.PoisonQueue == "" && poisonOf[q.Name] > 0 {
			q.NoPoison = true
		}
		v.poison(key, q)
		v.ranges(key, &q.Settings)
		v.bodies(key, q)
		v.consumer(key, q)
		next[q.Name] = q.PoisonQueue
	}
	for i := range a.Queues {
		q := &a.Queues[i]
		_, configured := first[q.PoisonQueue]
		q.SharedPoison = q.PoisonQueue != "" && (configured || poisonOf[q.PoisonQueue] > 1)
		if q.PoisonQueue == q.Name {
			continue // reported already
		}
		for n, p := 0, q.PoisonQueue; p != "" && n < 10; n, p = n+1, next[p] {
			if p == q.Name {
				v.say(fmt.Sprintf("%s.queues[%d].poisonQueue", account, i), "leads back to the queue itself, so that messages would go round; break the circle, or set noPoison on one that nobody consumes")
				break
			}
		}
	}
}

// poison is the poison queue that a queue has or would have by default.
func poison(q *Queue) string {
	switch {
	case q.NoPoison:
		return ""
	case q.PoisonQueue != "":
		return q.PoisonQueue
	default:
		return q.Name + poisonSuffix
	}
}

func (v *validator) poison(key string, q *Queue) {
	at := key + ".poisonQueue"
	switch {
	case q.NoPoison && q.PoisonQueue != "":
		v.say(at, "stands beside noPoison (line %d); keep one", v.line(key+".noPoison"))
	case q.NoPoison && q.Consumer != nil:
		v.say(key+".noPoison", "cannot be with a consumer, which needs somewhere to put what it cannot handle; remove one of the two")
	case q.NoPoison:
	case q.PoisonQueue == q.Name:
		v.say(at, "is the queue itself; name another one")
	case q.PoisonQueue != "":
		if problem := nameFault(q.PoisonQueue); problem != "" {
			v.say(at, "%s is not a queue name: %s", v.shown(at, q.PoisonQueue), problem)
		}
	case v.marks[at].bad:
	case len(q.Name) > maxDefaultPoisons && nameFault(q.Name) == "":
		v.say(at, "must be set, since the name has %d characters: with %s it would be longer than the 63 that the service allows", len(q.Name), poisonSuffix)
	default:
		q.PoisonQueue = q.Name + poisonSuffix
	}
}

// rule checks a default by itself; what its settings do to a queue is checked there.
func (v *validator) rule(key string, d *Default) {
	switch problem := globFault(d.Match); {
	case d.Match == "":
		v.say(key+".match", "is missing; it says which queues the settings are for, such as \"*-dev\" or \"billing/*\"")
	case problem != "":
		v.say(key+".match", "%s %s", v.shown(key+".match", d.Match), problem)
	}
	if d.PoisonQueue != "" {
		if problem := nameFault(d.PoisonQueue); problem != "" {
			v.say(key+".poisonQueue", "%s is not a queue name: %s", v.shown(key+".poisonQueue", d.PoisonQueue), problem)
		}
	}
	v.ranges(key, &d.Settings)
}

// ranges checks each setting by itself.
func (v *validator) ranges(key string, s *Settings) {
	if at := key + ".poisonTimeToLive"; s.PoisonTimeToLive != 0 {
		v.atLeast(at, s.PoisonTimeToLive, time.Second)
		v.wholeSeconds(at, s.PoisonTimeToLive)
	}
	if at := key + ".compressionThreshold"; v.set(at) {
		v.atLeastOne(at, s.CompressionThreshold)
	}
	v.largeMessages(key+".largeMessages", s.LargeMessages)
	if o := s.Objective; o != nil {
		if v.set(key + ".objective.timeInQueue") {
			v.atLeast(key+".objective.timeInQueue", o.TimeInQueue, time.Second)
		}
		if o.Target <= 0 || o.Target >= 1 {
			v.say(key+".objective.target", "%s is not between 0 and 1; for 99 %% write 0.99", v.number(key+".objective.target", o.Target))
		}
	}
	if c := s.Scaling; c != nil {
		v.assumed(key+".scaling", c.HandlingTime, c.Concurrency)
	}
	if v.set(key+".tier") && (s.Tier < 1 || s.Tier > 3) {
		v.say(key+".tier", "%s is not a tier; use 1 (most important), 2 or 3", v.number(key+".tier", s.Tier))
	}
	if len(s.Team) > 128 || strings.ContainsFunc(s.Team, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		v.say(key+".team", "must be one line of at most 128 bytes")
	}
	if s.TypeHeader != "" && !isToken(s.TypeHeader) {
		v.say(key+".typeHeader", "%s is not a header name; use letters, digits and hyphens", v.shown(key+".typeHeader", s.TypeHeader))
	}
	c := s.Consumer
	if c == nil {
		return
	}
	key += ".consumer"
	v.atLeastOne(key+".concurrency", c.Concurrency)
	if c.Concurrency > maxConcurrency {
		v.say(key+".concurrency", "%s is too many; use at most %d", v.number(key+".concurrency", c.Concurrency), maxConcurrency)
	}
	v.atLeast(key+".retry.initial", c.Retry.Initial, time.Second)
	v.atLeast(key+".emptyBackoff.min", c.EmptyBackoff.Min, time.Millisecond)
	v.atLeast(key+".errorBackoffMax", c.ErrorBackoffMax, time.Second)
	v.atLeastOne(key+".maxDequeueCount", c.MaxDequeueCount)
	v.atLeast(key+".visibilityTimeout", c.VisibilityTimeout, queue.MinVisibility)
	v.wholeSeconds(key+".visibilityTimeout", c.VisibilityTimeout)
	for name, d := range map[string]time.Duration{"visibilityTimeout": c.VisibilityTimeout, "retry.initial": c.Retry.Initial, "retry.max": c.Retry.Max} {
		if d > queue.MaxVisibility {
			v.say(key+"."+name, "%s is longer than the 7d that the service allows", v.number(key+"."+name, d))
		}
	}
	if c.Retry.Jitter < 0 || c.Retry.Jitter > 1 {
		v.say(key+".retry.jitter", "%s is not a share; use 0 to 1", v.number(key+".retry.jitter", c.Retry.Jitter))
	}
	v.records(key, c)
	if r := c.RateLimit; r != nil {
		at := key + ".rateLimit"
		if v.set(at+".perSecond") && r.PerSecond <= 0 {
			v.say(at+".perSecond", "%s lets no message through; use a number above 0", v.number(at+".perSecond", r.PerSecond))
		}
		v.atLeastOne(at+".burst", r.Burst)
	}
	if h := c.Handler.HTTP; h != nil {
		at := key + ".handler.http"
		if v.set(at + ".url") {
			if problem := urlFault(h.URL.Reveal()); problem != "" {
				v.say(at+".url", "%s", problem)
			}
		}
		if h.CloudEvents != "" && h.CloudEvents != CloudEventsBinary && h.CloudEvents != CloudEventsStructured {
			v.say(at+".cloudEvents", "%s is not a form of CloudEvents; use binary, structured or off", v.shown(at+".cloudEvents", h.CloudEvents))
		}
	}
}

// wholeSeconds checks what the service only takes in seconds.
func (v *validator) wholeSeconds(key string, d time.Duration) {
	if d >= time.Second && d%time.Second != 0 {
		v.say(key, "%s is not whole seconds, which is all that the service knows", v.number(key, d))
	}
}

// consumer checks what must be there, and what settings mean to one another.
func (v *validator) consumer(key string, q *Queue) {
	if o := q.Objective; o != nil && o.TimeInQueue == 0 {
		v.say(key+".objective.timeInQueue", "is missing; it is how long a message may wait, such as 5m")
	}
	c := q.Consumer
	if c == nil {
		return
	}
	if q.MonitorOnly {
		v.say(key+".monitorOnly", "cannot be with a consumer (line %d): it says that no consumer is expected; remove one of the two", v.line(key+".consumer"))
	}
	key += ".consumer"
	v.keyed(key, c)
	at := key + ".handler"
	switch h := c.Handler; {
	case h.HTTP == nil && h.Exec == nil:
		v.say(at, "is missing; set exactly one of http: {url: …} and exec: {command: […]}")
	case h.HTTP != nil && h.Exec != nil:
		v.say(at, "has both http (line %d) and exec (line %d); keep one", v.line(at+".http"), v.line(at+".exec"))
	case h.HTTP != nil && h.HTTP.URL == "":
		v.say(at+".http.url", "is missing; it is where messages are posted to")
	case h.Exec != nil && len(h.Exec.Command) == 0:
		v.say(at+".exec.command", "is missing; it is the program and its arguments, such as [\"./handle-order\"]")
	}
	if c.RateLimit != nil && !v.set(key+".rateLimit.perSecond") {
		v.say(key+".rateLimit.perSecond", "is missing; it is how many messages a second are taken, such as 10")
	}
	if !c.Renew && c.MaxRenewal > 0 {
		v.say(key+".maxRenewal", "makes no sense with renew: false (line %d); remove one of the two", v.line(key+".renew"))
	}
	v.inOrder(key+".retry", "initial", c.Retry.Initial, c.Retry.Max)
	v.inOrder(key+".emptyBackoff", "min", c.EmptyBackoff.Min, c.EmptyBackoff.Max)
}

// inOrder checks that a pair of delays is not upside down, and blames the one the file set.
func (v *validator) inOrder(key, name string, low, high time.Duration) {
	if low <= high {
		return
	}
	lowKey, highKey := key+"."+name, key+".max"
	if v.set(highKey) {
		v.say(highKey, "%s is shorter than %s, which is %s; make it at least that", v.number(highKey, high), name, v.number(lowKey, low))
		return
	}
	v.say(lowKey, "%s is longer than max, which is %s; set max as well", v.number(lowKey, low), v.number(highKey, high))
}

// nameFault says what is wrong with a queue name by the service's rules; empty when nothing is.
// It judges as queue.CheckName does, whose error would show what the environment put there.
func nameFault(name string) string {
	switch {
	case strings.ContainsFunc(name, func(r rune) bool { return r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') }):
		return "the service takes lower-case letters, digits and hyphens"
	case len(name) < 3 || len(name) > 63:
		return fmt.Sprintf("it has %d characters; the service takes 3 to 63", len(name))
	case name[0] == '-' || name[len(name)-1] == '-':
		return "it must begin and end with a letter or digit"
	case strings.Contains(name, "--"):
		return "two hyphens must not follow each other"
	}
	return ""
}

// isToken accepts what can stand as an HTTP header's name.
func isToken(s string) bool {
	for _, r := range s {
		if r <= ' ' || r >= 0x7f || strings.ContainsRune("\"(),/:;<=>?@[\\]{}", r) {
			return false
		}
	}
	return s != ""
}
