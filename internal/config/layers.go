package config

import (
	"fmt"
	"path"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxQueues and maxMatches bound what few lines can make of aliases: how many queues are named
// in the file, and how often a default is held against one.
const (
	maxQueues  = 50_000
	maxMatches = 20_000_000
)

// rule is a default that can be applied.
type rule struct {
	match    string
	key      string // of the default: defaults[0]
	settings Settings
	used     bool // it matched a configured queue
}

// apply gives the settings that the default sets, and no others, to a queue.
func (r *rule) apply(to *Settings, marks map[string]mark) {
	r.overlay(valueOf(to), valueOf(&r.settings), r.key, marks, func(string, mark) {})
}

// overlay copies what is marked as set below key, and tells each mark copied by its path below the default.
func (r *rule) overlay(dst, src reflect.Value, key string, marks map[string]mark, set func(string, mark)) {
	for _, f := range fields(src.Type()) {
		at := key + "." + f.name
		m, ok := marks[at]
		if !ok {
			continue
		}
		set(at[len(r.key):], m)
		if m.bad {
			continue
		}
		to, from := dst.FieldByIndex(f.index), src.FieldByIndex(f.index)
		switch from.Kind() {
		case reflect.Pointer:
			if to.IsNil() {
				to.Set(reflect.New(to.Type().Elem()))
				if def, ok := to.Interface().(interface{ setDefaults() }); ok {
					def.setDefaults()
				}
			} else {
				// Another queue or rule may share what is pointed to.
				own := reflect.New(to.Type().Elem())
				own.Elem().Set(to.Elem())
				to.Set(own)
			}
			r.overlay(to.Elem(), from.Elem(), at, marks, set)
		case reflect.Struct:
			r.overlay(to, from, at, marks, set)
		case reflect.Slice:
			to.Set(from)
			for i := range from.Len() {
				item := fmt.Sprintf("%s[%d]", at, i)
				set(item[len(r.key):], marks[item])
			}
		default:
			to.Set(from)
		}
	}
}

// queues decodes the queues of every account over the defaults that match them.
func (d *decoder) queues(cfg *Config) {
	for i := range cfg.Defaults {
		key := fmt.Sprintf("defaults[%d]", i)
		if m := cfg.Defaults[i].Match; m != "" && globFault(m) == "" {
			cfg.rules = append(cfg.rules, rule{match: m, key: key, settings: cfg.Defaults[i].Settings})
		}
	}
	total := 0
	for i := range cfg.Accounts {
		key := fmt.Sprintf("accounts[%d]", i)
		cfg.Accounts[i].Pos = locate(d.file, d.marks, key)
		at := place{key, key}.field("queues")
		list := d.later[at.key]
		switch {
		case list == nil:
			continue
		case list.Kind != yaml.SequenceNode:
			d.fault(list, at, "must be a list (one \"- \" an item, or [a, b]), not %s", kindOf(list))
			delete(d.later, at.key)
			continue
		}
		total += len(list.Content)
		switch {
		case total > maxQueues:
			d.fault(list, at, "names too many queues: more than %d in all; use discovery", maxQueues)
			return
		case total*len(cfg.rules) > maxMatches:
			d.fault(list, at, "names too many queues for so many defaults; use fewer defaults")
			return
		}
	}
	for i := range cfg.Accounts {
		a := &cfg.Accounts[i]
		key := fmt.Sprintf("accounts[%d]", i)
		at := place{key, key}.field("queues")
		if list := d.later[at.key]; list != nil {
			for j, n := range list.Content {
				a.Queues = append(a.Queues, d.queue(cfg, a.Name, n, at.item(j)))
			}
		}
	}
}

func (d *decoder) queue(cfg *Config, account string, n *yaml.Node, at place) Queue {
	q := Queue{Account: account, Settings: builtin()}
	name := d.peekName(n)
	for i := range cfg.rules {
		r := &cfg.rules[i]
		if name == "" || !matches(r.match, account, name) {
			continue
		}
		r.used = true
		r.overlay(valueOf(&q.Settings), valueOf(&r.settings), r.key, d.marks, func(below string, m mark) {
			d.spent(n)
			m.layer = i + 1
			d.marks[at.key+below] = m
		})
	}
	d.layer = len(cfg.rules) + 1
	d.value(n, valueOf(&q), options{}, at)
	q.Pos = locate(d.file, d.marks, at.key)
	d.nearest(&q, at.key)
	inherited := func(name string) bool {
		layer := d.marks[at.key+"."+name].layer
		return layer > 0 && layer < d.layer
	}
	q.FromDefaults = Inherited{Team: inherited("team"), Tier: inherited("tier"), Objective: inherited("objective")}
	d.layer = 0
	return q
}

// peekName reads a queue's name before the queue is decoded, to know which defaults match it.
func (d *decoder) peekName(n *yaml.Node) string {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.MappingNode {
		return ""
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if val := n.Content[i+1]; n.Content[i].Value == "name" {
			if val.Kind == yaml.AliasNode {
				val = val.Alias
			}
			name, _ := interpolate(val.Value, d.env)
			return name
		}
	}
	return ""
}

// nearest resolves settings that exclude each other and were set at different distances from the queue.
func (d *decoder) nearest(q *Queue, key string) {
	layer := func(name string) int { return d.marks[key+"."+name].layer }
	own := d.layer
	if layer("consumer") != own {
		q.Consumer = nil // a default never makes a queue one that is consumed
	}
	if c := q.Consumer; c != nil {
		h := key + ".consumer.handler."
		byHTTP, byExec := d.marks[h+"http"].layer, d.marks[h+"exec"].layer
		switch {
		case c.Handler.HTTP == nil || c.Handler.Exec == nil || byHTTP == byExec:
		case byHTTP > byExec:
			c.Handler.Exec = nil
		default:
			c.Handler.HTTP = nil
		}
		if layer("monitorOnly") != own {
			q.MonitorOnly = false
		}
	}
	if q.PoisonQueue == q.Name && layer("poisonQueue") != own {
		q.PoisonQueue, q.NoPoison = "", true // the poison queue a default names for all, itself
	}
	if q.NoPoison && q.PoisonQueue != "" && layer("noPoison") != layer("poisonQueue") {
		if layer("noPoison") > layer("poisonQueue") {
			q.PoisonQueue = ""
		} else {
			q.NoPoison = false
		}
	}
}

// globMatch says whether a glob matches; a bad one matches nothing.
func globMatch(glob, name string) bool {
	ok, err := path.Match(glob, name)
	return err == nil && ok
}

// globFault says what is wrong with a glob; empty when nothing is.
func globFault(glob string) string {
	if _, err := path.Match(glob, ""); err != nil {
		return "is not a glob; *, ? and [a-z] are special, and [ must be closed"
	}
	if strings.Count(glob, "/") > 1 {
		return "has more than one slash; write a queue name's glob, or account/queue"
	}
	return ""
}

// globMatchesAccount says whether a glob can match some queue of an account.
func globMatchesAccount(glob, account string) bool {
	of, _, slash := strings.Cut(glob, "/")
	return !slash || globMatch(of, account)
}
