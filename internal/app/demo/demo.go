package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/qwatch/qwatch/internal/app"
	"github.com/qwatch/qwatch/internal/config"
	"github.com/qwatch/qwatch/internal/web"
)

// Options are what Run needs. The zero value runs until its context ends, at the usual
// ports of the loopback address.
type Options struct {
	// Listen and Probes are the addresses of the two listeners. Default 127.0.0.1:9780
	// and :9781. A port that is taken is replaced by a free one.
	Listen, Probes string
	// GRPC is the address of the KEDA scaler and of gRPC health. Default 127.0.0.1:9782; as above.
	GRPC string
	// Storage is where the embedded queue service listens. Default DevelopmentAddress;
	// a port that is taken is replaced by a free one.
	Storage string
	// Seed decides the traffic. Two runs with one seed send the same.
	Seed uint64
	// Command is how a reader of the summary calls qwatch. Default "qwatch".
	Command string
	// Summary gets what there is to see, once everything runs. Default: nothing is told.
	Summary io.Writer
	// Notice is called with what a reader should know, one line each. Default: nobody is told.
	Notice func(string)
	// Logger gets qwatch's own log. Nil discards.
	Logger *slog.Logger
	// Version and Revision are what qwatch was built from.
	Version, Revision string
}

func (o Options) withDefaults() Options {
	set := func(s *string, value string) {
		if *s == "" {
			*s = value
		}
	}
	set(&o.Listen, "127.0.0.1:9780")
	set(&o.Probes, "127.0.0.1:9781")
	set(&o.GRPC, "127.0.0.1:9782")
	set(&o.Storage, DevelopmentAddress)
	set(&o.Command, "qwatch")
	if o.Summary == nil {
		o.Summary = io.Discard
	}
	if o.Notice == nil {
		o.Notice = func(string) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Run runs the demo until ctx ends, and returns nil then.
func Run(ctx context.Context, o Options) (err error) {
	o = o.withDefaults()
	storage, err := o.listen(ctx, "the queue service", "--storage", o.Storage)
	if err != nil {
		return err
	}
	service := newService(storage, o.Logger)
	// The parts around qwatch outlive it: it drains into them.
	around, stopAround := context.WithCancel(context.WithoutCancel(ctx))
	var g errgroup.Group
	defer func() {
		stopAround()
		err = errors.Join(err, g.Wait())
	}()
	g.Go(func() error { return service.Serve(around) })

	d := newDice(o.Seed)
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen for the handlers: %w", err)
	}
	g.Go(func() error { return serve(around, web.NewServer(handlers(d, nil), o.Logger), listener) })

	handlers := "http://" + listener.Addr().String()
	cfg, file, op, remove, err := o.configure(service, handlers)
	if err != nil {
		return err
	}
	defer remove()
	// At once, so that nothing is left even if somebody does not wait for the end.
	context.AfterFunc(ctx, remove)
	if err := past(ctx, service, cfg, app.FleetOptions{}, d); err != nil {
		if ctx.Err() != nil {
			return nil // stopped before it began
		}
		return err
	}
	return o.run(ctx, cfg, file, op, service, d, func(r app.Running) error { return o.relocate(r, file, service, handlers, op) })
}

// relocate writes the addresses that the demo listens at, where one that was asked for was taken, to the file: other
// commands find it by them.
func (o Options) relocate(r app.Running, file string, service *Service, handlers string, op operator) error {
	listen, probes, grpc := atPort(o.Listen, r.Main), atPort(o.Probes, r.Probes), atPort(o.GRPC, r.GRPC)
	if file == "" || listen == o.Listen && probes == o.Probes && grpc == o.GRPC {
		return nil
	}
	text, err := configFile(service.ConnectionString(), handlers, listen, probes, grpc, op.file)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_TRUNC, 0) // it may be removed at any time, and must not come back
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

// atPort is an address that was asked for, with the port of the listener there is; as asked for where there is none.
func atPort(asked string, l net.Addr) string {
	if l == nil {
		return asked
	}
	host, _, err := net.SplitHostPort(asked)
	_, port, err2 := net.SplitHostPort(l.String())
	if err != nil || err2 != nil {
		return asked
	}
	return net.JoinHostPort(host, port)
}

// run runs qwatch and the producers. Relocate is called once it is known where qwatch listens.
func (o Options) run(ctx context.Context, cfg *config.Config, file string, op operator, service *Service, d *dice, relocate func(app.Running) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var producers errgroup.Group
	err := app.Run(ctx, app.Options{
		Config: cfg, Logger: o.Logger, Version: o.Version, Revision: o.Revision,
		Listen: func(ctx context.Context, setting, address string) (net.Listener, error) {
			return o.listen(ctx, setting, strings.Replace(setting, "server.", "--", 1), address)
		},
		Started: func(r app.Running) {
			context.AfterFunc(ctx, func() {
				o.Notice(fmt.Sprintf("ending: running handlers have %v to finish", drainTimeout))
			})
			for _, p := range producersFor(r.Fleet, d, nil) {
				producers.Go(func() error { return p.run(ctx) })
			}
			if err := relocate(r); err != nil && ctx.Err() == nil {
				o.Logger.Error("write the addresses to the configuration", "error", err)
			}
			if err := o.summarize(r, file, op, service); err != nil {
				o.Logger.Error("write summary", "error", err)
			}
		},
	})
	stop()
	return errors.Join(err, producers.Wait())
}

// listen opens a listener, whose address a flag of the command sets, at a free port when the one asked for is taken.
func (o Options) listen(ctx context.Context, what, flag, address string) (net.Listener, error) {
	l, moved, err := listenOrAny(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("listen for %s: %w; set another address with %s", what, err, flag)
	}
	if moved {
		o.Notice(fmt.Sprintf("%s is taken: %s listens at %s instead", address, what, l.Addr()))
	}
	return l, nil
}

// configure loads the demo's configuration, by way of a file that other commands can use
// too. Where no file can be written, as in an image without a temporary directory, file
// is empty.
func (o Options) configure(service *Service, handlers string) (cfg *config.Config, file string, op operator, remove func(), err error) {
	remove = func() {}
	dir, err := os.MkdirTemp("", "qwatch-demo-")
	if err == nil {
		remove = sync.OnceFunc(func() {
			if err := os.RemoveAll(dir); err != nil {
				o.Logger.Warn("remove configuration", "error", err)
			}
		})
		file = filepath.Join(dir, "qwatch.yaml")
		op, err = newOperator(dir)
	}
	text, broken := configFile(service.ConnectionString(), handlers, o.Listen, o.Probes, o.GRPC, op.file)
	if broken == nil && err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		file = ""
		o.Notice(fmt.Sprintf("no configuration file for other commands: %v", err))
	}
	if err = broken; err == nil {
		cfg, _, err = config.Parse(cmp.Or(file, "qwatch.yaml"), text, nil)
	}
	if err != nil {
		remove()
		return nil, "", op, nil, fmt.Errorf("read the demo's configuration: %w", err)
	}
	return cfg, file, op, remove, nil
}

// past gives the queues their history, before anything watches them.
func past(ctx context.Context, service *Service, cfg *config.Config, opening app.FleetOptions, d *dice) error {
	fleet, err := app.OpenFleet(cfg, opening)
	if err != nil {
		return err
	}
	defer fleet.Close()
	return history(ctx, service, fleet, d)
}

// producersFor returns what sends to the fleet's queues.
func producersFor(fleet *app.Fleet, d *dice, when troubles) []*producer {
	var all []*producer
	for _, c := range characters() {
		for _, q := range fleet.Queues {
			if q.Name() == c.name && c.every > 0 {
				all = append(all, &producer{character: c, when: when, q: q.Queue, now: time.Now, dice: d})
			}
		}
	}
	return all
}
