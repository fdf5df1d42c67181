package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// format is how results are written.
type format string

const (
	formatTable format = "table"
	formatJSON  format = "json"  // one value; an array where the table has rows
	formatJSONL format = "jsonl" // one line a row
)

// String, Set and Type make it a flag.
func (f *format) String() string { return string(*f) }

func (f *format) Type() string { return "format" }

func (f *format) Set(s string) error {
	switch v := format(s); v {
	case formatTable, formatJSON, formatJSONL:
		*f = v
		return nil
	}
	return fmt.Errorf("must be table, json or jsonl")
}

// printList writes items as -o says: a table for people, or JSON.
func printList[T any](c *cli, items []T, t func([]T) *table) error {
	switch c.output {
	case formatJSON:
		if items == nil {
			items = []T{}
		}
		return c.printJSON(items, "  ")
	case formatJSONL:
		for _, item := range items {
			if err := c.printJSON(item, ""); err != nil {
				return err
			}
		}
		return nil
	default:
		return t(items).write(c.stdout, c.colour())
	}
}

// printOne writes a single thing: JSON, or what text writes for people.
func (c *cli) printOne(item any, text func(io.Writer)) error {
	switch c.output {
	case formatJSON:
		return c.printJSON(item, "  ")
	case formatJSONL:
		return c.printJSON(item, "")
	default:
		var b bytes.Buffer
		text(&b)
		return c.write(b.Bytes())
	}
}

func (c *cli) printJSON(v any, indent string) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("write the result as JSON: %w", err)
	}
	return c.write(inertJSON(b.Bytes()))
}

func (c *cli) write(b []byte) error {
	if _, err := c.stdout.Write(b); err != nil {
		return fmt.Errorf("write to standard output: %w", err)
	}
	return nil
}

// colour says whether results may be coloured.
func (c *cli) colour() bool {
	return c.stdoutTerminal && c.getenv("NO_COLOR") == "" && c.getenv("TERM") != "dumb"
}

// inertJSON escapes what encoding/json leaves as it is but a terminal may act upon:
// DEL, the C1 controls and the characters that change the direction of text. They
// occur in strings only, so the value stays the same.
func inertJSON(b []byte) []byte {
	if !bytes.ContainsFunc(b, func(r rune) bool { return r >= 0x7f && !harmless(r) }) {
		return b
	}
	var out bytes.Buffer
	for _, r := range string(b) {
		switch {
		case r < 0x7f || harmless(r):
			out.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&out, `\u%04x\u%04x`, 0xd800+(r-0x10000)>>10, 0xdc00+(r-0x10000)&0x3ff)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.Bytes()
}

// harmless says that a terminal only draws r.
func harmless(r rune) bool {
	return unicode.IsPrint(r) && !unicode.Is(unicode.Bidi_Control, r)
}

// clean makes foreign text safe for a terminal and for one line: what is not
// printable is written as an escape.
func clean(s string) string {
	if utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !harmless(r) }) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case harmless(r):
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		s = s[n:]
	}
	return b.String()
}
