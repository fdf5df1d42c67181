package web

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"
)

// A Role is what the holder of a token may do.
type Role string

// The roles. An operator may do all that a reader may.
const (
	RoleReader   Role = "reader"
	RoleOperator Role = "operator"
)

// Bounds of a tokens file.
const (
	minToken      = 16
	maxToken      = 512
	maxTokens     = 1000
	maxTokensFile = 1 << 20
	tokensRecheck = time.Second
)

// Tokens are the named tokens of a file. The file is looked at again at most once a second, when a
// token is to be found; one that cannot be used changes nothing, and is told once. Safe for
// concurrent use.
type Tokens struct {
	path string
	log  *slog.Logger

	mu      sync.Mutex
	list    []token
	seen    os.FileInfo // of what list was read from
	checked time.Time
	told    string // the fault of the file that was logged last
}

// token is one entry. Only the hash of the secret is kept: all hashes have one length, so comparing
// tells nothing about the secrets'.
type token struct {
	name string
	role Role
	hash [sha256.Size]byte
}

// OpenTokens reads the tokens file at path: a YAML list of name, role (reader or operator) and
// token, 16 printable characters at least. Changes of it are logged to logger; nil discards. The
// error names the file and the line, never what stands there.
func OpenTokens(path string, logger *slog.Logger) (*Tokens, error) {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	t := &Tokens{path: path, log: logger, checked: time.Now()}
	var err error
	if t.list, t.seen, err = readTokens(path); err != nil {
		return nil, err
	}
	return t, nil
}

// find returns whose token secret is.
func (t *Tokens) find(secret string) (token, bool) {
	list := t.current()
	hash := sha256.Sum256([]byte(secret))
	var found token
	ok := 0
	for _, c := range list { // all of them: how long it takes tells nothing
		if same := subtle.ConstantTimeCompare(hash[:], c.hash[:]); same == 1 {
			found, ok = c, 1
		}
	}
	return found, ok == 1
}

// current returns the tokens as the file has them.
func (t *Tokens) current() []token {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if now.Sub(t.checked) < tokensRecheck {
		return t.list
	}
	t.checked = now
	info, err := os.Stat(t.path)
	if err == nil && os.SameFile(info, t.seen) && info.ModTime().Equal(t.seen.ModTime()) && info.Size() == t.seen.Size() {
		t.told = ""
		return t.list
	}
	list, seen, err := readTokens(t.path)
	if err != nil {
		if fault := err.Error(); fault != t.told {
			t.told = fault
			t.log.Warn("tokens file not read again: the tokens from before stay valid", "error", err)
		}
		return t.list
	}
	t.list, t.seen, t.told = list, seen, ""
	t.log.Info("tokens file read again", "tokens", len(list))
	return t.list
}

// readTokens returns the tokens of a file and what the file was just before it was read.
func readTokens(path string) ([]token, os.FileInfo, error) {
	info, err := os.Stat(path) // before reading: a change meanwhile is seen at the next look
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s: it is not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	text, err := io.ReadAll(io.LimitReader(f, maxTokensFile+1))
	if err != nil {
		return nil, nil, err
	}
	list, err := parseTokens(text)
	if joined, ok := err.(interface{ Unwrap() []error }); ok { // each line names the file
		var errs []error
		for _, e := range joined.Unwrap() {
			errs = append(errs, fmt.Errorf("%s: %w", path, e))
		}
		return nil, nil, errors.Join(errs...)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return list, info, nil
}

// yamlLine finds the place in a message of the YAML parser, the only part of it that is shown: the
// rest may quote the file.
var yamlLine = regexp.MustCompile(`\bline (\d+)\b`)

func notYAML(err error) error {
	if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
		return fmt.Errorf("line %s: it is not YAML", m[1])
	}
	return errors.New("it is not YAML")
}

// parseTokens reads the text of a tokens file. Its errors show nothing of the text but names that are good.
func parseTokens(text []byte) ([]token, error) {
	if len(text) > maxTokensFile {
		return nil, fmt.Errorf("it is larger than %d bytes", maxTokensFile)
	}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	var doc, more yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, errors.New("it is empty: write a list of name, role and token ([] for none)")
	case err != nil:
		return nil, notYAML(err)
	}
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more than one document in it")
	}
	root := doc.Content[0]
	if root.Kind != yaml.SequenceNode {
		return nil, fmt.Errorf("line %d: want a list of name, role and token", root.Line)
	}
	if len(root.Content) > maxTokens {
		return nil, fmt.Errorf("there are more than %d tokens", maxTokens)
	}
	var errs []error
	list := make([]token, 0, len(root.Content))
	names, hashes := map[string]bool{}, map[[sha256.Size]byte]bool{}
	for _, n := range root.Content {
		t, err := parseToken(n)
		switch {
		case err != nil:
			errs = append(errs, err)
			continue
		case names[t.name]:
			errs = append(errs, fmt.Errorf("line %d: there is another token named %q", n.Line, t.name))
		case hashes[t.hash]:
			errs = append(errs, fmt.Errorf("line %d: the token of %q is another's too", n.Line, t.name))
		}
		names[t.name], hashes[t.hash] = true, true
		list = append(list, t)
	}
	return list, errors.Join(errs...)
}

// tokenName is what names may be: they go into logs.
var tokenName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$`)

func parseToken(n *yaml.Node) (token, error) {
	if n.Kind != yaml.MappingNode {
		return token{}, fmt.Errorf("line %d: want name, role and token", n.Line)
	}
	fields := map[string]string{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if k.Kind != yaml.ScalarNode || k.Value != "name" && k.Value != "role" && k.Value != "token" {
			return token{}, fmt.Errorf("line %d: unknown key: there are name, role and token", k.Line)
		}
		if _, twice := fields[k.Value]; twice {
			return token{}, fmt.Errorf("line %d: %s is there twice", k.Line, k.Value)
		}
		if v.Kind != yaml.ScalarNode || v.ShortTag() == "!!null" || v.Style&yaml.TaggedStyle != 0 {
			return token{}, fmt.Errorf("line %d: %s: want text", v.Line, k.Value)
		}
		fields[k.Value] = v.Value
	}
	t := token{name: fields["name"], role: Role(fields["role"])}
	secret := fields["token"]
	switch {
	case !tokenName.MatchString(t.name):
		return token{}, fmt.Errorf("line %d: name: want 1 to 64 letters, digits and . _ @ -", n.Line)
	case secret == t.name:
		return token{}, fmt.Errorf("line %d: name and token are the same", n.Line)
	case t.role != RoleReader && t.role != RoleOperator:
		return token{}, fmt.Errorf("line %d: role: want %s or %s", n.Line, RoleReader, RoleOperator)
	case len(secret) < minToken || len(secret) > maxToken:
		return token{}, fmt.Errorf("line %d: token: want %d to %d characters", n.Line, minToken, maxToken)
	}
	for _, c := range []byte(secret) {
		if c <= ' ' || c > '~' {
			return token{}, fmt.Errorf("line %d: token: want printable ASCII characters without spaces", n.Line)
		}
	}
	t.hash = sha256.Sum256([]byte(secret))
	return t, nil
}
