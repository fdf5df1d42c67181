package app

import (
	"errors"

	"github.com/qwatch/qwatch/collector"
	"github.com/qwatch/qwatch/internal/config"
	"github.com/qwatch/qwatch/internal/web"
	"github.com/qwatch/qwatch/processor"
)

// state is everything that a configuration describes, as it is in use. It never changes: a reload puts
// another one in its place, which shares with it the accounts, queues and consumers whose settings stayed.
//
// What answers requests, checks or scrapes asks service.state each time, and keeps nothing of it from one
// answer to the next: neither the state, nor its slices, nor a queue or an account, which a reload may
// close. What has more to do after a reload – series of its own to delete, a loop to end – is appended to
// service.applied. The collector, the registry, the health checks and the tokens stay for the life of the
// process and may be kept.
type state struct {
	config    *config.Config
	fleet     *Fleet
	consumers []*consumer // in the order of the file
	byName    map[string]*consumer
}

// state returns what is in use.
func (s *service) state() *state { return s.inUse.Load() }

// prepare makes what a configuration describes, with what of the state before stays; nil: there is none. It starts
// nothing, and changes nothing that is in use. Errors are *ConfigError.
func (s *service) prepare(cfg *config.Config, before *state) (*state, error) {
	old := &Fleet{}
	if before != nil {
		old = before.fleet
	}
	opts := s.opening
	consumed := map[string]bool{}
	for _, a := range cfg.Accounts {
		for _, q := range a.Queues {
			consumed[fullName(a.Name, q.Name)] = q.Consumer != nil
		}
	}
	opts.OnSend = func(account, name string) func() {
		if !consumed[fullName(account, name)] {
			return nil
		}
		return s.consumers.Sent(account, name)
	}
	fleet, err := reopenFleet(cfg, opts, old)
	if err != nil {
		return nil, err
	}
	st := &state{config: cfg, fleet: fleet, byName: map[string]*consumer{}}
	var errs []error
	for _, q := range fleet.Queues {
		if q.Config.Consumer == nil {
			continue
		}
		c, err := s.consumer(q, before)
		if err != nil {
			errs = append(errs, fault(q.Config.Pos, err))
			continue
		}
		st.consumers = append(st.consumers, c)
		st.byName[c.name] = c
	}
	if err := errors.Join(errs...); err != nil {
		st.abandon(before)
		return nil, &ConfigError{err}
	}
	return st, nil
}

// abandon releases what the state does not share with the one before; nil: all of it. Nothing of it may run.
func (st *state) abandon(before *state) {
	for _, c := range st.consumers {
		if !before.has(c) {
			c.forget()
		}
	}
	var old *Fleet
	if before != nil {
		old = before.fleet
	}
	st.fleet.closeBut(old)
}

// has says whether the consumer is one of the state's. A nil state has none.
func (st *state) has(c *consumer) bool { return st != nil && st.byName[c.name] == c }

// watching returns how the collector watches what the state describes.
func (st *state) watching() (collector.Config, error) {
	cfg := watchConfig(st.config.Watch)
	cfg.Targets = make([]collector.Target, 0, len(st.fleet.Queues))
	for _, q := range st.fleet.Queues {
		t := target(q)
		if c := st.byName[q.String()]; c != nil {
			c.tell(&t)
		}
		cfg.Targets = append(cfg.Targets, t)
	}
	shared, err := sharedPoison(st.fleet)
	if err != nil {
		return collector.Config{}, &ConfigError{err}
	}
	cfg.Targets = append(cfg.Targets, shared...)
	cfg.Discovery = st.fleet.discoveries()
	return cfg, nil
}

// adopt puts a state in use. What it has no more is still running.
func (s *service) adopt(st *state) {
	s.bill.SetPrice(st.config.Watch.PricePer10kTransactions)
	for _, a := range st.config.Accounts {
		s.storage.Init(a.Name, append(operations(a), canaryOperations(st.config.Watch.Canary, a.Name)...))
		s.bill.Init(a.Name)
	}
	for _, a := range st.fleet.accounts {
		s.credentials.Watch(a.Name(), a.CredentialExpiry)
	}
	s.inUse.Store(st)
	s.checkConsumers(len(st.consumers) > 0)
	for _, f := range s.applied {
		f(st)
	}
}

// statuses returns what every consumer does.
func (s *service) statuses() []processor.Status {
	consumers := s.state().consumers
	all := make([]processor.Status, 0, len(consumers))
	for _, c := range consumers {
		all = append(all, c.Status())
	}
	return all
}

// steered returns the consumer of a queue for the API, nil when it has none.
func (s *service) steered(account, queue string) web.Consumer {
	if c := s.state().byName[fullName(account, queue)]; c != nil {
		return c.Processor
	}
	return nil
}
