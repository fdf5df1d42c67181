package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/qwatch/qwatch/internal/app"
	"github.com/qwatch/qwatch/internal/client"
	"github.com/qwatch/qwatch/internal/triage"
	"github.com/qwatch/qwatch/poison"
)

// triager carries out commands about one queue's poison: on storage, or through a running qwatch.
type triager interface {
	fmt.Stringer // account/queue
	run(context.Context, triage.Command, func(triage.Event) error) error
	load(context.Context, io.Reader, triage.ImportOptions) (triage.Imported, error)
}

// onStorage carries them out on storage.
type onStorage struct {
	triage.Queue
	replayed func(context.Context, poison.Replayed)
}

func (s onStorage) run(ctx context.Context, cmd triage.Command, sink func(triage.Event) error) error {
	return triage.Run(ctx, s.Queue, cmd, triage.Hooks{Replayed: s.replayed}, sink)
}

func (s onStorage) load(ctx context.Context, r io.Reader, o triage.ImportOptions) (triage.Imported, error) {
	return triage.Import(ctx, s.Queue, r, o)
}

// throughServer has a running qwatch carry them out.
type throughServer struct {
	*client.Client
	account, queue string
}

// String returns "account/queue".
func (s throughServer) String() string { return s.account + "/" + s.queue }

func (s throughServer) run(ctx context.Context, cmd triage.Command, sink func(triage.Event) error) error {
	return s.Triage(ctx, s.account, s.queue, cmd, sink)
}

func (s throughServer) load(ctx context.Context, r io.Reader, o triage.ImportOptions) (triage.Imported, error) {
	return s.Import(ctx, s.account, s.queue, r, o)
}

// onPoison runs f with what looks after the poison of the queue called name.
func (c *cli) onPoison(ctx context.Context, name string, f func(context.Context, triager) error) error {
	asked, err := c.onServer(ctx, func(ctx context.Context, cl *client.Client) error {
		account, queue, err := names(name)
		if err != nil {
			return err
		}
		return f(ctx, throughServer{cl, account, queue})
	})
	if asked {
		return err
	}
	return c.onFleet(ctx, name, func(ctx context.Context, fleet *app.Fleet, q app.FleetQueue) error {
		t, err := fleet.Triage(name)
		if err != nil {
			return usageError{err}
		}
		if t.NoPoison != nil {
			return usageError{t.NoPoison}
		}
		log := c.logger()
		return f(ctx, onStorage{t, func(ctx context.Context, m poison.Replayed) { fleet.Replayed(ctx, name, m, log) }})
	})
}

// selection are the flags that choose messages.
type selection struct {
	triage.Command
	categories   []string
	older, newer time.Duration
	canaryWait   time.Duration
	lease        time.Duration
}

func (s *selection) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&s.All, "all", false, "go through the whole poison queue, not only what one peek sees")
	f.StringSliceVar(&s.categories, "category", nil, "only messages of this `category`; may be repeated")
	f.StringVar(&s.Reason, "reason", "", "only messages whose reason holds this `text`, in any case")
	f.Var((*duration)(&s.older), "older-than", "only messages dead-lettered at least this long ago")
	f.Var((*duration)(&s.newer), "newer-than", "only messages dead-lettered at most this long ago")
	f.Var((*duration)(&s.lease), "lease", "how long what is looked at with --all, or dealt with, is hidden from others; it is renewed (default, and longest, 30s)")
	f.IntVar(&s.Limit, "limit", 0, "at most this `number` of messages (default all)")
	err := cmd.RegisterFlagCompletionFunc("category", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		var all []string
		for _, k := range poison.Categories() {
			all = append(all, string(k))
		}
		return all, cobra.ShellCompDirectiveNoFileComp
	})
	if err != nil {
		panic(err) // no such flag: a mistake in this file
	}
}

// command is what the flags and ids say.
func (s *selection) command(op triage.Operation, ids []string) (triage.Command, error) {
	cmd := s.Command
	cmd.Operation = op
	if len(ids) > 0 {
		cmd.IDs = ids
	}
	for _, k := range s.categories {
		cmd.Categories = append(cmd.Categories, poison.Category(k))
	}
	cmd.OlderThan, cmd.NewerThan, cmd.CanaryWait = triage.Duration(s.older), triage.Duration(s.newer), triage.Duration(s.canaryWait)
	cmd.Lease = triage.Duration(s.lease)
	if err := cmd.Check(); err != nil {
		return cmd, usageError{err}
	}
	return cmd, nil
}

