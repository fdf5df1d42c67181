package config

import (
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxValues bounds the values read, those that aliases repeat included. A file with 10,000
// queues has about 200,000.
const maxValues = 1_000_000

// mark is where a value of the effective configuration was set.
type mark struct {
	line  int
	path  string // as written: a default's path for a queue that took the value from it
	raw   string // the scalar as the file has it, before ${NAME} is replaced; empty for secrets
	env   bool   // ${NAME} was replaced in it
	bad   bool   // a fault was reported already
	layer int    // the nearer to the queue, the larger
}

// place is a value's path twice: in the effective configuration, and as the file wrote it.
type place struct{ key, path string }

func (p place) field(name string) place {
	if p.key == "" {
		return place{name, name}
	}
	return place{p.key + "." + name, p.path + "." + name}
}

func (p place) item(i int) place {
	index := "[" + strconv.Itoa(i) + "]"
	return place{p.key + index, p.path + index}
}

// options are what the cfg tag says about a field.
type options map[string]bool

func parseOptions(tag string) options {
	o := options{}
	for s := range strings.SplitSeq(tag, ",") {
		o[s] = true
	}
	return o
}

type field struct {
	name  string
	index []int
	opts  options
}

// fields lists the YAML keys of a struct in order, those of inlined structs included.
func fields(t reflect.Type) []field {
	var list []field
	for i := range t.NumField() {
		sf := t.Field(i)
		name, flags, _ := strings.Cut(sf.Tag.Get("yaml"), ",")
		switch {
		case flags == "inline":
			for _, f := range fields(sf.Type) {
				f.index = append([]int{i}, f.index...)
				list = append(list, f)
			}
		case sf.IsExported() && name != "-":
			list = append(list, field{name: name, index: []int{i}, opts: parseOptions(sf.Tag.Get("cfg"))})
		}
	}
	return list
}

// decoder walks the nodes of the document into the structs of Config.
type decoder struct {
	file   string
	dir    string
	env    func(string) (string, bool)
	faults faults
	marks  map[string]mark
	later  map[string]*yaml.Node // fields decoded after everything else
	layer  int
	values int
	types  map[reflect.Type][]field
}

func valueOf(p any) reflect.Value { return reflect.ValueOf(p).Elem() }

func (d *decoder) fields(t reflect.Type) []field {
	if f, ok := d.types[t]; ok {
		return f
	}
	if d.types == nil {
		d.types = make(map[reflect.Type][]field)
	}
	f := fields(t)
	d.types[t] = f
	return f
}

// fault reports a value that cannot be taken, and keeps the checks that follow from repeating it.
func (d *decoder) fault(n *yaml.Node, at place, format string, args ...any) {
	m := d.marks[at.key]
	m.bad = true
	d.marks[at.key] = m
	d.faults.add(Pos{File: d.file, Line: max(1, n.Line), Path: at.path}, format, args...)
}

// spent counts a value, and says whether there were too many.
func (d *decoder) spent(n *yaml.Node) bool {
	d.values++
	if d.values == maxValues {
		d.faults.add(Pos{File: d.file, Line: max(1, n.Line)}, "the file has more than %d values once its aliases are followed; repeat less, or use defaults and discovery", maxValues)
	}
	return d.values >= maxValues
}

// value decodes a node into v.
func (d *decoder) value(n *yaml.Node, v reflect.Value, opts options, at place) {
	if d.spent(n) {
		return
	}
	line := n.Line
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	d.marks[at.key] = mark{line: line, path: at.path, layer: d.layer}
	switch {
	case n.Kind == yaml.ScalarNode && isNull(n):
		d.fault(n, at, "has no value; give it one or remove the key")
	case opts["later"]:
		d.later[at.key] = n
	case n.Style&yaml.TaggedStyle != 0 && !plainTags[n.ShortTag()]:
		d.fault(n, at, "has a YAML tag; write the plain value")
	case v.Kind() == reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
			if def, ok := v.Interface().(interface{ setDefaults() }); ok {
				def.setDefaults()
			}
		}
		d.mapping(n, v.Elem(), at)
	case v.Kind() == reflect.Struct:
		d.mapping(n, v, at)
	case v.Kind() == reflect.Slice:
		d.list(n, v, opts, at)
	default:
		d.scalar(n, v, opts, at)
	}
}

