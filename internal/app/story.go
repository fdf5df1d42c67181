package app

import (
	"net/url"
	"path/filepath"
	"time"

	"github.com/qwatch/qwatch/collector"
	"github.com/qwatch/qwatch/internal/config"
	"github.com/qwatch/qwatch/internal/story"
	"github.com/qwatch/qwatch/processor"
)

// Bounds of how often the story looks at the fleet: as often as it is polled, within reason.
const (
	storyFastest = time.Second
	storySlowest = 30 * time.Second
	storyBound   = 2 * time.Minute
)

// tellStories makes what remembers how the queues fare. It reads everything when it is asked.
func (s *service) tellStories() {
	s.storyLoop = s.health.Loop("story", storyBound)
	s.story = story.New(story.Config{
		Snapshot:   func() *collector.Snapshot { return s.collector.Snapshot() },
		Queue:      func(account, queue string) []collector.QueueState { return s.collector.Queue(account, queue) },
		Processors: s.statuses,
		Settings:   s.settings,
		Interval:   min(max(s.o.Config.Watch.Interval, storyFastest), storySlowest),
		Beat:       s.storyLoop.Beat,
	})
}

// measure lets the story know what a consumer's handler does, and of what it fails.
func (s *service) measure(cfg *processor.Config, q FleetQueue) {
	account, name := q.Config.Account, q.Config.Name
	cfg.Middleware = append(cfg.Middleware, s.story.Middleware(account, name))
	cfg.Failures = s.story.Hook(account, name, cfg.Failures)
}

// settings are how the consumer of a queue is configured.
func (s *service) settings(account, queue string) (story.Settings, bool) {
	q := s.state().config.QueueFor(account, queue)
	c := q.Consumer
	if c == nil {
		return story.Settings{}, false
	}
	return story.Settings{
		Handler: handlerName(c.Handler), HandlerTimeout: c.Handler.Timeout(), Concurrency: c.Concurrency,
		VisibilityTimeout: c.VisibilityTimeout, Renew: c.Renew, MaxDequeueCount: c.MaxDequeueCount,
		RetryInitial: c.Retry.Initial, RetryMax: c.Retry.Max,
	}, true
}

// handlerName names what messages are given to, without anything that may be secret: of a URL its
// origin, of a command its program.
func handlerName(h config.Handler) string {
	switch {
	case h.HTTP != nil:
		u, err := url.Parse(string(h.HTTP.URL))
		if err != nil {
			return ""
		}
		return u.Scheme + "://" + u.Host
	case h.Exec != nil && len(h.Exec.Command) > 0:
		return filepath.Base(h.Exec.Command[0])
	default:
		return ""
	}
}
