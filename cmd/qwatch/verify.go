package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/qwatch/qwatch/internal/client"
	"github.com/qwatch/qwatch/internal/verify"
)

func (c *cli) verifyCommand() *cobra.Command {
	var account string
	var lease time.Duration
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Rehearse retries, quarantine and crash windows on temporary queues of your account",
		Long: `Rehearse on your own storage account what your consumers rely on, with temporary queues that
are called qwatch-verify-… and removed at the end, also after Ctrl-C. What a run leaves behind
that was killed, the next removes. Your own queues are not touched.

It takes about ten seconds and a few hundred storage requests an account, and needs permission to create
and delete queues (Storage Queue Data Contributor). Exit status 1 when a check fails.

With --server a running qwatch rehearses on its own accounts, from where it runs; it needs an operator's
token, and Ctrl-C ends it there.`,
		Example: "  qwatch verify -c qwatch.yaml\n  qwatch verify --account orders -o json\n  qwatch verify --server https://qwatch.example:9780 --token-file token",
		Args:    none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := verify.CheckLease(lease); err != nil {
				return usagef("--%w", err)
			}
			return c.verify(cmd.Context(), account, lease)
		},
	}
	f := cmd.Flags()
	f.StringVar(&account, "account", "", "only this `account` of the configuration (default all)")
	f.Var((*duration)(&lease), "lease", "the visibility timeout to rehearse with (default 2s)")
	c.timeoutFlag(cmd)
	c.configFlag(cmd)
	c.serverFlags(cmd)
	c.outputFlag(cmd)
	return cmd
}

// rehearse has the accounts rehearsed on: from here, or by the server.
type rehearse func(context.Context, func(verify.Event) error) error

func (c *cli) verify(ctx context.Context, only string, lease time.Duration) error {
	asked, err := c.onServer(ctx, func(ctx context.Context, cl *client.Client) error {
		return c.rehearsal(ctx, doctorHint+" where that qwatch runs", func(ctx context.Context, sink func(verify.Event) error) error {
			return cl.Verify(ctx, only, lease, sink)
		})
	})
	if asked {
		return err
	}
	fleet, err := c.openFleet()
	if err != nil {
		return err
	}
	defer fleet.Close()
	accounts, err := fleet.AccountsNamed(only)
	if err != nil {
		return usageError{err}
	}
	return c.rehearsal(ctx, doctorHint, func(ctx context.Context, sink func(verify.Event) error) error {
		return verify.Rehearse(ctx, accounts, verify.Options{Lease: lease}, sink)
	})
}

// doctorHint is what to do when an account cannot be rehearsed on.
const doctorHint = `find out more with "qwatch doctor"`

// rehearsal tells what comes of a rehearsal, and the cure where nothing does.
func (c *cli) rehearsal(ctx context.Context, cure string, run rehearse) error {
	var outcomes []verify.Outcome
	var errs []error
	rehearsed := map[string]bool{}
	bar, begun, over, account := c.progress(), 0, 0, ""
	err := run(ctx, func(e verify.Event) error {
		switch {
		case e.Begun > 0:
			begun, over, account = e.Begun, 0, clean(e.Account)
			bar.show("rehearsing on "+account, 0, int64(begun))
		case e.Outcome != nil:
			over++
			rehearsed[e.Account] = true
			outcomes = append(outcomes, *e.Outcome)
			bar.show("rehearsing on "+account, int64(over), int64(max(begun, over)))
		case e.Notice != "":
			bar.end()
			fmt.Fprintf(c.stderr, "qwatch: %s: %s\n", clean(e.Account), clean(e.Notice))
		case e.Error != "" && !rehearsed[e.Account] && ctx.Err() == nil:
			errs = append(errs, fmt.Errorf("%s: nothing was rehearsed: %s; %s", e.Account, e.Error, cure))
		case e.Error != "":
			errs = append(errs, fmt.Errorf("%s: %s", e.Account, e.Error))
		}
		return nil
	})
	bar.end()
	if err != nil && (ctx.Err() != nil || len(outcomes) == 0) {
		return errors.Join(append(errs, err)...)
	}
	if len(outcomes) == 0 && len(errs) > 0 {
		return errors.Join(errs...) // an empty list would say that no check failed
	}
	errs = append(errs, err)
	verify.Sort(outcomes)
	if err := printList(c, outcomes, verifyTable); err != nil {
		return err
	}
	failed := 0
	for _, o := range outcomes {
		if !o.OK {
			failed++
		}
	}
	if failed > 0 {
		errs = append(errs, fmt.Errorf("%d of %d checks failed", failed, len(outcomes)))
	}
	return errors.Join(errs...)
}

func verifyTable(outcomes []verify.Outcome) *table {
	t := newTable("no account is configured", "ACCOUNT", "CHECK", "RESULT", ">TOOK", "SAW")
	for _, o := range outcomes {
		result, saw := cell{"ok", good}, o.Saw
		if !o.OK {
			result, saw = cell{"failed", bad}, o.Error+" (expected: "+o.Expects+")"
		}
		t.add(o.Account, o.Check, result, fmt.Sprintf("%.1fs", o.Seconds), saw)
	}
	return t
}
