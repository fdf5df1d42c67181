package collector

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/qwatch/qwatch/queue"
)

// listing is what one listing of an account found: every queue, by name.
type listing []queue.Info

func (l listing) find(name string) (queue.Info, bool) {
	i, ok := slices.BinarySearchFunc(l, name, func(q queue.Info, name string) int { return cmp.Compare(q.Name, name) })
	if !ok {
		return queue.Info{}, false
	}
	return l[i], true
}

// lacks returns the names of the targets' queues that are not there, sorted.
func (l listing) lacks(targets map[string]Target) []string {
	var names []string
	for name, t := range targets {
		if t.PoisonOnly {
			name = t.Queue.Poison().Name()
		}
		if _, ok := l.find(name); !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// selection is what a discovery makes of a listing.
type selection struct {
	targets []Target // by name
	dropped int      // over MaxQueues
	faults  []error  // of queues that cannot be watched
}

// chooser chooses the queues of one account.
type chooser struct {
	*Discovery
	listing listing
	given   map[string]Target // the account's configured targets, by name
	kept    map[string]Target // what was chosen before and stays as it is, by name
	known   map[string]Target // what was chosen before, by name
	cfg     *Config

	selection
	poisons map[string]bool   // poison queues of given
	left    map[string]bool   // asked for and not chosen
	chosen  map[string]Target // by name
	room    int
}

var errBadTarget = errors.New("the target is not of the queue that was found")

// choose selects the queues to watch.
func (c *chooser) choose() selection {
	c.poisons, c.left, c.chosen = map[string]bool{}, map[string]bool{}, map[string]Target{}
	c.room = max(0, c.MaxQueues-len(c.given))
	for _, t := range c.given {
		if p := t.Queue.Poison(); p != nil {
			c.poisons[p.Name()] = true
		}
	}
	mains, poisons := c.asked()
	for _, name := range mains {
		c.add(name, false)
	}
	for _, name := range poisons {
		main, _ := mainOf(name)
		switch t, ok := c.chosen[main]; {
		case c.left[main]:
		case !ok: // without its main queue
			c.add(main, true)
		case t.Queue.Poison() == nil || t.Queue.Poison().Name() != name: // its main queue has another: this one is like any other
			c.add(name, false)
		}
	}
	c.pair()
	for _, t := range c.chosen {
		c.targets = append(c.targets, t)
	}
	slices.SortFunc(c.targets, func(a, b Target) int { return cmp.Compare(a.Queue.Name(), b.Queue.Name()) })
	return c.selection
}

// asked returns the names that the globs ask for: queues, and what is called like a poison queue. Those
// that are watched already come first.
func (c *chooser) asked() (mains, poisons []string) {
	for _, q := range c.listing {
		name := q.Name
		if _, ok := c.given[name]; ok || c.poisons[name] {
			continue
		}
		main, isPoison := mainOf(name)
		if _, ok := c.given[main]; !isPoison || ok {
			if c.wants(name) {
				mains = append(mains, name)
			}
			continue
		}
		if _, ok := c.listing.find(main); ok && c.wants(main) || c.wants(name) && !c.excludes(main) {
			poisons = append(poisons, name)
		}
	}
	c.keptFirst(mains, func(name string) string { return name })
	c.keptFirst(poisons, func(name string) string { main, _ := mainOf(name); return main })
	return mains, poisons
}

func (c *chooser) keptFirst(names []string, key func(string) string) {
	rank := func(name string) int {
		if _, ok := c.known[key(name)]; ok {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
}

// add chooses a queue, while there is room. poisonOnly is for the poison queue of that name alone.
func (c *chooser) add(name string, poisonOnly bool) {
	if len(c.chosen) >= c.room {
		c.dropped++
		c.left[name] = true
		return
	}
	t, err := c.target(name, poisonOnly)
	if err != nil {
		c.left[name] = true
		c.faults = append(c.faults, fmt.Errorf("queue %s/%s: %w", c.Account.Name(), name, err))
		return
	}
	c.chosen[t.Queue.Name()] = t
}

// target returns how a queue is watched: as before, if it was.
func (c *chooser) target(name string, poisonOnly bool) (t Target, err error) {
	if t, ok := c.kept[name]; ok && t.PoisonOnly == poisonOnly {
		return t, nil
	}
	if t, err = c.Target(name); err != nil {
		return Target{}, err
	}
	if t.Queue == nil || t.Queue.Name() != name || t.Queue.Account() != c.Account {
		return Target{}, errBadTarget
	}
	t.PoisonOnly = poisonOnly
	if p := t.Queue.Poison(); poisonOnly && (p == nil || p.Name() != name+poisonSuffix) {
		return c.target(name+poisonSuffix, false) // its name says nothing, by the settings: a queue like any other
	}
	found := name
	if poisonOnly {
		found += poisonSuffix
	}
	info, _ := c.listing.find(found)
	t = t.withDefaults(c.cfg.Interval)
	t.metadata, t.found = info.Metadata, true
	return t, t.validate()
}

// pair takes out the queues that are the poison queue of one target, and makes those that several
// share queues of their own.
func (c *chooser) pair() {
	users := map[string]int{}
	for _, of := range []map[string]Target{c.given, c.chosen} {
		for _, t := range of {
			if p := t.Queue.Poison(); p != nil {
				users[p.Name()]++
			}
		}
	}
	for name, n := range users {
		_, given := c.given[name]
		t, chosen := c.chosen[name]
		switch {
		case given:
		case n == 1 && chosen && !t.PoisonOnly:
			delete(c.chosen, name)
		case n > 1:
			q, err := c.Account.Queue(name, queue.Config{NoPoison: true, MaxBodyBytes: light})
			if err != nil {
				continue // no queue can be called so: the service cannot have it either
			}
			if !chosen {
				t = Target{found: true}.withDefaults(c.cfg.Interval)
			}
			t.Queue = q
			c.chosen[name] = t
		}
	}
}