// what writes what a command chooses, for questions.
func what(cmd triage.Command) string {
	var parts []string
	if len(cmd.IDs) > 0 {
		parts = append(parts, fmt.Sprintf("id %s", clean(strings.Join(cmd.IDs[:min(len(cmd.IDs), 3)], ", "))))
		if len(cmd.IDs) > 3 {
			parts[0] += fmt.Sprintf(" and %d more", len(cmd.IDs)-3)
		}
	}
	for _, k := range cmd.Categories {
		parts = append(parts, "category "+string(k))
	}
	if cmd.Reason != "" {
		parts = append(parts, fmt.Sprintf("reason %q", cmd.Reason))
	}
	if cmd.OlderThan > 0 {
		parts = append(parts, "older than "+brief(time.Duration(cmd.OlderThan)))
	}
	if cmd.NewerThan > 0 {
		parts = append(parts, "newer than "+brief(time.Duration(cmd.NewerThan)))
	}
	if cmd.Limit > 0 {
		parts = append(parts, fmt.Sprintf("at most %d", cmd.Limit))
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, "; ") + ")"
}

// bounded gives a command that only peeks the patience of commands that ask storage; a walk takes the
// time it takes, each of its calls bounded.
func (c *cli) bounded(ctx context.Context, cmd triage.Command) (context.Context, context.CancelFunc) {
	if cmd.All || cmd.Operation != triage.List && cmd.Operation != triage.Export {
		return context.WithCancel(ctx)
	}
	return c.patiently(ctx)
}

// gathered is what a list told.
type gathered struct {
	entries []poisonEntry
	at      map[string]int
	summary triage.Summary
}

func (g *gathered) add(e triage.Entry) (first bool) {
	if g.at == nil {
		g.at = map[string]int{}
	}
	id := e.Key()
	if i, again := g.at[id]; again {
		g.entries[i].Copies += e.Copies
		return false
	}
	g.at[id] = len(g.entries)
	g.entries = append(g.entries, poisonEntry{e.Entry, e.Payload, e.History, e.HistoryError})
	return true
}

// gather runs a list and returns what it told.
func (c *cli) gather(ctx context.Context, t triager, cmd triage.Command) (gathered, error) {
	var g gathered
	bar := c.progress()
	defer bar.end()
	ctx, cancel := c.bounded(ctx, cmd)
	defer cancel()
	err := t.run(ctx, cmd, func(e triage.Event) error {
		switch {
		case e.Entry != nil:
			g.add(*e.Entry)
		case e.Summary != nil:
			g.summary = *e.Summary
		}
		bar.event(e)
		return nil
	})
	return g, err
}

// partial says on standard error what a look could not reach.
func (c *cli) partial(t triager, all bool, s triage.Summary) {
	switch {
	case all && s.Unseen > 0:
		fmt.Fprintf(c.stderr, "qwatch: %s: somebody else hides %s\n", t, about(s.Unseen))
	case !all && s.Partial:
		fmt.Fprintf(c.stderr, "qwatch: the poison queue of %s holds %s; one peek sees %d of them, --all goes through the rest\n", t, about(s.Total), s.Peeked)
	}
	if s.Others > 0 {
		fmt.Fprintf(c.stderr, "qwatch: the poison queue of %s is shared: of the messages seen, %d belong to other queues\n", t, s.Others)
	}
}

// perform carries out a command that changes something: it asks first, shows how far it is, and tells
// what became of it. Verb and past say what it does.
func (c *cli) perform(ctx context.Context, t triager, cmd triage.Command, k consent, verb, past string) error {
	if err := k.check(); err != nil {
		return err
	}
	cmd.DryRun = k.dryRun
	if cmd.DryRun {
		return c.rehearse(ctx, t, cmd, verb)
	}
	if !k.yes {
		question, err := c.question(ctx, t, cmd, verb)
		if err != nil {
			return err
		}
		if err := c.ask(ctx, k, question); err != nil {
			return err
		}
	}
	bar := c.progress()
	var res *poison.Result
	var last *triage.Progress
	err := t.run(ctx, cmd, func(e triage.Event) error {
		switch {
		case e.Result != nil:
			res = e.Result
		case e.Progress != nil:
			last = e.Progress
		case e.Doubtful != "": // at once: this process may be killed as well
			bar.end()
			fmt.Fprintf(c.stderr, "qwatch: message %s may have been sent before: a replay did not finish with it\n", clean(e.Doubtful))
		case e.Unmarked != "": // before it is sent
			bar.end()
			fmt.Fprintf(c.stderr, "qwatch: message %s could not be marked, for it fills the 64 KiB: should this be killed just now, it may be sent twice\n", clean(e.Unmarked))
		}
		bar.event(e)
		return nil
	})
	bar.end()
	if res == nil { // the server cannot tell any more
		if last != nil && err != nil {
			fmt.Fprintf(c.stderr, "qwatch: %d of %s of %s were %s when it was last heard of; run it again to go on\n", last.Done, count(int(last.Of)), t, past)
		}
		return err
	}
	if printed := c.printOne(res, func(w io.Writer) { fmt.Fprintf(w, "%s %s of %s\n", past, count(res.Done), t) }); printed != nil {
		return errors.Join(err, printed)
	}
	c.tell(t, cmd, *res, err)
	switch {
	case err != nil:
		return err
	case len(cmd.IDs) > 0 && res.Chosen == 0:
		return fmt.Errorf("none of the messages named is in sight; %s", lookFurther(cmd))
	case len(res.Skipped) > 0 || res.Left > 0 || res.Unseen > 0:
		return errReported
	}
	return nil
}

