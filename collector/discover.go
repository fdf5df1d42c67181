package collector

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/qwatch/qwatch/queue"
)

const (
	// listTime bounds one listing of an account, however many pages it has.
	listTime = 5 * time.Minute
	// relistTime is how soon at the latest a listing that failed is tried again.
	relistTime = time.Minute
	// maxNamed is how many of the queues that are gone the log names.
	maxNamed = 5
)

// finder is a discovery and what it found. It is guarded by Collector.setting.
type finder struct {
	Discovery
	discovered
	listing listing
	targets map[string]Target // chosen from listing
	before  map[string]Target // chosen by the discovery that this one replaced
	faults  string            // as they were last logged
}

// discovered is what a discovery has found so far.
type discovered struct {
	account     string
	labels      []*dto.LabelPair
	queues      int // watched, each with its poison queue
	dropped     int // not watched, over MaxQueues
	lastSuccess time.Time
	failing     queue.Result // why the last listing failed; "" when it did not
}

// choose looks through the last listing.
func (f *finder) choose(given []Target, cfg *Config) selection {
	c := chooser{Discovery: &f.Discovery, listing: f.listing, given: map[string]Target{}, kept: f.targets, known: f.targets, cfg: cfg}
	if f.targets == nil {
		c.known = f.before
	}
	for _, t := range given {
		if k := t.id(); k.account == f.Account.Name() {
			c.given[k.queue] = t
		}
	}
	return c.choose()
}

// chose keeps a selection, and logs the queues that cannot be watched unless it has just said so.
func (f *finder) chose(s selection, log *slog.Logger) {
	f.account, f.queues, f.dropped = f.Account.Name(), len(s.targets), s.dropped
	f.targets = make(map[string]Target, len(s.targets))
	for _, t := range s.targets {
		f.targets[t.Queue.Name()] = t
	}
	var faults []string
	for _, err := range s.faults {
		faults = append(faults, err.Error())
	}
	if all := strings.Join(faults, "; "); all != f.faults {
		f.faults = all
		for _, err := range s.faults {
			log.Warn("a queue that was found cannot be watched", "account", f.account, "error", err)
		}
	}
}

// relist has the account listed anew at once.
func (a *account) relist() {
	select {
	case a.listed <- struct{}{}:
	default:
	}
}

// discover lists the account again and again, for as long as it has a discovery, until the context ends.
func (a *account) discover(ctx context.Context, c *Collector) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.listed:
		case <-timer.C:
			select { // both ask for the same
			case <-a.listed:
			default:
			}
		}
		if wait := c.list(ctx, a); wait > 0 {
			timer.Reset(wait)
		}
	}
}

// list lists an account once and returns when to do it again; 0 when it has no discovery.
func (c *Collector) list(ctx context.Context, a *account) (again time.Duration) {
	c.setting.Lock()
	f := c.discoveries[a.name]
	c.setting.Unlock()
	if f == nil {
		return 0
	}
	listCtx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	var found listing
	var failure error
	for info, err := range f.Account.Queues(queue.WithGate(listCtx, a.pass), queue.ListOptions{Metadata: true}) {
		if err != nil {
			failure = err
			break
		}
		found = append(found, info)
	}
	if ctx.Err() != nil {
		return 0
	}
	if _, answered := f.Account.Skew(); answered {
		c.contact(a.name)
	}
	again = time.Duration((1 - jitter*a.uniform()) * float64(f.Interval))
	if failure != nil {
		again = min(again, relistTime)
	}
	c.found(f, found, failure)
	return again
}

// found takes in a listing. One that failed changes nothing: what was found before is watched on.
func (c *Collector) found(f *finder, l listing, failure error) {
	c.setting.Lock()
	defer c.setting.Unlock()
	if c.discoveries[f.Account.Name()] != f {
		return // replaced meanwhile
	}
	was := f.failing
	f.account, f.failing = f.Account.Name(), ""
	if failure != nil {
		f.failing = queue.Classify(failure)
	} else {
		f.lastSuccess = time.Now()
	}
	switch {
	case f.failing != "" && f.failing != was:
		c.log.Warn("the account cannot be listed; the queues that are known are watched on", "account", f.account, "reason", string(f.failing), "error", failure)
	case f.failing == "" && was != "":
		c.log.Info("the account can be listed again", "account", f.account)
	}
	if failure == nil {
		slices.SortFunc(l, func(a, b queue.Info) int { return strings.Compare(a.Name, b.Name) })
		same := slices.EqualFunc(f.listing, l, func(a, b queue.Info) bool { return a.Name == b.Name })
		f.listing = l
		if !same {
			c.rebuild(f)
			return
		}
	}
	fleet := *c.fleet.Load()
	fleet.discoveries = c.discovered(&fleet)
	c.fleet.Store(&fleet)
}

// rebuild makes the fleet anew after a listing.
func (c *Collector) rebuild(f *finder) {
	had, dropped := f.queues, f.dropped
	gone := f.listing.lacks(f.targets)
	gone = slices.DeleteFunc(gone, func(name string) bool { return !c.cfg.Owns(f.account, name) })
	if err := c.set(c.given, c.discoveries); err != nil { // the targets were good by themselves
		c.log.Error("the queues that were found cannot be watched", "account", f.account, "error", err)
		return
	}
	if n := len(gone); n > 0 {
		names := strings.Join(gone[:min(n, maxNamed)], ", ")
		if n > maxNamed {
			names += ", …"
		}
		c.log.Warn("queues that had been found are gone", "account", f.account, "queues", n, "names", names)
	}
	if f.queues != had || f.dropped != dropped {
		c.log.Info("queues were found", "account", f.account, "queues", f.queues, "dropped", f.dropped)
	}
}
