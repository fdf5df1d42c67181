// Package plainjson refuses JSON that can be read in two ways, where that would move or delete messages.
package plainjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Unambiguous finds what a reader of JSON makes up its own mind about: half a surrogate pair, which it replaces,
// and properties that are there twice, of which it takes the last, in whatever
// case. Line is valid JSON, an object.
func Unambiguous(line []byte) error {
	for i := 0; i < len(line); i++ {
		if line[i] != '\\' {
			continue
		}
		switch r := unit(line[i:]); {
		case r < 0:
			i++ // what is escaped by one letter
		case !utf16.IsSurrogate(r):
			i += 5
		case utf16.DecodeRune(r, unit(line[i+6:])) == utf8.RuneError:
			return fmt.Errorf("half a surrogate pair is escaped in it, at byte %d: that is no text", i+1)
		default:
			i += 11
		}
	}
	d := json.NewDecoder(bytes.NewReader(line))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return errors.New("it is not a JSON object")
	}
	seen := map[string]bool{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return errors.New("it is not JSON")
		}
		name := strings.ToLower(strings.ToUpper(fmt.Sprint(t))) // readers fold what looks like s and k as well
		if seen[name] {
			return fmt.Errorf("it has %.40q more than once", name)
		}
		seen[name] = true
		if err := d.Decode(new(json.RawMessage)); err != nil {
			return errors.New("it is not JSON")
		}
	}
	return nil
}

// unit is the code unit that text begins with the escape of; −1: it does not.
func unit(text []byte) rune {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(n)
}
