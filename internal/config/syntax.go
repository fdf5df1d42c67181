package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"sort"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// checkText finds what the YAML parser would not tell the line of.
func checkText(data []byte) (line int, text string) {
	switch {
	case len(data) > MaxBytes:
		return 1, fmt.Sprintf("the file is larger than %d MiB; use defaults and discovery rather than repeating settings", MaxBytes>>20)
	case bytes.HasPrefix(data, []byte{0xFE, 0xFF}) || bytes.HasPrefix(data, []byte{0xFF, 0xFE}):
		return 1, "the file is UTF-16; save it as UTF-8"
	}
	line = 1
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			return line, fmt.Sprintf("byte 0x%02x is not UTF-8; save the file as UTF-8", data[i])
		case r == '\n':
			line++
		case r < 0x20 && r != '\t' && r != '\r', r == 0x7f, r >= 0x80 && r < 0xA0 && r != 0x85, r == 0xFEFF && i > 0, r == 0xFFFE, r == 0xFFFF:
			return line, fmt.Sprintf("the character %U cannot stand in YAML; remove it", r)
		}
		i += n
	}
	return 0, ""
}

var (
	yamlLine    = regexp.MustCompile(`^line \d+: `)
	yamlAnchor  = regexp.MustCompile(`^unknown anchor '(.*)' referenced$`)
	safeProblem = regexp.MustCompile(`^[][{}a-zA-Z0-9 ,'%!<>:_-]{1,120}$`)
)

// syntax reports what the YAML parser found, at the line where it went wrong.
func (d *decoder) syntax(data []byte, err error) {
	text := problem(err)
	line := parserLine(err)
	if len(data) <= maxSearched || line == 0 {
		line = failingLine(data, text)
	}
	lines := bytes.Split(data, []byte("\n"))
	say := func(format string, args ...any) {
		d.faults.add(Pos{File: d.file, Line: line}, format, args...)
	}
	for _, i := range []int{line - 1, line - 2} {
		if i < 0 || i >= len(lines) {
			continue
		}
		indent := lines[i][:len(lines[i])-len(bytes.TrimLeft(lines[i], " \t"))]
		if bytes.ContainsRune(indent, '\t') {
			line = i + 1
			say("the line is indented with a tab, which YAML forbids; use spaces")
			return
		}
	}
	switch {
	case yamlAnchor.MatchString(text):
		say("an alias (*) names an anchor (&) that does not stand before it; define the anchor first")
	case strings.Contains(text, "unexpected end of stream"):
		say("not valid YAML: a quote opened here is not closed")
	case safeProblem.MatchString(text):
		say("not valid YAML from here on: %s; check indentation, quotes and brackets", text)
	default:
		say("not valid YAML from here on; check indentation, quotes and brackets")
	}
}

// problem is the parser's complaint without its line, which may be that of the construct around.
func problem(err error) string {
	return yamlLine.ReplaceAllString(strings.TrimPrefix(err.Error(), "yaml: "), "")
}

// maxSearched is the largest file that is parsed again and again for the better line.
const maxSearched = 1 << 20

// parserLine is the line in the parser's own complaint, or 0.
func parserLine(err error) int {
	var line int
	if _, err := fmt.Sscanf(err.Error(), "yaml: line %d:", &line); err != nil {
		return 0
	}
	return line
}

// failingLine finds the first line with which the parser makes the complaint.
func failingLine(data []byte, complaint string) int {
	ends := []int{}
	for i, b := range data {
		if b == '\n' {
			ends = append(ends, i+1)
		}
	}
	if len(ends) == 0 || ends[len(ends)-1] < len(data) {
		ends = append(ends, len(data))
	}
	n := sort.Search(len(ends), func(i int) bool {
		err := parses(data[:ends[i]])
		return err != nil && problem(err) == complaint
	})
	return min(n, len(ends)-1) + 1
}

// parses returns the parser's first complaint about a stream of documents.
func parses(data []byte) error {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	for range 2 {
		var n yaml.Node
		if err := dec.Decode(&n); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}
