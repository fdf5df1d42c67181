package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/qwatch/qwatch/internal/client"
	"github.com/qwatch/qwatch/internal/story"
)

// defaultServer is the qwatch that is asked for what only a running one knows.
const defaultServer = "http://127.0.0.1:9780"

// runningFlags adds the flags of a command that asks a running qwatch and nothing else.
func (c *cli) runningFlags(cmd *cobra.Command) {
	c.timeoutFlag(cmd)
	c.serverFlags(cmd)
	cmd.Flags().Lookup("server").Usage = "the running qwatch to ask, a `URL` (default $QWATCH_SERVER, or " + defaultServer + ")"
}

// onRunning runs f with a client of the running qwatch.
func (c *cli) onRunning(ctx context.Context, f func(context.Context, *client.Client) error) error {
	switch c.serverURL() {
	case "":
		c.server.url = defaultServer
	case serverOff:
		return usagef("--server off leaves nobody to ask, and only a running qwatch knows this: name it with --server")
	}
	_, err := c.onServer(ctx, f)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("%w; start it with \"qwatch run\" or \"qwatch demo\"", err)
	}
	return err
}

func (c *cli) whyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "why ACCOUNT/QUEUE",
		Short: "Tell one queue's story: how it is, the likely cause, what to do",
		Long: `Tell one queue's story: how it is and since when, the likely cause in words with what speaks
for it, the next command, its numbers and what happened to it lately.

It asks a running qwatch, which has watched the queue for a while: one look could not tell.
Storage is not asked. Exit status 1 when the queue is not watched there.`,
		Example: "  qwatch why orders/orders\n  qwatch why orders/orders --server https://qwatch.example:9780 -o json",
		Args:    exact("ACCOUNT/QUEUE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			account, queue, err := names(args[0])
			if err != nil {
				return err
			}
			again := c.server.again() // before a default takes the flag's place
			return c.onRunning(cmd.Context(), func(ctx context.Context, cl *client.Client) error {
				var s story.Story
				if err := cl.Why(ctx, account, queue, &s); err != nil {
					return err
				}
				return c.printOne(&s, func(w io.Writer) { c.tellStory(w, &s, again) })
			})
		},
	}
	c.runningFlags(cmd)
	c.outputFlag(cmd)
	return cmd
}

// painted is text in the tone's colour, made inert.
func (c *cli) painted(text string, t tone) string {
	text = clean(text)
	if !c.colour() || t == plain {
		return text
	}
	return t.code() + text + "\x1b[0m"
}

// levelTone is the tone of a level, and the word for it.
func levelTone(l story.Level) (tone, string) {
	switch l {
	case story.LevelBad:
		return bad, "act"
	case story.LevelWarn:
		return warn, "look"
	case story.LevelGood:
		return good, "fine"
	case story.LevelInfo:
		return faint, "hint"
	default:
		return faint, "unsure"
	}
}

// tellStory writes a queue's story for people; again is what its commands need to ask the same qwatch.
func (c *cli) tellStory(w io.Writer, s *story.Story, again string) {
	t, _ := levelTone(s.Row.Level)
	fmt.Fprintf(w, "%s\n", c.painted(s.Headline, t))
	for _, f := range s.Findings {
		fmt.Fprintln(w)
		c.tellFinding(w, f, again)
	}
	fmt.Fprintf(w, "\n%s\n", c.painted("Numbers", faint))
	number := func(name string, n story.Number, text func(int64) string) {
		if !n.Known {
			return
		}
		floor := ""
		if n.Floor {
			floor = " or more"
		}
		fmt.Fprintf(w, "  %-16s %s%s  (read %s ago)\n", name, text(n.Value), floor, story.Duration(asDuration(n.AgeSeconds)))
	}
	duration := func(n int64) string { return story.Duration(time.Duration(n) * time.Second) }
	number("messages", s.Row.Messages, story.Digits)
	number("visible", s.Row.Visible, story.Digits)
	number("hidden", s.Row.Hidden, story.Digits)
	number("oldest visible", s.Row.Oldest, duration)
	number("dead-lettered", s.Row.Poison, story.Digits)
	if s.Row.Poison.Value > 0 {
		number("oldest of them", s.Row.PoisonOldest, duration)
	}
	if s.Row.DrainSeconds > 0 {
		fmt.Fprintf(w, "  %-16s %s, at the present rate\n", "empty in", story.Duration(asDuration(s.Row.DrainSeconds)))
	}
	if len(s.Clusters) > 0 {
		fmt.Fprintf(w, "\n%s\n", c.painted("Dead-lettered by that process, by reason", faint))
		for _, d := range s.Clusters[:min(len(s.Clusters), 10)] {
			fmt.Fprintf(w, "  %s since %s, latest %s: %s: %s\n", story.Count(d.Messages, "message"), clock(d.Since), clock(d.Last), clean(d.Category), clean(d.Reason))
		}
	}
	fmt.Fprintf(w, "\n%s\n", c.painted("Timeline", faint))
	c.tellEvents(w, s.Events[:min(len(s.Events), 15)])
}

func (c *cli) tellFinding(w io.Writer, f story.Finding, again string) {
	t, word := levelTone(f.Level)
	fmt.Fprintf(w, "%s  %s\n", c.painted(fmt.Sprintf("%-6s", word), t), clean(f.Title))
	for _, e := range f.Evidence {
		fmt.Fprintf(w, "        - %s\n", clean(e))
	}
	for i, n := range f.Next {
		head := "next:"
		if i > 0 {
			head = "     "
		}
		fmt.Fprintf(w, "        %s %s\n", head, clean(n.Text))
		if n.Command != "" {
			fmt.Fprintf(w, "                %s\n", clean(there(n.Command, again)))
		}
	}
}

// there has a command ask the qwatch that told of it; doctor examines by its own configuration, and others are not ours.
func there(command, again string) string {
	name, ours := strings.CutPrefix(command, "qwatch ")
	if !ours || strings.HasPrefix(name, "doctor") {
		return command
	}
	return command + again
}

func (c *cli) tellEvents(w io.Writer, events []story.Event) {
	if len(events) == 0 {
		fmt.Fprintln(w, "  nothing happened since that qwatch started")
	}
	for _, e := range events {
		t, _ := levelTone(e.Level)
		by := ""
		if e.By != "" {
			by = " by " + e.By
		}
		fmt.Fprintf(w, "  %s  %s\n", clock(e.At), c.painted(e.Text+by, t))
	}
}

// clock writes a time of today, or of another day, in local time.
func clock(t time.Time) string {
	t = t.Local()
	if time.Since(t) < 20*time.Hour {
		return t.Format("15:04:05")
	}
	return t.Format("Jan _2 15:04")
}

func asDuration(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