func lookFurther(cmd triage.Command) string {
	if cmd.All {
		return "qwatch poison list shows what is"
	}
	return "--all looks further"
}

// rehearse tells what a command would do.
func (c *cli) rehearse(ctx context.Context, t triager, cmd triage.Command, verb string) error {
	var g gathered
	var res poison.Result
	bar := c.progress()
	err := t.run(ctx, cmd, func(e triage.Event) error {
		switch {
		case e.Entry != nil:
			g.add(*e.Entry)
		case e.Result != nil:
			res = *e.Result
		}
		bar.event(e)
		return nil
	})
	bar.end()
	if err != nil {
		return err
	}
	if cmd.Operation != triage.Purge {
		if err := c.printEntries(t, g.entries, false); err != nil {
			return err
		}
	}
	for _, s := range res.Skipped {
		fmt.Fprintf(c.stderr, "qwatch: message %s would be left alone: %s\n", clean(s.MessageID), clean(s.Reason))
	}
	fmt.Fprintf(c.stderr, "would %s %s of %s%s\n", verb, count(res.Chosen-len(res.Skipped)), t, what(cmd))
	c.unseen(t, res)
	return nil
}

// question is what a person is asked. What can be told from a peek is told exactly.
func (c *cli) question(ctx context.Context, t triager, cmd triage.Command, verb string) (string, error) {
	if !c.stdinTerminal || !c.stderrTerminal {
		return fmt.Sprintf("%s messages of %s%s", verb, t, what(cmd)), nil // nobody is asked
	}
	look := cmd
	look.Operation, look.All, look.Body, look.Rate, look.Canary, look.CanaryWait = triage.List, false, false, 0, 0, 0
	g, err := c.gather(ctx, t, look)
	if err != nil {
		return "", err
	}
	switch {
	case cmd.Operation == triage.Purge:
		return fmt.Sprintf("delete %s of the poison queue of %s for good", about(g.summary.Total), t), nil
	case cmd.All && cmd.Filtered() || cmd.All && g.summary.Partial:
		return fmt.Sprintf("%s what is chosen%s of %s on the poison queue of %s", verb, what(cmd), about(g.summary.Total), t), nil
	}
	return fmt.Sprintf("%s %s of %s%s", verb, count(len(g.entries)), t, what(cmd)), nil
}

// tell says on standard error what a person should know of a result.
func (c *cli) tell(t triager, cmd triage.Command, res poison.Result, err error) {
	say := func(format string, args ...any) { fmt.Fprintf(c.stderr, "qwatch: "+format+"\n", args...) }
	for _, s := range res.Skipped {
		say("message %s was left alone: %s", clean(s.MessageID), clean(s.Reason))
	}
	if k := res.Canary; k != nil {
		switch k.Outcome {
		case poison.CanaryFailed:
			for _, id := range k.Failed {
				say("canary %s is on the poison queue again", clean(id))
			}
		case poison.CanaryPassed:
			say("no failure was seen of the %s that went first", plural(k.Messages, "canary", "canaries"))
		}
	}
	if n := res.Chosen - res.Done - len(res.Skipped); n > 0 && err != nil && !errors.Is(err, poison.ErrCanary) {
		say("%s to go; run it again to go on", count(n))
	}
	c.unseen(t, res)
	if res.Left > 0 && err == nil {
		say("%s of those chosen did not come by again: somebody else took or hides them; run it again in half a minute", count(res.Left))
	}
}

// unseen says that there may be more than a walk could look at.
func (c *cli) unseen(t triager, res poison.Result) {
	if res.Unseen > 0 {
		fmt.Fprintf(c.stderr, "qwatch: %s on the poison queue of %s were not seen, somebody hides them: run it again in half a minute\n", about(res.Unseen), t)
	}
}

func plural(n int, one, more string) string {
	if n == 1 {
		return fmt.Sprintf("%d %s", n, one)
	}
	return fmt.Sprintf("%d %s", n, more)
}

func count(n int) string { return plural(n, "message", "messages") }

// printEntries prints entries, grouped by category and reason.
func (c *cli) printEntries(t triager, entries []poisonEntry, body bool) error {
	slices.SortStableFunc(entries, byReason)
	return printList(c, entries, func(entries []poisonEntry) *table { return poisonTable(t.String(), entries, body) })
}
