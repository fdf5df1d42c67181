package config

import (
	"bytes"
	"fmt"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/qwatch/qwatch/queue"
)

// Masked is what YAML shows in place of a secret.
const Masked = "***"

// YAML returns the effective configuration in the file's own form and in a stable order. Connection
// strings, keys and SAS are Masked, and so are the password and the query values of a handler's URL; an
// argument of a command that came from the environment is shown as the file has it. Nothing else is
// left out, so that the text can be read again with the secrets put back.
func (c *Config) YAML() ([]byte, error) {
	s := shower{marks: c.marks}
	return c.encode(s.mapping(valueOf(c), "", false))
}

// QueueYAML returns the effective settings of one queue, as YAML shows them.
func (c *Config) QueueYAML(q Queue) ([]byte, error) {
	key := ""
	for i, a := range c.Accounts {
		for j, own := range a.Queues {
			if own.Account == q.Account && own.Name == q.Name {
				key = fmt.Sprintf("accounts[%d].queues[%d]", i, j)
			}
		}
	}
	s := shower{marks: c.marks}
	return c.encode(s.mapping(valueOf(&q), key, false))
}

func (c *Config) encode(root *yaml.Node) ([]byte, error) {
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(root); err != nil {
		return nil, fmt.Errorf("show %s: %w", c.file, err)
	}
	if err := enc.Close(); err != nil {
		return nil, fmt.Errorf("show %s: %w", c.file, err)
	}
	return b.Bytes(), nil
}

type shower struct {
	marks map[string]mark
}

// mapping shows a struct; sparse, only what the file sets.
func (s *shower) mapping(v reflect.Value, key string, sparse bool) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode}
	for _, f := range fields(v.Type()) {
		at := f.name
		if key != "" {
			at = key + "." + f.name
		}
		fv := v.FieldByIndex(f.index)
		_, set := s.marks[at]
		switch {
		case sparse && !set, !sparse && f.opts["omitempty"] && fv.IsZero(), fv.Kind() == reflect.Pointer && fv.IsNil():
			continue
		case !set && f.opts["unset"] && fv.IsZero():
			continue // shown once the file, or a default in it, says anything
		case fv.Kind() == reflect.Slice && f.opts["omitempty"] && fv.Len() == 0:
			continue
		}
		if node := s.value(fv, f.opts, at, sparse); node != nil {
			n.Content = append(n.Content, text(f.name), node)
		}
	}
	return n
}

func (s *shower) value(v reflect.Value, opts options, key string, sparse bool) *yaml.Node {
	switch {
	case v.Kind() == reflect.Pointer:
		return s.value(v.Elem(), opts, key, sparse)
	case v.Kind() == reflect.Struct:
		n := s.mapping(v, key, sparse)
		if len(n.Content) == 0 && !sparse {
			return nil
		}
		return n
	case v.Kind() == reflect.Slice:
		n := &yaml.Node{Kind: yaml.SequenceNode}
		if v.Type().Elem().Kind() == reflect.String {
			n.Style = yaml.FlowStyle
		}
		for i := range v.Len() {
			item := fmt.Sprintf("%s[%d]", key, i)
			n.Content = append(n.Content, s.value(v.Index(i), opts, item, v.Type().Elem() == reflect.TypeFor[Default]()))
		}
		return n
	case v.Type() == durationType:
		d := time.Duration(v.Int())
		switch {
		case d == 0 && opts["never"]:
			return text("never")
		case d == 0 && opts["off"]:
			return text("off")
		}
		return text(formatDuration(d))
	case v.Type() == encodingType:
		return text(queue.Encoding(v.Int()).String())
	case v.Type() == secretType && opts["url"]:
		return text(escape(redactURL(string(v.Interface().(queue.Secret)))))
	case v.Type() == secretType:
		return text(Masked)
	case v.Kind() == reflect.String:
		return s.text(v.String(), opts, key)
	case v.Kind() == reflect.Bool:
		return bare("!!bool", strconv.FormatBool(v.Bool()))
	case v.Kind() == reflect.Int:
		return bare("!!int", strconv.FormatInt(v.Int(), 10))
	default:
		s := strconv.FormatFloat(v.Float(), 'g', -1, 64)
		if strings.Trim(s, "-0123456789") == "" {
			return bare("!!int", s) // or the encoder would add a tag
		}
		return bare("!!float", s)
	}
}

func (s *shower) text(value string, opts options, key string) *yaml.Node {
	if value == Off && opts["off"] {
		return text("off")
	}
	if m := s.marks[key]; opts["raw"] && m.env {
		return text(m.raw)
	}
	return text(escape(value))
}

// escape keeps a literal ${ from being taken for a variable when the text is read again.
func escape(s string) string { return strings.ReplaceAll(s, "${", "$${") }

// text is a scalar that stays text whatever it looks like.
func text(s string) *yaml.Node {
	n := &yaml.Node{}
	n.SetString(s)
	return n
}

func bare(tag, s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: s} }

// redactURL masks a URL's password and query values.
func redactURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return Masked
	}
	user := ""
	if u.User != nil {
		user = url.User(u.User.Username()).String() + ":" + Masked + "@"
		if _, has := u.User.Password(); !has {
			user = Masked + "@" // a bare user is often a token
		}
	}
	out := u.Scheme + "://" + user + u.Host + u.EscapedPath()
	if u.RawQuery != "" {
		var names []string
		for pair := range strings.SplitSeq(u.RawQuery, "&") {
			name, _, named := strings.Cut(pair, "=")
			if named {
				name += "="
			} else {
				name = "" // a bare value
			}
			names = append(names, name+Masked)
		}
		out += "?" + strings.Join(names, "&")
	}
	return out
}
