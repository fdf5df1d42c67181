package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/qwatch/qwatch/health"
	"github.com/qwatch/qwatch/internal/config"
	"github.com/qwatch/qwatch/internal/metric"
	"github.com/qwatch/qwatch/internal/story"
	"github.com/qwatch/qwatch/internal/web"
)

// Loader reads the configuration anew. The error has every fault.
type Loader func() (*config.Config, []config.Warning, error)

// reloading is how the last reload went.
type reloading struct {
	metric *metric.Reload
	asked  chan reloadRequest

	mu      sync.Mutex
	refused time.Time // when the newest file was refused; zero: it is in use
	faults  []string
	restart []string // what the file says that takes a restart
}

type reloadRequest struct {
	answer chan<- reloadAnswer // holds one
}

type reloadAnswer struct {
	web.Reloaded
	err error
}

func (r *reloading) init(m *metric.Reload) {
	r.metric, r.asked = m, make(chan reloadRequest)
	r.metric.Succeeded(time.Now())
}

// result is the check of it.
func (r *reloading) result() health.Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.refused.IsZero() {
		detail := fmt.Sprintf("the file was refused at %s and the one before is in use: %s", r.refused.UTC().Format(time.RFC3339), r.faults[0])
		if n := len(r.faults); n > 1 {
			detail += fmt.Sprintf(" (and %d more)", n-1)
		}
		return health.Result{Status: health.Degraded, Reason: health.ReasonConfig, Detail: detail}
	}
	if len(r.restart) > 0 {
		settings := make([]string, len(r.restart))
		for i, text := range r.restart {
			settings[i] = strings.TrimSuffix(text, takesRestart)
		}
		return health.Result{Detail: "waiting for a restart: " + Listing(settings)}
	}
	return health.Result{}
}

func (r *reloading) succeeded(restart []string) {
	r.metric.Succeeded(time.Now())
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refused, r.faults, r.restart = time.Time{}, nil, restart
}

func (r *reloading) failed(faults []string) {
	r.metric.Refused()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refused, r.faults = time.Now(), faults
}

// errEnding is why nothing is reloaded.
var errEnding = errors.New("qwatch is ending")

// reload asks for a reload and waits until it is done. The error is a *web.RefusedError when the file is at fault.
func (s *service) reload(ctx context.Context) (web.Reloaded, error) {
	answer := make(chan reloadAnswer, 1)
	select {
	case s.reloading.asked <- reloadRequest{answer}:
	case <-s.ended:
		return web.Reloaded{}, errEnding
	case <-ctx.Done():
		return web.Reloaded{}, ctx.Err()
	}
	select {
	case a := <-answer:
		return a.Reloaded, a.err
	case <-ctx.Done(): // it goes on
		return web.Reloaded{}, ctx.Err()
	}
}

// reloads reloads, one after the other, whenever somebody asks, until ctx ends. New consumers run in g.
func (s *service) reloads(ctx context.Context, g *errgroup.Group) {
	for {
		var answer chan<- reloadAnswer
		select {
		case <-s.o.Reload:
		case r := <-s.reloading.asked:
			answer = r.answer
		case <-ctx.Done():
			return
		}
		done, err := s.reloadOnce(ctx, g)
		if answer != nil {
			answer <- reloadAnswer{done, err}
		}
	}
}

// reloadOnce reads the file and puts in use what it says, or nothing of it.
func (s *service) reloadOnce(ctx context.Context, g *errgroup.Group) (web.Reloaded, error) {
	next, warnings, err := s.load()
	var done web.Reloaded
	if err == nil {
		done, err = s.replace(ctx, g, next)
	}
	if errors.Is(err, errEnding) {
		return done, err
	}
	if err != nil {
		refused := &web.RefusedError{Faults: texts(err)}
		s.reloading.failed(refused.Faults)
		s.story.Note(story.Event{Kind: story.EventReloadFailed, Level: story.LevelBad, Text: "configuration refused: " + refused.Faults[0]})
		s.log.Error("configuration not reloaded: the one before stays in use", "error", err)
		return done, refused
	}
	for _, w := range warnings {
		done.Warnings = append(done.Warnings, w.String())
	}
	done.Warnings = append(done.Warnings, doubts(next)...)
	done.Warnings = append(done.Warnings, s.collector.Warnings()...)
	for _, w := range done.Warnings {
		s.log.Warn("a setting may not do what is meant", "reason", w)
	}
	done.Restart = needsRestart(s.o.Config, next)
	for _, w := range done.Restart {
		s.log.Warn("a setting takes a restart", "reason", w)
	}
	s.reloading.succeeded(done.Restart)
	s.story.Note(story.Event{Kind: story.EventReload, Level: story.LevelInfo, Text: "configuration reloaded; changes: " + done.Changes()})
	s.log.Info("configuration reloaded",
		"accounts", len(next.Accounts), "queues", len(s.state().fleet.Queues), "consumers", len(s.state().consumers),
		"changes", done.Changes())
	return done, nil
}

