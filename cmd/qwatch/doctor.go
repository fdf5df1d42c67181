package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/qwatch/qwatch/internal/config"
	"github.com/qwatch/qwatch/internal/doctor"
)

func (c *cli) doctorCommand() *cobra.Command {
	var emit string
	cmd := &cobra.Command{
		Use:   "doctor [ACCOUNT]",
		Short: "Examine connections, clocks and permissions",
		Long: `Examine whether qwatch can do what the configuration says: which address each account has,
whether it can be reached, its certificate, the clocks, the sign-in, and every permission that
watching, consuming, creating, dead-lettering and discovery need. What is wrong is named with its cure.

It leaves storage as it was: it counts, peeks and lists; it names messages that do not exist;
creates only queues that are there already; and, where a queue is consumed, sends one hidden message
to its poison queue and deletes it at once.

With --emit role it asks nothing, and prints the least Azure role that suffices for an account.

Exit status 1 when a check failed; warnings leave it 0.`,
		Example: `  qwatch doctor -c qwatch.yaml
  qwatch doctor orders -o json | jq '.[] | select(.status == "failed")'
  qwatch doctor orders --emit role >role.json && az role definition create --role-definition @role.json`,
		Args: between(0, "ACCOUNT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch emit {
			case "":
				return c.doctor(cmd.Context(), args)
			case "role":
				return c.doctorRole(args)
			default:
				return usagef("--emit %q: it is role", emit)
			}
		},
	}
	cmd.Flags().StringVar(&emit, "emit", "", "print `what` is needed instead: role")
	c.timeout = 10 * time.Second
	cmd.Flags().Var((*duration)(&c.timeout), "timeout", "how long to wait in each check")
	c.configFlag(cmd)
	c.outputFlag(cmd)
	return cmd
}

func (c *cli) doctor(ctx context.Context, accounts []string) error {
	fleet, err := c.openFleet()
	if err != nil {
		return err
	}
	defer fleet.Close()
	for _, a := range accounts {
		if _, err := fleet.Account(a); err != nil {
			return usageError{err}
		}
	}
	cfg, _, err := c.loadConfig()
	if err != nil {
		return err
	}
	report := doctor.Examine(ctx, cfg, fleet, doctor.Options{Timeout: c.timeout}, accounts...)
	if err := ctx.Err(); err != nil {
		return err
	}
	if c.output == formatTable {
		err = c.write([]byte(c.diagnosis(report)))
	} else {
		err = printList[doctor.Finding](c, report, nil)
	}
	if err != nil {
		return err
	}
	if n := report.Count(doctor.Failed); n > 0 {
		return fmt.Errorf("doctor: %d of %d checks failed", n, len(report))
	}
	return nil
}

// diagnosis writes a report for people: one line for each check, one for all that a queue passed, and the cure
// below what failed.
func (c *cli) diagnosis(report doctor.Report) string {
	const allowed = "allowed to " // said once of many operations
	var b strings.Builder
	account, width := "", 0
	for _, f := range report {
		width = max(width, utf8.RuneCountInString(clean(subject(f))))
	}
	for len(report) > 0 {
		f := report[0]
		if f.Account != account {
			account = f.Account
			fmt.Fprintln(&b, clean(account))
		}
		n, details := 1, f.Detail
		if f.Queue != "" && f.Status == doctor.OK {
			for n < len(report) && report[n].Queue == f.Queue && report[n].Status == doctor.OK {
				if more, of := strings.CutPrefix(report[n].Detail, allowed); of && strings.HasPrefix(report[n-1].Detail, allowed) {
					details += ", " + more
				} else {
					details += "; " + report[n].Detail
				}
				n++
			}
		}
		fmt.Fprintf(&b, "  %s  %-*s  %s\n", c.verdict(f.Status), width, clean(subject(f)), clean(details))
		if f.Reason != "" {
			fmt.Fprintf(&b, "  %-7s  %-*s  reason: %s\n", "", width, "", f.Reason)
		}
		if f.Cure != "" {
			fmt.Fprintf(&b, "  %-7s  %-*s  cure: %s\n", "", width, "", clean(f.Cure))
		}
		report = report[n:]
	}
	return b.String()
}

// subject is what a finding is about: the queue that was asked, or the check of the account.
func subject(f doctor.Finding) string { return cmp.Or(f.Queue, f.Check) }

func (c *cli) verdict(s doctor.Status) string {
	tones := map[doctor.Status]tone{doctor.OK: good, doctor.Warning: warn, doctor.Failed: bad, doctor.Skipped: faint}
	text := fmt.Sprintf("%-7s", s)
	if !c.colour() {
		return text
	}
	return tones[s].code() + text + "\x1b[0m"
}

// doctorRole prints the least role of an account, or of all of them when they need the same.
func (c *cli) doctorRole(accounts []string) error {
	cfg, _, err := c.loadConfig()
	if err != nil {
		return err
	}
	if len(accounts) == 0 {
		for _, a := range cfg.Accounts {
			accounts = append(accounts, a.Name)
		}
	}
	var roles []doctor.Role
	for _, a := range accounts {
		if !slices.ContainsFunc(cfg.Accounts, func(c config.Account) bool { return c.Name == a }) {
			return usagef("account %q is not configured", a)
		}
		r, err := doctor.LeastRole(cfg, a)
		if err != nil {
			return err
		}
		if len(roles) > 0 && !r.Same(roles[0]) {
			return usagef("the accounts need different roles: name one of them, %s", strings.Join(accounts, ", "))
		}
		roles = append(roles, r)
	}
	r := roles[0]
	if len(roles) > 1 {
		r.Name, r.Description = "qwatch", "What qwatch does with the accounts "+strings.Join(accounts, ", ")+" as it is configured, and no more."
	}
	fmt.Fprintf(c.stderr, "qwatch: put your subscription and group into AssignableScopes; of the built-in roles it takes %s\n", r.Suffices())
	return c.printJSON(r, "  ")
}