var plainTags = map[string]bool{"!!str": true, "!!int": true, "!!float": true, "!!bool": true, "!!map": true, "!!seq": true}

func isNull(n *yaml.Node) bool { return n.ShortTag() == "!!null" }

func (d *decoder) list(n *yaml.Node, v reflect.Value, opts options, at place) {
	if n.Kind != yaml.SequenceNode {
		d.fault(n, at, "must be a list (one \"- \" an item, or [a, b]), not %s", kindOf(n))
		return
	}
	out := reflect.MakeSlice(v.Type(), 0, min(len(n.Content), 1024))
	for i, c := range n.Content {
		item := reflect.New(v.Type().Elem()).Elem()
		if def, ok := item.Addr().Interface().(interface{ setDefaults() }); ok {
			def.setDefaults()
		}
		d.value(c, item, opts, at.item(i))
		out = reflect.Append(out, item)
	}
	v.Set(out)
}

// entry is a key and value of a mapping.
type entry struct{ key, value *yaml.Node }

func (d *decoder) mapping(n *yaml.Node, v reflect.Value, at place) {
	if n.Kind != yaml.MappingNode {
		d.fault(n, at, "must be a mapping (key: value), not %s", kindOf(n))
		return
	}
	for _, e := range d.entries(n, at, 0) {
		if f, ok := find(d.fields(v.Type()), e.key.Value); ok {
			d.value(e.value, v.FieldByIndex(f.index), f.opts, at.field(f.name))
		} else {
			d.unknown(e.key, v.Type(), at)
		}
	}
}

func find(fs []field, name string) (field, bool) {
	for _, f := range fs {
		if f.name == name {
			return f, true
		}
	}
	return field{}, false
}

// entries lists a mapping's keys and values, with those it merges (<<) and does not set itself.
func (d *decoder) entries(n *yaml.Node, at place, depth int) []entry {
	var list []entry
	var merges []*yaml.Node
	first := make(map[string]*yaml.Node, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, val := n.Content[i], n.Content[i+1]
		switch {
		case d.spent(k):
			return list
		case k.Kind == yaml.ScalarNode && k.ShortTag() == "!!merge":
			merges = append(merges, val)
			continue
		case k.Kind != yaml.ScalarNode:
			d.fault(k, at, "has a key that is not a name; if a value begins with { or [, put it in quotes")
			continue
		case first[k.Value] != nil:
			d.fault(k, at.field(printable(k.Value)), "is set twice, first on line %d; keep one", first[k.Value].Line)
			continue
		}
		first[k.Value] = k
		list = append(list, entry{k, val})
	}
	for _, m := range merges {
		list = d.merge(list, first, m, at, depth+1)
	}
	return list
}

// merge adds the entries of a merge key's value that are not there yet.
func (d *decoder) merge(list []entry, first map[string]*yaml.Node, m *yaml.Node, at place, depth int) []entry {
	if m.Kind == yaml.AliasNode {
		m = m.Alias
	}
	switch {
	case depth > 10:
		d.fault(m, at, "merges (<<) more than 10 mappings into one another; merge fewer")
	case m.Kind == yaml.SequenceNode:
		for _, c := range m.Content {
			if d.spent(c) {
				break
			}
			list = d.merge(list, first, c, at, depth+1)
		}
	case m.Kind != yaml.MappingNode:
		d.fault(m, at, "merges (<<) %s; only a mapping can be merged", kindOf(m))
	default:
		for _, e := range d.entries(m, at, depth) {
			if first[e.key.Value] == nil {
				first[e.key.Value] = e.key
				list = append(list, e)
			}
		}
	}
	return list
}

// kindOf names what a node is, without showing it.
func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return kindOf(n.Alias)
	default:
		switch n.ShortTag() {
		case "!!int", "!!float":
			return "a number"
		case "!!bool":
			return "true or false"
		case "!!null":
			return "nothing"
		default:
			return "text"
		}
	}
}
