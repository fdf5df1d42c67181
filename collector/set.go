package collector

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// SetTargets replaces the targets, and leaves discovery as it is. See SetFleet.
func (c *Collector) SetTargets(targets []Target) error {
	c.setting.Lock()
	defer c.setting.Unlock()
	return c.set(targets, c.discoveries)
}

// SetFleet replaces the queues that are watched; at any time, from any goroutine. Queues
// that stay keep what was seen and counted, their rhythm, and the poll that may be running.
// Those that are new are polled at once, as fast as the request limit allows. What an earlier
// listing of an account found is looked through at once with the new Discovery, and the account is
// listed anew. On an error nothing changes.
func (c *Collector) SetFleet(targets []Target, discoveries []Discovery) error {
	c.setting.Lock()
	defer c.setting.Unlock()
	cfg := c.cfg
	cfg.Targets, cfg.Discovery = targets, discoveries
	return c.setConfig(cfg)
}

// SetConfig is SetFleet with the targets and the discovery of cfg, and replaces everything else in the
// configuration as well, but Owns, Beat and Logger. On an error nothing changes.
func (c *Collector) SetConfig(cfg Config) error {
	cfg = cfg.WithDefaults()
	if err := cfg.validate(); err != nil {
		return fmt.Errorf("collector: %w", err)
	}
	c.setting.Lock()
	defer c.setting.Unlock()
	return c.setConfig(cfg)
}

// setConfig sets a configuration that is good by itself. The setting lock is held.
func (c *Collector) setConfig(cfg Config) error {
	targets := cfg.Targets
	discoveries, err := checkDiscoveries(cfg.Discovery)
	if err != nil {
		return fmt.Errorf("collector: %w", err)
	}
	before := c.cfg
	cfg.Targets, cfg.Discovery = nil, nil
	if before.Owns != nil {
		cfg.Owns = before.Owns
	}
	c.cfg = cfg
	if err := c.setFinders(targets, discoveries); err != nil {
		c.cfg = before
		return err
	}
	if fams := c.families.Load(); fams == nil || before.Compact != cfg.Compact {
		made := families(cfg.Compact)
		c.families.Store(&made)
	}
	return nil
}

// setFinders replaces targets and discoveries. The setting lock is held.
func (c *Collector) setFinders(targets []Target, discoveries []Discovery) error {
	finders := make(map[string]*finder, len(discoveries))
	for _, d := range discoveries {
		f := &finder{Discovery: d}
		if before := c.discoveries[d.Account.Name()]; before != nil {
			f.discovered, f.listing, f.before = before.discovered, before.listing, before.targets
		}
		finders[d.Account.Name()] = f
	}
	if err := c.set(targets, finders); err != nil {
		return err
	}
	for _, a := range c.fleet.Load().accounts {
		a.relist()
	}
	return nil
}

// Reselect asks Config.Owns anew about every queue; at any time, from any goroutine. Queues that are no
// longer owned stop being polled at once, polls that are running included, and have no series any more; those that are newly
// owned are polled at once, as new ones are.
func (c *Collector) Reselect() {
	c.setting.Lock()
	defer c.setting.Unlock()
	if err := c.set(c.given, c.discoveries); err != nil { // the targets were good before
		c.log.Error("the queues to poll cannot be selected anew", "error", err)
	}
}

// set makes a new fleet. The setting lock is held.
func (c *Collector) set(given []Target, finders map[string]*finder) error {
	given, err := checkTargets(given, c.cfg.Interval)
	if err != nil {
		return fmt.Errorf("collector: %w", err)
	}
	targets := slices.Clone(given)
	chosen := make(map[string]selection, len(finders))
	for name, f := range finders {
		s := f.choose(given, &c.cfg)
		chosen[name] = s
		targets = append(targets, s.targets...)
	}
	if len(finders) > 0 {
		if targets, err = checkTargets(targets, c.cfg.Interval); err != nil {
			return fmt.Errorf("collector: %w", err)
		}
	}
	for name, f := range finders {
		f.chose(chosen[name], c.log)
	}
	c.given, c.discoveries = given, finders
	c.build(targets)
	return nil
}

// build replaces the fleet with one of the targets. The setting lock is held.
func (c *Collector) build(targets []Target) {
	old, l := c.fleet.Load(), newLabeller()
	byAccount := map[string][]*spec{}
	for name := range c.discoveries {
		byAccount[name] = nil
	}
	for _, s := range specsOf(targets) {
		if !c.cfg.Owns(s.account, s.target.id().queue) {
			continue
		}
		byAccount[s.account] = append(byAccount[s.account], s)
	}
	f := &fleet{byID: make(map[id][]*watch, len(targets))}
	for name, specs := range byAccount {
		a := old.account(name)
		if a == nil {
			a = newAccount(name, c.seed, c.epoch, l)
		}
		a.configure(c.cfg)
		if len(specs) > 0 {
			a.ref.Store(specs[0].queue.Account())
		} else {
			a.ref.Store(c.discoveries[name].Account)
		}
		p := fit(specs, c.cfg.limit())
		for _, s := range specs {
			c.cfg.rarely(s, len(specs))
		}
		if w := p.warning(name, specs, c.cfg.limit()); w != "" {
			f.warnings = append(f.warnings, w)
		}
		f.accounts = append(f.accounts, a)
		f.watches = append(f.watches, a.set(specs, p, old, l)...)
	}
	slices.SortFunc(f.accounts, func(a, b *account) int { return cmp.Compare(a.name, b.name) })
	slices.SortFunc(f.watches, func(a, b *watch) int {
		return cmp.Or(cmp.Compare(a.account, b.account), cmp.Compare(a.queue, b.queue), cmp.Compare(a.kind, b.kind))
	})
	slices.Sort(f.warnings)
	for _, w := range f.watches {
		f.byID[w.id] = append(f.byID[w.id], w)
	}
	for _, a := range old.accounts {
		if _, ok := byAccount[a.name]; !ok {
			a.set(nil, plan{stretch: 1, slots: minSlots}, old, nil)
		}
	}
	f.discoveries = c.discovered(f)
	c.fleet.Store(f)
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// discovered returns what discovery has found so far. The setting lock is held.
func (c *Collector) discovered(f *fleet) []discovered {
	all := make([]discovered, 0, len(c.discoveries))
	for _, name := range slices.Sorted(maps.Keys(c.discoveries)) {
		d := c.discoveries[name].discovered
		d.account, d.labels = name, f.account(name).labels
		all = append(all, d)
	}
	return all
}
