package collector

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/qwatch/qwatch/queue"
)

const (
	// MinDiscoveryInterval is the shortest interval between two listings of an account.
	MinDiscoveryInterval = time.Second
	// poisonSuffix is what the name of a queue's poison queue ends with, unless it is set.
	poisonSuffix = "-poison"
)

// Discovery watches the queues of an account that a listing finds.
//
// A queue and the poison queue of its name are a pair: the globs are held against the main queue's
// name, and its poison queue comes with it. A poison queue whose main queue is not there is watched
// alone, under the main queue's name, for what lies in it is lost otherwise; so is one that Include
// names and whose main queue it does not. Queues that are targets themselves are left to those, with
// their poison queues. A poison queue that several queues share is watched once, as a queue of its own.
//
// The control queues of Durable Functions (NAME-control-00, NAME-workitems) and of the WebJobs host
// (azure-webjobs-…) are left out, unless a glob of Include spells "control", "workitems" or "azure-webjobs".
type Discovery struct {
	Account *queue.Account // required

	// Include are globs (path.Match) of queue names to watch. Default: all.
	Include []string
	// Exclude are globs of queue names to leave out; they win over Include. Default: none.
	Exclude []string
	// Interval between two listings. Default 5m, at least a second.
	Interval time.Duration
	// MaxQueues bounds how many queues of the account are watched, each with its poison queue and
	// the account's Targets counted. Those that were watched before stay, then names decide.
	// Default 5000.
	MaxQueues int
	// Target says how a queue that was found is watched. It is called once for a name, and must make no
	// request. One that returns an error, or a bad Target, leaves the queue out. Default: a plain
	// queue with its poison queue, without one when the name is too long for it.
	Target func(name string) (Target, error)
}

// withDefaults returns the discovery with its defaults filled in.
func (d Discovery) withDefaults() Discovery {
	if len(d.Include) == 0 {
		d.Include = []string{"*"}
	}
	if d.Interval == 0 {
		d.Interval = 5 * time.Minute
	}
	if d.MaxQueues == 0 {
		d.MaxQueues = 5000
	}
	if d.Target == nil {
		d.Target = func(name string) (Target, error) {
			noPoison := len(name)+len(poisonSuffix) > maxName || strings.HasSuffix(name, poisonSuffix)
			q, err := d.Account.Queue(name, queue.Config{NoPoison: noPoison, MaxBodyBytes: light})
			return Target{Queue: q}, err
		}
	}
	return d
}

const maxName = 63 // characters of a queue's name

func (d Discovery) validate() error {
	var errs []error
	for _, g := range slices.Concat(d.Include, d.Exclude) {
		if _, err := path.Match(g, ""); err != nil {
			errs = append(errs, fmt.Errorf("glob %q: %w", g, err))
		}
	}
	if d.Interval < MinDiscoveryInterval {
		errs = append(errs, fmt.Errorf("interval %v is shorter than %v", d.Interval, MinDiscoveryInterval))
	}
	if d.MaxQueues < 1 {
		errs = append(errs, fmt.Errorf("%d queues at most are too few", d.MaxQueues))
	}
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("discovery of %s: %w", d.Account.Name(), errors.Join(errs...))
}

// checkDiscoveries fills in defaults and returns every fault.
func checkDiscoveries(all []Discovery) ([]Discovery, error) {
	var errs []error
	out := make([]Discovery, 0, len(all))
	seen := map[string]bool{}
	for i, d := range all {
		if d.Account == nil {
			errs = append(errs, fmt.Errorf("discovery %d has no account", i))
			continue
		}
		d = d.withDefaults()
		if err := d.validate(); err != nil {
			errs = append(errs, err)
		}
		if name := d.Account.Name(); seen[name] {
			errs = append(errs, fmt.Errorf("discovery of %s is given twice", name))
		} else {
			seen[name] = true
		}
		out = append(out, d)
	}
	return out, errors.Join(errs...)
}

// Wants says whether Include and Exclude ask for a queue of that name. An empty Include asks for none.
func (d *Discovery) Wants(name string) bool { return d.wants(name) }

// wants says whether the globs ask for a queue.
func (d *Discovery) wants(name string) bool { return d.includes(name) && !d.excludes(name) }

func (d *Discovery) includes(name string) bool {
	part := controlPart(name)
	return slices.ContainsFunc(d.Include, func(g string) bool { return matches(g, name) && strings.Contains(g, part) })
}

func (d *Discovery) excludes(name string) bool {
	return slices.ContainsFunc(d.Exclude, func(g string) bool { return matches(g, name) })
}

func matches(glob, name string) bool {
	ok, err := path.Match(glob, name)
	return ok && err == nil
}

// controlPart returns what a glob must spell to ask for the queue, when that belongs to the inner life of
// Durable Functions or of the WebJobs host: one that is broad enough to match asks for other queues. Else "".
func controlPart(name string) string {
	const control, workItems, webJobs = "-control-", "-workitems", "azure-webjobs-"
	switch i := len(name) - len(control) - 2; {
	case strings.HasPrefix(name, webJobs):
		return strings.Trim(webJobs, "-")
	case strings.HasSuffix(name, workItems):
		return strings.Trim(workItems, "-")
	case i > 0 && name[i:i+len(control)] == control && strings.Trim(name[i+len(control):], "0123456789") == "":
		return strings.Trim(control, "-")
	default:
		return ""
	}
}

// mainOf returns the main queue's name of what is called like a poison queue.
func mainOf(name string) (main string, ok bool) {
	main, ok = strings.CutSuffix(name, poisonSuffix)
	return main, ok && queue.CheckName(main) == nil
}