func (s *service) load() (*config.Config, []config.Warning, error) {
	if s.o.Load == nil {
		return nil, nil, errors.New("this process did not get its configuration from a file")
	}
	cfg, warnings, err := s.o.Load()
	if err != nil {
		return nil, nil, Explain(err)
	}
	if files(cfg) != nil {
		return nil, nil, buildable(cfg)
	}
	return cfg, warnings, nil
}

// replace puts what a configuration describes in the place of what is in use. Consumers that are no more, or
// that changed, begin to drain; nobody waits for that.
func (s *service) replace(ctx context.Context, g *errgroup.Group, cfg *config.Config) (done web.Reloaded, err error) {
	before := s.state()
	next, err := s.prepare(cfg, before)
	if err != nil {
		return done, err
	}
	watching, err := next.watching()
	if err != nil {
		next.abandon(before)
		return done, err
	}
	s.createMissing(ctx, next.fleet, before.fleet)

	s.applying.Lock()
	defer s.applying.Unlock()
	if s.draining {
		next.abandon(before)
		return done, errEnding
	}
	if err := s.collector.SetConfig(watching); err != nil {
		next.abandon(before)
		return done, &ConfigError{fmt.Errorf("%s: %w", cfg.At("watch"), err)}
	}
	s.adopt(next)
	for _, c := range next.consumers {
		if before.has(c) {
			continue
		}
		if old := c.before.Load(); old != nil && old.Paused() {
			c.Pause() // what an operator paused stays so
		}
		c.loop = s.health.Loop("processor "+c.name, processorBound)
		c.start(ctx, g, s)
	}
	var ending []*consumer
	for _, c := range before.consumers {
		if !next.has(c) {
			c.stop()
			ending = append(ending, c)
		}
	}
	s.leave(next, ending)
	s.retire(ctx, g, before, next, ending)
	return changes(before, next), nil
}

// leave remembers the consumers that have no successor, for as long as they count: one may come yet.
func (s *service) leave(next *state, ending []*consumer) {
	for name, c := range s.leaving {
		select {
		case <-c.gone:
			delete(s.leaving, name)
		default:
			if next.byName[name] != nil { // its successor knows it
				delete(s.leaving, name)
			}
		}
	}
	for _, c := range ending {
		if next.byName[c.name] == nil {
			s.leaving[c.name] = c
		}
	}
}

// retire takes leave of the accounts that the next state has no more: of their connections when the consumers
// have ended, of what was counted a while later.
func (s *service) retire(ctx context.Context, g *errgroup.Group, before, next *state, ending []*consumer) {
	var gone []string
	for _, a := range before.fleet.accounts {
		if _, err := next.fleet.Account(a.Name()); err != nil {
			gone = append(gone, a.Name())
			s.credentials.Delete(a.Name())
		}
	}
	if len(gone) == 0 && slices.Equal(before.fleet.accounts, next.fleet.accounts) {
		return
	}
	g.Go(func() error {
		for _, c := range ending {
			<-c.ended
		}
		before.fleet.closeBut(next.fleet)
		if len(gone) == 0 || !until(ctx, farewell) {
			return nil
		}
		s.applying.Lock()
		defer s.applying.Unlock()
		for _, name := range gone {
			if _, err := s.state().fleet.Account(name); err != nil { // it has not come back
				s.storage.Delete(name)
				s.bill.Delete(name)
			}
		}
		return nil
	})
}
