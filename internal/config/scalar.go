package config

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/qwatch/qwatch/queue"
)

var (
	durationType = reflect.TypeFor[time.Duration]()
	encodingType = reflect.TypeFor[queue.Encoding]()
	secretType   = reflect.TypeFor[queue.Secret]()
)

// scalar decodes text, a number, or true and false.
func (d *decoder) scalar(n *yaml.Node, v reflect.Value, opts options, at place) {
	secret := v.Type() == secretType
	if n.Kind != yaml.ScalarNode {
		d.fault(n, at, "must be %s, not %s", wanted(v.Type()), kindOf(n))
		return
	}
	text, problem := interpolate(n.Value, d.env)
	m := d.marks[at.key]
	m.env = strings.Contains(n.Value, "${")
	if !secret {
		m.raw = n.Value
	}
	d.marks[at.key] = m
	if problem != "" {
		d.fault(n, at, "%s", problem)
		return
	}
	bare := n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) == 0 || m.env
	switch {
	case v.Type() == durationType:
		d.duration(n, v, opts, at, text)
	case v.Type() == encodingType:
		e, err := queue.ParseEncoding(text)
		if err != nil {
			d.fault(n, at, "%s is not an encoding; use none, base64 or auto", quote(n.Value))
			return
		}
		v.SetInt(int64(e))
	case v.Kind() == reflect.String:
		d.text(n, v, opts, at, text)
	case v.Kind() == reflect.Bool:
		if !bare || text != "true" && text != "false" {
			d.fault(n, at, "must be true or false%s", butIs(n))
			return
		}
		v.SetBool(text == "true")
	case v.Kind() == reflect.Int:
		i, err := strconv.Atoi(text)
		if !bare || err != nil {
			d.fault(n, at, "must be a whole number%s", butIs(n))
			return
		}
		v.SetInt(int64(i))
	default:
		f, err := strconv.ParseFloat(text, 64)
		if !bare || err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			d.fault(n, at, "must be a number%s", butIs(n))
			return
		}
		v.SetFloat(f)
	}
}

// butIs ends "must be a number": with the value, and the quotes where they are what is wrong.
func butIs(n *yaml.Node) string {
	if n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 && !strings.Contains(n.Value, "${") {
		return ", without quotes"
	}
	return ", not " + quote(n.Value)
}

func (d *decoder) text(n *yaml.Node, v reflect.Value, opts options, at place, text string) {
	switch {
	case opts["off"] && text == "off":
		text = Off
	case text == "" && !opts["mayBeEmpty"]:
		switch {
		case strings.Contains(n.Value, "${"):
			d.fault(n, at, "is empty, since the environment variable is; set it, or remove the key")
		case opts["off"]:
			d.fault(n, at, "is empty; write off to turn it off, or remove the key")
		default:
			d.fault(n, at, "is empty; give it a value or remove the key")
		}
		return
	case strings.ContainsRune(text, 0):
		d.fault(n, at, "has a NUL character; remove it")
		return
	case opts["path"] && !filepath.IsAbs(text):
		text = filepath.Join(d.dir, text)
	}
	v.SetString(text)
}

func (d *decoder) duration(n *yaml.Node, v reflect.Value, opts options, at place, text string) {
	for _, word := range []string{"off", "never"} {
		if opts[word] && text == word {
			v.SetInt(0)
			return
		}
	}
	dur, problem := parseDuration(text)
	if problem == "" && dur <= 0 {
		problem = "is not longer than zero"
		for _, word := range []string{"off", "never"} {
			if opts[word] {
				problem += "; write " + word + " to turn it off"
			}
		}
	}
	if problem != "" {
		d.fault(n, at, "%s %s", quote(n.Value), problem)
		return
	}
	v.SetInt(int64(dur))
}

// ParseDuration reads a duration as the file has it: Go's, and days, such as 7d or 1d12h.
func ParseDuration(s string) (time.Duration, error) {
	if s == "" {
		return 0, errors.New("is empty")
	}
	d, problem := parseDuration(s)
	if problem != "" {
		return 0, errors.New(problem)
	}
	return d, nil
}

// parseDuration reads Go's durations, and days.
func parseDuration(s string) (d time.Duration, problem string) {
	const cure = "is not a duration; use a number with a unit, such as 500ms, 30s, 5m, 12h or 7d"
	rest := strings.TrimPrefix(s, "+")
	if _, err := strconv.ParseFloat(s, 64); err == nil && s != "0" {
		return 0, "has no unit; add one of ms, s, m, h and d"
	}
	var days float64
	if before, after, ok := strings.Cut(rest, "d"); ok {
		n, err := strconv.ParseFloat(before, 64)
		if err != nil || strings.ContainsAny(before, "+-eExXpP_") || n < 0 {
			return 0, cure
		}
		days, rest = n, after
	}
	if rest != "" {
		var err error
		if d, err = time.ParseDuration(rest); err != nil || days > 0 && strings.ContainsAny(rest, "+-") {
			return 0, cure
		}
	}
	total := days*float64(24*time.Hour) + float64(d)
	if !(total <= float64(100*365*24*time.Hour)) { // NaN too
		return 0, "is longer than 100 years"
	}
	return d + time.Duration(days*float64(24*time.Hour)), ""
}

// formatDuration writes what parseDuration reads, in the shortest form.
func formatDuration(d time.Duration) string {
	if d > 0 && d%(24*time.Hour) == 0 {
		return strconv.FormatInt(int64(d/(24*time.Hour)), 10) + "d"
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}

// wanted says what a field takes.
func wanted(t reflect.Type) string {
	switch {
	case t == durationType:
		return "a duration such as 30s"
	case t == encodingType:
		return "none, base64 or auto"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.Int, t.Kind() == reflect.Float64:
		return "a number"
	default:
		return "text"
	}
}

// interpolate replaces ${NAME} by the environment's value, once, and $${ by ${. The problem never
// holds a value.
func interpolate(s string, env func(string) (string, bool)) (out, problem string) {
	if !strings.Contains(s, "${") {
		return s, ""
	}
	var b strings.Builder
	var unset []string
	for i := 0; i < len(s); {
		switch {
		case strings.HasPrefix(s[i:], "$${"):
			b.WriteString("${")
			i += 3
		case strings.HasPrefix(s[i:], "${"):
			n := strings.IndexByte(s[i:], '}')
			if n < 0 {
				return "", "has ${ without a closing brace; write ${NAME}, or $${ for a literal ${"
			}
			name := s[i+2 : i+n]
			if !isVariable(name) {
				return "", "has ${…} that does not hold a variable's name (letters, digits and underscores); write $${ for a literal ${"
			}
			val, ok := env(name)
			if !ok {
				unset = append(unset, name)
			}
			b.WriteString(val)
			i += n + 1
		default:
			b.WriteByte(s[i])
			i++
		}
	}
	switch len(unset) {
	case 0:
		return b.String(), ""
	case 1:
		return "", fmt.Sprintf("the environment variable %s is not set; set it, or write $${ for a literal ${", unset[0])
	default:
		return "", fmt.Sprintf("the environment variables %s are not set; set them, or write $${ for a literal ${", strings.Join(unset, ", "))
	}
}

func isVariable(name string) bool {
	for i, r := range name {
		letter := r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != "" && len(name) <= 128
}
