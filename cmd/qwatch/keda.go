package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/qwatch/qwatch/internal/app"
	"github.com/qwatch/qwatch/internal/config"
	"github.com/qwatch/qwatch/internal/scaler"
	"github.com/qwatch/qwatch/internal/scaler/manifest"
)

func (c *cli) kedaCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "keda",
		Short: "Let KEDA scale on qwatch's signal",
	}, c.kedaGenerateCommand())
}

func (c *cli) kedaGenerateCommand() *cobra.Command {
	var o manifest.Options
	var strategy, file string
	cmd := &cobra.Command{
		Use:   "generate [ACCOUNT/QUEUE]...",
		Short: "Write ScaledObjects or ScaledJobs for the queues of the configuration",
		Long: `Write ScaledObjects or ScaledJobs, and the TriggerAuthentication they need, for the queues
named, or for every queue of the configuration.

Each queue gets an object of its own, for a Deployment of the queue's name; with --target all
of them are triggers of one object, and KEDA follows the one that asks for most.
What cannot work, or not as it seems to, is a warning on standard error.`,
		Example: `  qwatch keda generate -c qwatch.yaml -n queues
  qwatch keda generate -c qwatch.yaml orders/orders --strategy drain --target order-workers --max 30
  qwatch keda generate -c qwatch.yaml orders/reports --kind scaledjob --image reports:1.4
  qwatch keda generate -c qwatch.yaml --scaler prometheus --prometheus http://prometheus.monitoring.svc:9090`,
		ValidArgsFunction: func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
			names, directive := c.completeQueue(cmd, nil, prefix)
			return slices.DeleteFunc(names, func(n string) bool { return slices.Contains(args, n) }), directive
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			// To the generator 0 is the default; who writes it means something else.
			var errs []error
			for _, name := range []string{"max", "queue-length", "polling-interval"} {
				if fl := cmd.Flags().Lookup(name); fl.Changed && isZero(o, name) {
					errs = append(errs, fmt.Errorf("--%s must be above 0; leave it out for the default", name))
				}
			}
			if len(errs) > 0 {
				return usageError{errors.Join(errs...)}
			}
			if strategy != "" {
				s, err := scaler.ParseStrategy(strategy)
				if err != nil {
					return usagef("--strategy: %v", err)
				}
				o.Strategy = s
			}
			return c.kedaGenerate(o, args, file)
		},
	}
	c.configFlag(cmd)
	f := cmd.Flags()
	choice := func(p *string, name, value string, values []string, usage string) {
		f.StringVar(p, name, value, usage+": "+strings.Join(values, ", "))
		if err := cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
			panic(err) // no such flag: a mistake in this file
		}
	}
	choice(&o.Kind, "kind", manifest.KindObject, manifest.Kinds(), "`kind` of object")
	choice(&o.Scaler, "scaler", manifest.ScalerExternal, manifest.Scalers(), "`scaler` of KEDA that asks")
	choice(&strategy, "strategy", "", scaler.Strategies(), "`strategy` (default drain where every queue has an objective, else inflight; for jobs visible)")
	choice(&o.Auth, "auth", "", manifest.Auths(), "how KEDA signs in to the API or to Prometheus, a `way` (default what server.webConfigFile asks of the API, else none; tls,basic and tls,bearer are both)")
	choice(&o.JobStrategy, "scaling-strategy", "", []string{"default", "accurate", "eager"}, "KEDA's `strategy` for jobs (default what fits)")
	f.StringVar(&o.Target, "target", "", "`name` of the workload that all the queues are for (default one for each queue, of its name)")
	f.StringVar(&o.TargetKind, "target-kind", "", "its `kind`, such as StatefulSet (default Deployment)")
	f.StringVar(&o.Name, "name", "", "`name` of the object (default the target's)")
	f.StringVarP(&o.Namespace, "namespace", "n", "", "`namespace` of the objects (default the one they are applied to)")
	f.StringVar(&o.Address, "address", "", "`host` or host:port where KEDA finds qwatch (default qwatch.NAMESPACE.svc)")
	f.StringVar(&o.Prometheus, "prometheus", "", "`URL` of Prometheus, with --scaler prometheus")
	f.StringVar(&o.Secret, "secret", "qwatch-scaler", "`name` of the Secret that KEDA signs in with")
	f.StringVar(&o.Image, "image", "", "container `image` of a job")
	f.Float64Var(&o.QueueLength, "queue-length", 0, "`messages` that one replica is for (default 5; drain 1)")
	f.Float64Var(&o.Activation, "activation-queue-length", 0, "`messages` that call for no replica yet")
	f.IntVar(&o.Min, "min", 0, "fewest `replicas`")
	f.IntVar(&o.Max, "max", 100, "most `replicas`")
	f.IntVar(&o.Fallback, "fallback", 0, "`replicas` there are at least while qwatch cannot be asked (default as many as there were)")
	f.Var((*duration)(&o.Polling), "polling-interval", "between two questions (default watch.interval, from 15s to 30s)")
	f.Var((*duration)(&o.Cooldown), "cooldown", "from the last message to no replica (default 5m; drain 1m)")
	f.StringVarP(&file, "output", "o", "", "`file` to write (default standard output)")
	return cmd
}

