package demo

import (
	"bytes"
	"fmt"
	"net"
	"text/tabwriter"

	"github.com/qwatch/qwatch/internal/app"
)

// summarize tells what runs and where to look.
func (o Options) summarize(r app.Running, file string, op operator, service *Service) error {
	var b bytes.Buffer
	main := "http://" + r.Main.String()
	probes := main
	if r.Probes != nil {
		probes = "http://" + r.Probes.String()
	}
	chars := characters()
	fmt.Fprintf(&b, "qwatch demo: %d queues on an embedded queue service, with producers and consumers.\n\n", len(chars))

	tw := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "  page\t%s/\n", main)
	fmt.Fprintf(tw, "  metrics\t%s/metrics\n", main)
	fmt.Fprintf(tw, "  API\t%s/api/v1/queues\n", main)
	fmt.Fprintf(tw, "  probes\t%s/livez, /readyz, /startupz (?verbose)\n", probes)
	if r.GRPC != nil {
		fmt.Fprintf(tw, "  scaling\t%s/api/v1/scaling/%s/orders?strategy=drain, and KEDA's gRPC at %s\n", main, account, r.GRPC)
	}
	fmt.Fprintf(tw, "  storage\t%s\n", service.URL())
	if file != "" {
		fmt.Fprintf(tw, "  configuration\t%s (removed at the end)\n", file)
	}
	if op.token != "" {
		fmt.Fprintf(tw, "  operator\t%s (the page asks for it: to pause, to look into poison, to replay)\n", op.token)
	}
	_ = tw.Flush() // into memory

	b.WriteString("\nWhat there is to see:\n\n")
	tw = tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, c := range chars {
		fmt.Fprintf(tw, "  %s\t%s\t%s\n", c.name, c.kind, c.expect)
	}
	_ = tw.Flush()

	b.WriteString("\nLook around from another terminal:\n\n")
	if file != "" {
		fmt.Fprintf(&b, "  export QWATCH_CONFIG=%s\n", file)
		for _, args := range []string{
			"queue list",
			"queue peek " + account + "/audit --max 3 --body",
			"poison list " + account + "/payments",
			`queue send ` + account + `/orders '{"number":1}'`,
		} {
			fmt.Fprintf(&b, "  %s %s\n", o.Command, args)
		}
	}
	ask := ""
	if r.Main.String() != "127.0.0.1:9780" {
		ask = " --server " + main
	}
	for _, args := range []string{"top", "why " + account + "/payments", "tune"} {
		fmt.Fprintf(&b, "  %s %s%s\n", o.Command, args, ask)
	}
	fmt.Fprintf(&b, "  curl -s %s/metrics | grep queue_messages_dead_lettered_total\n", main)
	if !isDefaultProbes(r.Probes) {
		fmt.Fprintf(&b, "  %s healthcheck --url %s/readyz\n", o.Command, probes)
	} else {
		fmt.Fprintf(&b, "  %s healthcheck\n", o.Command)
	}
	b.WriteString("\nCtrl-C ends it.\n")
	_, err := o.Summary.Write(b.Bytes())
	return err
}

func isDefaultProbes(a net.Addr) bool { return a != nil && a.String() == "127.0.0.1:9781" }
