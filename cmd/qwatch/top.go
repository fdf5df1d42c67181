package main

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/qwatch/qwatch/internal/client"
	"github.com/qwatch/qwatch/internal/story"
)

// topView is the part of GET /api/v1/fleet that is shown.
type topView struct {
	At      time.Time     `json:"at"`
	Totals  story.Totals  `json:"totals"`
	Causes  []story.Cause `json:"causes"`
	More    int           `json:"moreCauses"`
	Matched int           `json:"matched"`
	Rows    []story.Row   `json:"rows"`
}

// topFlags are the flags of `qwatch top`.
type topFlags struct {
	interval time.Duration
	once     bool
	desc     bool
	sort     string
	filter   string
	limit    int
}

func (c *cli) topCommand() *cobra.Command {
	f := topFlags{interval: 2 * time.Second}
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show the fleet, live: what is wrong, and the queues that need it most first",
		Long: `Show the fleet, live: what is wrong with one queue or many, and the queues, those that need it
most first. On a terminal it refreshes until Ctrl-C; elsewhere, and with -o json, it tells once.

It asks a running qwatch. Storage is not asked.`,
		Example: "  qwatch top\n  qwatch top --sort oldest --desc --filter payments\n  qwatch top -o json | jq '.[0]'",
		Args:    none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.interval < 500*time.Millisecond {
				return usagef("--interval %v is shorter than 500ms", f.interval)
			}
			if f.limit < 0 || f.limit > 500 {
				return usagef("--limit %d is not 0 to 500", f.limit)
			}
			if orders := []string{"", "queue", "status", "messages", "oldest", "poison", "drain", "loss", "handlers", "read", "team"}; !slices.Contains(orders, f.sort) {
				return usagef("--sort %q is no order; there are:%s", f.sort, strings.Join(orders, " "))
			}
			return c.onRunning(cmd.Context(), func(ctx context.Context, cl *client.Client) error { return c.top(ctx, cl, f) })
		},
	}
	flags := cmd.Flags()
	flags.Var((*duration)(&f.interval), "interval", "how often to refresh")
	flags.BoolVar(&f.once, "once", false, "tell once and end")
	flags.StringVar(&f.sort, "sort", "", "`order`: queue, status, messages, oldest, poison, drain, loss, handlers, read or team (default: the worst first)")
	flags.BoolVar(&f.desc, "desc", false, "the highest first")
	flags.StringVar(&f.filter, "filter", "", "`words` that account, queue, team or status must hold")
	flags.IntVar(&f.limit, "limit", 0, "how many queues (default: as many as fit; elsewhere 100)")
	c.runningFlags(cmd)
	c.outputFlag(cmd)
	return cmd
}

func (c *cli) top(ctx context.Context, cl *client.Client, f topFlags) error {
	live := c.stdoutTerminal && c.output == formatTable && !f.once
	ask := func() (*topView, error) {
		v := url.Values{}
		set := func(name, value string) {
			if value != "" {
				v.Set(name, value)
			}
		}
		set("q", f.filter)
		set("sort", f.sort)
		if f.desc {
			set("desc", "1")
		}
		limit := f.limit
		if limit == 0 && live {
			limit = max(5, c.height()-12)
		}
		if limit > 0 {
			set("limit", strconv.Itoa(min(limit, 500)))
		}
		var view topView
		return &view, cl.Fleet(ctx, v, &view)
	}
	view, err := ask()
	if err != nil {
		return err
	}
	if !live {
		return c.topOnce(view)
	}
	ticker := time.NewTicker(f.interval)
	defer ticker.Stop()
	for {
		text := c.topText(view, err)
		if err := c.write([]byte("\x1b[H\x1b[2J" + text)); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil // Ctrl-C is how it ends
		case <-ticker.C:
		}
		var next *topView
		if next, err = ask(); err == nil {
			view = next
		} else if ctx.Err() != nil {
			return nil
		}
	}
}

// topOnce tells once: the rows as JSON, or everything for people.
func (c *cli) topOnce(view *topView) error {
	if c.output != formatTable {
		return printList(c, view.Rows, func([]story.Row) *table { return nil })
	}
	return c.write([]byte(c.topText(view, nil)))
}