// isZero says whether the option of a flag is 0.
func isZero(o manifest.Options, flag string) bool {
	switch flag {
	case "max":
		return o.Max == 0
	case "queue-length":
		return o.QueueLength == 0
	default:
		return o.Polling == 0
	}
}

func (c *cli) kedaGenerate(o manifest.Options, names []string, file string) error {
	cfg, _, err := c.loadConfig()
	if err != nil {
		return err
	}
	if o.Queues, err = scaledQueues(cfg, names); err != nil {
		return err
	}
	s := cfg.Server
	o.Peers, o.PollInterval = cfg.Scaling.Peers != "", cfg.Watch.Interval
	o.HTTPPort, o.GRPCPort = portOf(s.Listen), portOf(s.GRPC)
	o.GRPCTLS = s.GRPCTLS != nil
	o.ClientCert = o.GRPCTLS && s.GRPCTLS.ClientCAFile != ""
	if s.GRPC == config.Off && (o.Scaler == manifest.ScalerExternal || o.Scaler == manifest.ScalerPush) {
		return usagef("--scaler %s asks by gRPC, and %s is off; turn it on, or use metrics-api", o.Scaler, cfg.At("server.grpc"))
	}
	c.kedaReach(o, cfg)
	c.kedaAuth(&o, cfg)
	g, err := manifest.Generate(o)
	if err != nil {
		return usageError{err}
	}
	for _, w := range g.Warnings {
		c.warn(w)
	}
	var b bytes.Buffer
	if err := g.Write(&b); err != nil {
		return err
	}
	if file == "" {
		return c.write(b.Bytes())
	}
	if err := os.WriteFile(filepath.Clean(file), b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("keda generate: %w", err)
	}
	return nil
}

// portOf is the port of an address of the configuration; "" for none in particular.
func portOf(address string) string {
	_, port, err := net.SplitHostPort(address)
	if err != nil || port == "0" {
		return ""
	}
	return port
}

// listing names queues for people.
func listing(queues []config.Queue) string {
	names := make([]string, len(queues))
	for i, q := range queues {
		names[i] = q.Account + "/" + q.Name
	}
	return app.Listing(names)
}

// scaledQueues are the queues named, or those of the file that are nobody's poison queue.
func scaledQueues(cfg *config.Config, names []string) ([]manifest.Queue, error) {
	var all []config.Queue
	poison := map[string]bool{}
	discovers := map[string]bool{}
	for _, a := range cfg.Accounts {
		discovers[a.Name] = a.Discovery != nil
		all = append(all, a.Queues...)
		for _, q := range a.Queues {
			poison[a.Name+"/"+q.PoisonQueue] = true
		}
	}
	if len(names) == 0 {
		all = slices.DeleteFunc(all, func(q config.Queue) bool { return poison[q.Account+"/"+q.Name] })
		if len(all) == 0 {
			return nil, usagef("%s names no queue; name those to scale for: ACCOUNT/QUEUE", cfg.File())
		}
	} else {
		chosen := make([]config.Queue, 0, len(names))
		for _, name := range names {
			account, queue, _ := strings.Cut(name, "/")
			i := slices.IndexFunc(all, func(q config.Queue) bool { return q.Account == account && q.Name == queue })
			switch {
			case i >= 0:
				chosen = append(chosen, all[i])
			case discovers[account] && queue != "":
				chosen = append(chosen, cfg.QueueFor(account, queue))
			case account == "" || queue == "" || strings.Contains(queue, "/"):
				return nil, usagef("%q is not the name of a queue: write ACCOUNT/QUEUE; there are: %s", name, listing(all))
			default:
				return nil, usagef("queue %q is not in %s; there are: %s", name, cfg.File(), listing(all))
			}
		}
		all = chosen
	}
	out := make([]manifest.Queue, 0, len(all))
	for _, q := range all {
		handlingTime, concurrency := cfg.ScalingOf(q)
		var objective time.Duration
		if q.Objective != nil {
			objective = q.Objective.TimeInQueue
		}
		out = append(out, manifest.Queue{
			Account: q.Account, Name: q.Name, Objective: objective, HandlingTime: handlingTime, Concurrency: concurrency,
			CountsOnly: q.CountsOnly, Consumed: q.Consumer != nil,
		})
	}
	return out, nil
}
