package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"
)

// MaxBytes is the largest configuration file read. One with 10,000 queues has about 4 MB.
const MaxBytes = 16 << 20

// Load reads and checks a configuration file. The variables of ${NAME} come from env; nil
// means the process environment. The error is an *Errors with every fault; warnings come with a good
// file only.
func Load(path string, env func(string) (string, bool)) (*Config, []Warning, error) {
	data, err := read(path)
	if err != nil {
		text := err.Error()
		var pe *fs.PathError
		switch {
		case errors.Is(err, fs.ErrNotExist):
			text = "there is no such file; name the configuration with -c"
		case errors.As(err, &pe):
			text = "cannot be read: " + pe.Err.Error()
		}
		return nil, nil, &Errors{Faults: []Fault{{Pos: Pos{File: path}, Text: text, Err: err}}}
	}
	return Parse(path, data, env)
}

func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, MaxBytes+1))
}

// Parse checks the text of a configuration file. The name stands in every error, and its directory is
// what relative paths in the text start from. See Load for the rest.
func Parse(name string, data []byte, env func(string) (string, bool)) (*Config, []Warning, error) {
	if env == nil {
		env = os.LookupEnv
	}
	d := &decoder{
		file:  name,
		dir:   filepath.Dir(name),
		env:   env,
		marks: make(map[string]mark),
		later: make(map[string]*yaml.Node),
	}
	root := d.document(data)
	if root == nil {
		return nil, nil, d.faults.err() // there is one
	}
	cfg := defaultConfig()
	cfg.file, cfg.marks = name, d.marks
	d.value(root, valueOf(&cfg), options{}, place{})
	d.queues(&cfg)
	if d.values < maxValues {
		v := &validator{decoder: d, cfg: &cfg}
		v.config()
	}
	if found := d.faults.err(); found != nil {
		found.partial = &cfg
		return nil, nil, found
	}
	return &cfg, warnings(&cfg), nil
}

// At returns the beginning of an error about a path of the effective configuration, such as
// accounts[0].queues[1]: "file:line: path", where path is as the file wrote it.
func (c *Config) At(path string) string { return c.pos(path).String() }

// Place returns where a path of the effective configuration was set. See At.
func (c *Config) Place(path string) Pos { return c.pos(path) }

// File returns the name of the file the configuration came from.
func (c *Config) File() string { return c.file }

// Set says whether the file sets that path of the effective configuration itself: neither a built-in value
// nor one of Defaults is there.
func (c *Config) Set(path string) bool {
	m, ok := c.marks[path]
	return ok && (m.layer == 0 || m.layer == len(c.rules)+1)
}

func (c *Config) pos(key string) Pos { return locate(c.file, c.marks, key) }

// locate finds where a value was set. What was not set stands where the nearest thing around it does.
func locate(file string, marks map[string]mark, key string) Pos {
	for k := key; k != ""; k = parent(k) {
		if m, ok := marks[k]; ok {
			return Pos{File: file, Line: m.line, Path: m.path + key[len(k):]}
		}
	}
	return Pos{File: file, Line: max(1, marks[""].line), Path: key}
}

// parent cuts the last field or index off a path.
func parent(key string) string {
	if i := lastStep(key); i >= 0 {
		return key[:i]
	}
	return ""
}

func lastStep(key string) int {
	for i := len(key) - 1; i >= 0; i-- {
		if key[i] == '.' || key[i] == '[' {
			return i
		}
	}
	return -1
}

// document parses the YAML, and returns the one document's root; nil after a fault.
func (d *decoder) document(data []byte) *yaml.Node {
	if line, text := checkText(data); text != "" {
		d.faults.add(Pos{File: d.file, Line: line}, "%s", text)
		return nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		d.empty(1)
		return nil
	case err != nil:
		d.syntax(data, err)
		return nil
	}
	var next yaml.Node
	switch err := dec.Decode(&next); {
	case errors.Is(err, io.EOF):
	case err != nil:
		d.syntax(data, err)
		return nil
	default:
		d.faults.add(Pos{File: d.file, Line: max(1, next.Line)}, "a second YAML document begins here; a configuration is one document, so merge them")
		return nil
	}
	if len(doc.Content) != 1 || isNull(doc.Content[0]) {
		d.empty(max(1, doc.Line))
		return nil
	}
	return doc.Content[0]
}

func (d *decoder) empty(line int) {
	d.faults.add(Pos{File: d.file, Line: line}, "the file is empty; it must name at least one account: accounts: [{name: …, connectionString: …, queues: [{name: …}]}]")
}

// String tells where the configuration came from; it shows none of it.
func (c *Config) String() string { return fmt.Sprintf("configuration %s", c.file) }