// height is the terminal's; 40 when nobody knows.
func (c *cli) height() int {
	if f, ok := c.stdout.(*os.File); ok {
		if _, rows, err := term.GetSize(int(f.Fd())); err == nil && rows > 0 {
			return rows
		}
	}
	return 40
}

// topText is the whole screen.
func (c *cli) topText(v *topView, failed error) string {
	var b bytes.Buffer
	statuses := make([]string, 0, 4)
	for _, s := range []string{"stalled", "unreachable", "missing", "falling_behind", "hidden", "paused", "unknown", "idle", "ok"} {
		if n := v.Totals.Statuses[s]; n > 0 {
			statuses = append(statuses, fmt.Sprintf("%d %s", n, strings.ReplaceAll(s, "_", " ")))
		}
	}
	fmt.Fprintf(&b, "qwatch  %s  %s: %s\n", clock(v.At), story.Count(int64(v.Totals.Queues), "queue"), strings.Join(statuses, ", "))
	fmt.Fprintf(&b, "%s waiting, the longest for %s; %s dead-lettered\n", story.Count(v.Totals.Messages, "message"),
		story.Duration(time.Duration(v.Totals.OldestSeconds)*time.Second), story.Digits(v.Totals.Poison))
	if failed != nil {
		fmt.Fprintf(&b, "%s\n", c.painted("no longer up to date: "+failed.Error(), bad))
	}
	b.WriteByte('\n')
	const most = 6
	for _, cause := range v.Causes[:min(len(v.Causes), most)] {
		t, word := levelTone(cause.Level)
		since := ""
		if !cause.Since.IsZero() {
			since = ", for " + story.Duration(v.At.Sub(cause.Since))
		}
		fmt.Fprintf(&b, "%s  %s%s\n", c.painted(fmt.Sprintf("%-6s", word), t), clean(cause.Title), since)
	}
	if n := len(v.Causes) - most + v.More; n > 0 && len(v.Causes) > most {
		fmt.Fprintf(&b, "        and %d more\n", n)
	}
	if len(v.Causes) > 0 {
		b.WriteByte('\n')
	}
	topTable(v.Rows).render(&b, c.colour())
	if n := v.Matched - len(v.Rows); n > 0 {
		fmt.Fprintf(&b, "and %s more\n", story.Digits(int64(n)))
	}
	return b.String()
}

func topTable(rows []story.Row) *table {
	t := newTable("no queues", "QUEUE", "STATUS", ">MESSAGES", ">OLDEST", ">POISON", ">FORECAST", "CONSUMER", ">READ")
	number := func(n story.Number, text func(int64) string) string {
		if !n.Known {
			return unknown
		}
		if n.Floor {
			return text(n.Value) + "+"
		}
		return text(n.Value)
	}
	short := func(n int64) string { return story.Short(time.Duration(n) * time.Second) }
	for _, r := range rows {
		tone, _ := levelTone(story.LevelOf(r.Status))
		status := strings.ReplaceAll(r.Status, "_", " ")
		if r.BreakerOpen {
			tone, status = bad, "handler down"
		}
		forecast := unknown
		switch {
		case r.LossSeconds > 0:
			forecast = "loss " + story.Short(asDuration(r.LossSeconds))
		case r.DrainSeconds > 0:
			forecast = "empty " + story.Short(asDuration(r.DrainSeconds))
		}
		consumer, read, poisoned := unknown, "never", plain
		if r.Consumer != "" {
			consumer = fmt.Sprintf("%s %d/%d", r.Consumer, r.Handlers, r.MaxHandlers)
		}
		if r.ReadSeconds >= 0 {
			read = story.Short(asDuration(r.ReadSeconds).Round(time.Second))
		}
		if r.Poison.Value > 0 {
			poisoned = bad
		}
		t.add(r.String(), cell{status, tone}, number(r.Messages, story.Digits), number(r.Oldest, short), cell{number(r.Poison, story.Digits), poisoned}, forecast, consumer, read)
	}
	return t
}
