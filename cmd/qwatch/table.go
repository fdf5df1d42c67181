package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// tone is what a cell says about its value; it becomes a colour on a terminal.
type tone int

const (
	plain tone = iota
	good
	warn
	bad
	faint
)

func (t tone) code() string {
	return [...]string{plain: "", good: "\x1b[32m", warn: "\x1b[33m", bad: "\x1b[31m", faint: "\x1b[2m"}[t]
}

// cell is one value in a table.
type cell struct {
	text string
	tone tone
}

// table is rows under headings. Every cell is made inert before it is written.
type table struct {
	heads []string // a leading ">" aligns the column to the right
	rows  [][]cell
	empty string // said, on one line, when there are no rows
}

func newTable(empty string, heads ...string) *table { return &table{heads: heads, empty: empty} }

// add appends a row; values are strings or cells.
func (t *table) add(values ...any) {
	row := make([]cell, 0, len(values))
	for _, v := range values {
		switch v := v.(type) {
		case cell:
			row = append(row, v)
		default:
			row = append(row, cell{text: fmt.Sprint(v)})
		}
	}
	t.rows = append(t.rows, row)
}

func (t *table) write(w io.Writer, colour bool) error {
	var b bytes.Buffer
	if len(t.rows) == 0 && t.empty != "" {
		fmt.Fprintln(&b, t.empty)
	} else {
		t.render(&b, colour)
	}
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("write to standard output: %w", err)
	}
	return nil
}

func (t *table) render(b *bytes.Buffer, colour bool) {
	widths := make([]int, len(t.heads))
	right := make([]bool, len(t.heads))
	heads := make([]cell, len(t.heads))
	for i, h := range t.heads {
		h, right[i] = strings.CutPrefix(h, ">")
		heads[i] = cell{text: h, tone: faint}
		widths[i] = utf8.RuneCountInString(h)
	}
	for _, row := range t.rows {
		for i := range row {
			row[i].text = clean(row[i].text)
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i].text))
		}
	}
	for _, row := range append([][]cell{heads}, t.rows...) {
		for i, c := range row {
			if i > 0 {
				b.WriteString("  ")
			}
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c.text))
			if right[i] {
				b.WriteString(pad)
			}
			if colour && c.tone != plain {
				b.WriteString(c.tone.code() + c.text + "\x1b[0m")
			} else {
				b.WriteString(c.text)
			}
			if !right[i] && i < len(row)-1 {
				b.WriteString(pad)
			}
		}
		b.WriteByte('\n')
	}
}
