package triage

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/qwatch/qwatch/poison"
)

// ImportOptions tune an import. The zero value is usable.
type ImportOptions struct {
	// From is the first line to import, counted from 1; those before it are skipped. Default 1.
	From int
	// First is the number of the first line that is read, where others were read before. Default 1.
	First int
	// DryRun only checks the lines.
	DryRun bool
	// Imported is told of each message that is on the poison queue again. The entry must not be kept.
	Imported func(*poison.Exported)
}

// Imported is how far an import came.
type Imported struct {
	Imported int  `json:"imported"` // messages; of a dry run, those that would be
	Next     int  `json:"next"`     // the line to go on with
	DryRun   bool `json:"dryRun,omitempty"`
}

// LineError is a line that an import refuses.
type LineError struct {
	Line int
	Err  error
}

// Error implements error.
func (e *LineError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

// Unwrap returns what is wrong with the line.
func (e *LineError) Unwrap() error { return e.Err }

// Import puts the lines of an export back on q's poison queue, in their order, until the first that it
// refuses or cannot send; the result says with which line to go on. Empty lines are skipped. Errors: a
// *LineError, what reading and storage answered, and the context's.
func Import(ctx context.Context, q Queue, r io.Reader, o ImportOptions) (Imported, error) {
	if q.NoPoison != nil {
		return Imported{}, q.NoPoison
	}
	return lines(ctx, q.Name(), r, o, func(x poison.Exported) error { return poison.Import(ctx, q.Queue, x) })
}

// CheckLines checks the lines of an export without asking storage: the dry run of an import to the poison
// queue of the queue of that name. It fails as Import does.
func CheckLines(ctx context.Context, queue string, r io.Reader, from int) (Imported, error) {
	return lines(ctx, queue, r, ImportOptions{From: from, DryRun: true}, func(poison.Exported) error { return nil })
}

func lines(ctx context.Context, queue string, r io.Reader, o ImportOptions, send func(poison.Exported) error) (Imported, error) {
	done := Imported{Next: max(o.First, 1), DryRun: o.DryRun}
	in := bufio.NewReaderSize(r, 64<<10)
	for {
		if err := ctx.Err(); err != nil {
			return done, err
		}
		line, err := readLine(in)
		if errors.Is(err, io.EOF) {
			return done, nil
		}
		if errors.Is(err, errLongLine) {
			return done, &LineError{done.Next, err}
		}
		if err != nil {
			return done, fmt.Errorf("read line %d: %w", done.Next, err)
		}
		if len(bytes.TrimSpace(line)) > 0 && done.Next >= o.From {
			x, err := poison.ParseLine(line)
			if err == nil {
				err = x.Importable(queue)
			}
			if err != nil {
				return done, &LineError{done.Next, err}
			}
			if err := one(x, o, send); err != nil {
				return done, fmt.Errorf("line %d: %w", done.Next, err)
			}
			done.Imported++
		}
		done.Next++
	}
}

// one sends what a line holds. What fails then is not the line's fault.
func one(x poison.Exported, o ImportOptions, send func(poison.Exported) error) error {
	if o.DryRun {
		return nil
	}
	if err := send(x); err != nil {
		return err
	}
	if o.Imported != nil {
		o.Imported(&x)
	}
	return nil
}

var errLongLine = fmt.Errorf("it is longer than %d bytes", poison.MaxLine)

// readLine reads a line without its end, bounded by poison.MaxLine; io.EOF when there is none.
func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > poison.MaxLine+1:
			return nil, errLongLine
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(line) > 0:
			return line, nil
		case err != nil:
			return nil, err
		}
		return bytes.TrimSuffix(line, []byte("\n")), nil
	}
}
