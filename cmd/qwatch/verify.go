package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/qwatch/qwatch/internal/app"
	"github.com/qwatch/qwatch/internal/verify"
	"github.com/qwatch/qwatch/queue"
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
and delete queues (Storage Queue Data Contributor). Exit status 1 when a check fails.`,
		Example: "  qwatch verify -c qwatch.yaml\n  qwatch verify --account orders -o json",
		Args:    none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if lease != 0 && (lease < time.Second || lease > 30*time.Second || lease%time.Second != 0) {
				return usagef("--lease %v must be whole seconds from 1s to 30s", lease)
			}
			return c.verify(cmd.Context(), account, lease)
		},
	}
	f := cmd.Flags()
	f.StringVar(&account, "account", "", "only this `account` of the configuration (default all)")
	f.Var((*duration)(&lease), "lease", "the visibility timeout to rehearse with (default 2s)")
	c.timeoutFlag(cmd)
	c.configFlag(cmd)
	c.outputFlag(cmd)
	return cmd
}

func (c *cli) verify(ctx context.Context, only string, lease time.Duration) error {
	fleet, err := c.openFleet()
	if err != nil {
		return err
	}
	defer fleet.Close()
	accounts, err := accountsOf(fleet, only)
	if err != nil {
		return err
	}
	var outcomes []verify.Outcome
	var errs []error
	for _, a := range accounts {
		if c.stderrTerminal {
			fmt.Fprintf(c.stderr, "qwatch: rehearsing %d checks on %s; it takes about ten seconds\n", len(verify.Checks()), a.Name())
		}
		done, err := verify.Run(ctx, a, verify.Options{
			Lease: lease, Logger: nil,
			Notice: func(s string) { fmt.Fprintf(c.stderr, "qwatch: %s: %s\n", a.Name(), clean(s)) },
		})
		outcomes = append(outcomes, done...)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", a.Name(), err))
		}
		if ctx.Err() != nil {
			return errors.Join(errs...)
		}
	}
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

// accountsOf are the accounts to rehearse on.
func accountsOf(fleet *app.Fleet, only string) ([]*queue.Account, error) {
	if only == "" {
		return fleet.Accounts(), nil
	}
	a, err := fleet.Account(only)
	if err != nil {
		return nil, usageError{err}
	}
	return []*queue.Account{a}, nil
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
