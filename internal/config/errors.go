package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Pos is a place in the configuration file.
type Pos struct {
	File string
	Line int    // from 1; 0 is the file as a whole
	Path string // such as accounts[0].queues[1]
}

// String returns "file:line: path", the beginning of every error about the place.
func (p Pos) String() string {
	s := p.File
	if p.Line > 0 {
		s += ":" + strconv.Itoa(p.Line)
	}
	if p.Path != "" {
		s += ": " + p.Path
	}
	return s
}

// Fault is one thing wrong with the file.
type Fault struct {
	Pos
	Text string // what is wrong, and the cure
	Err  error  // the cause, where there is one
}

// Error returns "file:line: path: text".
func (f Fault) Error() string { return f.String() + ": " + f.Text }

// Unwrap returns the cause.
func (f Fault) Unwrap() error { return f.Err }

// Errors is everything wrong with a configuration file, in file order. It never holds a value that
// came from the environment, nor a secret.
type Errors struct {
	Faults []Fault

	partial *Config
}

// Partial returns what could be read of the configuration, with its faults in it; nil when nothing could. It is
// for finding further faults, and for nothing else.
func (e *Errors) Partial() *Config { return e.partial }

// Error returns one fault a line.
func (e *Errors) Error() string {
	lines := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		lines[i] = f.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the faults.
func (e *Errors) Unwrap() []error {
	errs := make([]error, len(e.Faults))
	for i, f := range e.Faults {
		errs[i] = f
	}
	return errs
}

// Warning is something in the file that works, though hardly as meant.
type Warning struct {
	Pos
	Text string
}

// String returns "file:line: path: text".
func (w Warning) String() string { return w.Pos.String() + ": " + w.Text }

// maxFaults bounds what a hostile file can make of an error.
const maxFaults = 1000

// faults collects, without saying anything twice.
type faults struct {
	list []Fault
	seen map[string]bool
	more int
}

func (f *faults) add(p Pos, format string, args ...any) {
	fault := Fault{Pos: p, Text: fmt.Sprintf(format, args...)}
	line := fault.Error()
	if f.seen[line] {
		return
	}
	if len(f.list) == maxFaults {
		f.more++
		return
	}
	if f.seen == nil {
		f.seen = make(map[string]bool)
	}
	f.seen[line] = true
	f.list = append(f.list, fault)
}

// err returns what was collected, in file order; nil when that is nothing.
func (f *faults) err() *Errors {
	if len(f.list) == 0 {
		return nil
	}
	slices.SortStableFunc(f.list, func(a, b Fault) int { return cmp.Compare(a.Line, b.Line) })
	if f.more > 0 {
		last := f.list[len(f.list)-1]
		f.list = append(f.list, Fault{Pos: Pos{File: last.File, Line: last.Line}, Text: fmt.Sprintf("and %d more faults; mend these first", f.more)})
	}
	return &Errors{Faults: f.list}
}

// quote shows a value as the file has it: on one line, bounded, and never what looks like a secret.
func quote(raw string) string {
	low := strings.ToLower(raw)
	for _, s := range []string{"key=", "sig=", "signature=", "password", "token", "bearer", "@", "?"} {
		if strings.Contains(low, s) {
			return "the value"
		}
	}
	if len(raw) > 64 {
		return "the value"
	}
	return strconv.Quote(raw)
}
