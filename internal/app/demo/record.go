package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/qwatch/qwatch/internal/app"
	"github.com/qwatch/qwatch/internal/config"
	"github.com/qwatch/qwatch/internal/forward"
	"github.com/qwatch/qwatch/internal/web"
	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// Recording describes how Record runs the demo's fleet.
type Recording struct {
	// Duration is how long the fleet runs. Required.
	Duration time.Duration
	// Interval is the time between scrapes. Default 15 s.
	Interval time.Duration
	// Seed decides the traffic.
	Seed uint64
	// Troubles says whether a queue has its trouble at a time since the start: that payments are refused and cannot be
	// read, that shipping's attempts fail, that nobody consumes audit. A queue without its trouble is handled
	// well. Where it is set the queues have no past either. Nil: all of them, all the time, as in the demo.
	Troubles func(queue string, since time.Duration) bool
	// Logger gets qwatch's own log. Nil discards.
	Logger *slog.Logger
}

// Instance is the label by which a recording's target goes.
const Instance = "qwatch:9780"

// Record runs the demo's fleet – its queues, producers, handlers and the whole of qwatch – without a socket, and writes
// what a Prometheus that scrapes it would have recorded, as `promtool tsdb create-blocks-from openmetrics` reads it.
// Everything is by the clock of the goroutine that calls it: inside a testing/synctest bubble an hour takes seconds.
func Record(ctx context.Context, w io.Writer, r Recording) error {
	begin := time.Now()
	var when troubles
	if r.Troubles != nil {
		when = func(name string) bool { return r.Troubles(name, time.Since(begin)) }
	}
	if r.Interval == 0 {
		r.Interval = 15 * time.Second
	}
	if r.Logger == nil {
		r.Logger = slog.New(slog.DiscardHandler)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	around, stopAround := context.WithCancel(context.WithoutCancel(ctx))
	var parts errgroup.Group
	end := func() error {
		stopAround()
		return parts.Wait()
	}
	service := &Service{Server: queuetest.New(queuetest.Options{})}
	d := newDice(r.Seed)
	called, page := newPipe(), newPipe()
	parts.Go(func() error { return serve(around, web.NewServer(handlers(d, when), r.Logger), called) })

	const address = "127.0.0.1:9780" // nothing listens there
	text, err := configFile(service.Server.ConnectionString(), "http://"+address, address, "off", "off", "")
	if err != nil {
		return errors.Join(err, end())
	}
	cfg, _, err := config.Parse("qwatch.yaml", text, nil)
	if err != nil {
		return errors.Join(fmt.Errorf("read the demo's configuration: %w", err), end())
	}
	if err := recordedPast(ctx, service, cfg, when, d); err != nil {
		return errors.Join(err, end())
	}
	hands := map[string]processor.Handler{}
	for _, c := range characters() {
		if !c.consumed {
			continue
		}
		h, err := forward.HTTP(forward.HTTPConfig{URL: queue.Secret("http://" + address + "/" + c.name), Timeout: handlerTimeout, Dial: called.dial})
		if err != nil {
			return errors.Join(err, end())
		}
		defer h.Close()
		hands[account+"/"+c.name] = h
	}
	parts.Go(func() error {
		defer stop() // whatever ends the recording ends qwatch
		return record(ctx, w, page, r, begin)
	})
	err = app.Run(ctx, app.Options{
		Config: cfg, Logger: r.Logger, Version: "v0.0.0-demo", Transport: service.Server, Handlers: hands,
		Listen: func(context.Context, string, string) (net.Listener, error) { return page, nil },
		Started: func(running app.Running) {
			for _, p := range producersFor(running.Fleet, d, when) {
				parts.Go(func() error { return p.run(ctx) })
			}
			for _, q := range running.Fleet.Queues {
				if when != nil && q.Config.Consumer == nil {
					parts.Go(func() error { return when.consumeOutside(ctx, q.Queue) })
				}
			}
		},
	})
	stop()
	return errors.Join(err, end())
}

// recordedPast makes the queues, with the demo's past where their troubles are the demo's.
func recordedPast(ctx context.Context, service *Service, cfg *config.Config, when troubles, d *dice) error {
	opening := app.FleetOptions{Transport: service.Server}
	if when == nil {
		return past(ctx, service, cfg, opening, d)
	}
	fleet, err := app.OpenFleet(cfg, opening)
	if err != nil {
		return err
	}
	defer fleet.Close()
	for _, q := range fleet.Queues {
		if err := q.Create(ctx); err != nil {
			return fmt.Errorf("create the demo's queues: %w", err)
		}
	}
	return nil
}

// record scrapes until the recording is long enough.
func record(ctx context.Context, w io.Writer, page *pipe, r Recording, begin time.Time) error {
	client := &http.Client{Transport: &http.Transport{DialContext: page.dial, DisableKeepAlives: true}}
	b := bufio.NewWriter(w)
	tick := time.NewTicker(r.Interval)
	defer tick.Stop()
	for time.Since(begin) < r.Duration {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		if err := scrape(ctx, b, client, begin); err != nil {
			return fmt.Errorf("scrape the demo after %v: %w", time.Since(begin), err)
		}
	}
	_, _ = b.WriteString("# EOF\n") // Flush tells
	return b.Flush()
}

func scrape(ctx context.Context, w *bufio.Writer, client *http.Client, begin time.Time) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+Instance+"/metrics", nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
	at := time.Now().UnixMilli()
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if line := lines.Text(); !strings.HasPrefix(line, "#") {
			series, value := sample(line)
			if strings.HasPrefix(series, "process_start_time_seconds") {
				value = fmt.Sprint(begin.Unix()) // which the system tells by another clock
			}
			fmt.Fprintf(w, "%s %s %d.%03d\n", series, value, at/1000, at%1000)
		}
	}
	_, err = fmt.Fprintf(w, "up{%s} 1 %d.%03d\n", target, at/1000, at%1000) // it tells of those before as well
	return errors.Join(err, lines.Err())
}

// target are the labels that a Prometheus adds.
const target = `instance="` + Instance + `",job="qwatch"`

// sample reads a line of an exposition into the series as Prometheus stores it, and the value.
func sample(line string) (series, value string) {
	name, rest, _ := strings.Cut(line, " ")
	if at := strings.IndexByte(name, '{'); at >= 0 {
		labels := line[at+1:]
		end, quoted := 0, false
		for end < len(labels) && (quoted || labels[end] != '}') {
			switch {
			case quoted && labels[end] == '\\':
				end++
			case labels[end] == '"':
				quoted = !quoted
			}
			end++
		}
		series = line[:at] + "{" + target + "," + labels[:end] + "}"
		rest = strings.TrimPrefix(labels[end:], "} ")
	} else {
		series = name + "{" + target + "}"
	}
	value, _, _ = strings.Cut(rest, " ") // an exemplar may follow
	return series, value
}
