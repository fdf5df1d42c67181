package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/qwatch/qwatch/internal/triage"
)

func (c *cli) poisonExportCommand() *cobra.Command {
	var s selection
	var file string
	cmd := &cobra.Command{
		Use:   "export ACCOUNT/QUEUE [ID...]",
		Short: "Write dead-lettered messages to a file of JSON Lines",
		Long: `Write dead-lettered messages as JSON Lines, one message a line, to standard output or a
file: what "poison list" tells of it, and the exact text of its copy on the poison queue,
body included, from which "poison import" puts back every byte. It deletes nothing. An encrypted message stays
encrypted; a body in Blob storage stays there, and only the reference to it is exported.`,
		Example: `  qwatch poison export orders/orders --all > poison.jsonl
  qwatch poison export orders/orders --all --category handler --file poison.jsonl`,
		Args: someIDs,
		RunE: func(cmd *cobra.Command, args []string) error {
			command, err := s.command(triage.Export, args[1:])
			if err != nil {
				return err
			}
			return c.onPoison(cmd.Context(), args[0], func(ctx context.Context, t triager) error {
				return c.poisonExport(ctx, t, command, file)
			})
		},
	}
	s.flags(cmd)
	cmd.Flags().StringVarP(&file, "file", "f", "", "write to this `file`, which must not exist yet (default standard output)")
	c.triageFlags(cmd)
	return cmd
}

func (c *cli) poisonExport(ctx context.Context, t triager, cmd triage.Command, file string) (err error) {
	out := c.stdout
	if file != "" {
		f, ferr := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) // bodies may be confidential
		switch {
		case errors.Is(ferr, os.ErrExist):
			return usagef("export to a file: %w, and an export overwrites nothing; name a file that does not exist yet with --file, or remove that one", ferr)
		case ferr != nil:
			return usagef("export to a file: %w", ferr)
		}
		defer func() {
			err = errors.Join(err, f.Close())
			if err != nil {
				fmt.Fprintf(c.stderr, "qwatch: %s is not complete\n", clean(file))
			}
		}()
		out = f
	}
	w := bufio.NewWriter(out)
	n := 0
	var summary triage.Summary
	bar := c.progress()
	ctx, cancel := c.bounded(ctx, cmd)
	defer cancel()
	err = t.run(ctx, cmd, func(e triage.Event) error {
		bar.event(e)
		switch {
		case e.Line != nil:
			n++
			if _, err := w.Write(append(bytes.TrimRight(e.Line, "\n"), '\n')); err != nil {
				return fmt.Errorf("write the export: %w", err)
			}
		case e.Summary != nil:
			summary = *e.Summary
		}
		return nil
	})
	bar.end()
	if werr := w.Flush(); werr != nil && err == nil {
		err = fmt.Errorf("write the export: %w", werr)
	}
	if err != nil {
		if n > 0 {
			fmt.Fprintf(c.stderr, "qwatch: %s of %s were written before it ended\n", count(n), t)
		}
		return err
	}
	fmt.Fprintf(c.stderr, "qwatch: exported %s of %s\n", count(n), t)
	c.partial(t, cmd.All, summary)
	return nil
}

func (c *cli) poisonImportCommand() *cobra.Command {
	var from int
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "import ACCOUNT/QUEUE {FILE|-}",
		Short: "Put exported messages back on the poison queue",
		Long: `Put the messages of an export back on the poison queue, exactly as they lay there, from a
file or with - from standard input. "poison replay" takes them from there to their queue.

A file is checked as a whole before anything is put back; a line that is not one of an
export, or of another queue, is refused by its number. When it is interrupted it tells the line to go on with,
for --from-line. A message that is put back twice is one entry, if it has a record.`,
		Example: "  qwatch poison import orders/orders poison.jsonl --dry-run\n  qwatch poison import orders/orders poison.jsonl --from-line 4711",
		Args:    exact("ACCOUNT/QUEUE", "FILE (or - for standard input)"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if from < 1 {
				return usagef("--from-line %d must be 1 or more", from)
			}
			return c.onPoison(cmd.Context(), args[0], func(ctx context.Context, t triager) error {
				return c.poisonImport(ctx, t, args[1], triage.ImportOptions{From: from, DryRun: dryRun})
			})
		},
	}
	f := cmd.Flags()
	f.IntVar(&from, "from-line", 1, "begin with this `line`, counted from 1")
	f.BoolVar(&dryRun, "dry-run", false, "only check the lines")
	f.Bool("all", false, "every line, which an import is about in any case")
	f.BoolP("yes", "y", false, "do not ask, which an import does not in any case")
	c.triageFlags(cmd)
	return cmd
}

func (c *cli) poisonImport(ctx context.Context, t triager, file string, o triage.ImportOptions) error {
	in := c.stdin
	of := int64(0)
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return usageError{err}
		}
		defer func() { _ = f.Close() }() // it was only read
		in = f
		info, err := f.Stat()
		if err != nil {
			return err
		}
		if info.Mode().IsRegular() {
			_, name, _ := strings.Cut(t.String(), "/")
			checked, err := triage.CheckLines(ctx, name, f, o.From)
			if err != nil {
				return fmt.Errorf("%s: %w; nothing was imported", file, err)
			}
			of = int64(checked.Imported)
			if _, err := f.Seek(0, io.SeekStart); err != nil {
				return err
			}
		}
	}
	return c.importLines(ctx, t, in, of, o)
}

func (c *cli) importLines(ctx context.Context, t triager, in io.Reader, of int64, o triage.ImportOptions) error {
	bar := c.progress()
	n := int64(0)
	o.Imported = func(*triage.Exported) {
		if n++; n%16 == 0 {
			bar.show("importing", n, of)
		}
	}
	done, err := t.load(ctx, in, o)
	bar.end()
	if err != nil && done.Next == 0 { // it was never begun
		return err
	}
	if printed := c.printOne(done, func(w io.Writer) {
		if o.DryRun {
			fmt.Fprintf(w, "would import %s to the poison queue of %s\n", count(done.Imported), t)
		} else {
			fmt.Fprintf(w, "imported %s to the poison queue of %s\n", count(done.Imported), t)
		}
	}); printed != nil {
		return errors.Join(err, printed)
	}
	if err != nil && !o.DryRun {
		fmt.Fprintf(c.stderr, "qwatch: go on with --from-line %d\n", done.Next)
	}
	return err
}
