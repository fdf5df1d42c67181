package config

import (
	"bytes"
	"fmt"
	"time"
)

const (
	// settleFor is how long a file must stay as it is to be read while others may be writing it,
	settleFor = 250 * time.Millisecond
	// settleTries and how often that is looked at.
	settleTries = 20
)

// LoadSettled is Load for a file that somebody may be writing meanwhile: half of it may be good by itself, and
// without its second half. It takes what is the same when it is read again a quarter of a second later, and gives up on a
// file that still changes after five seconds. A writer that pauses for longer goes unnoticed.
func LoadSettled(path string, env func(string) (string, bool)) (*Config, []Warning, error) {
	before, err := read(path)
	for range settleTries {
		if err != nil {
			break
		}
		time.Sleep(settleFor)
		var now []byte
		if now, err = read(path); err == nil && bytes.Equal(before, now) {
			return Parse(path, now, env)
		}
		before = now
	}
	if err != nil {
		return Load(path, env) // which says what is wrong, if it still is
	}
	text := fmt.Sprintf("is being written: it changed again and again for %v; write the new one beside it and rename it", settleTries*settleFor)
	return nil, nil, &Errors{Faults: []Fault{{Pos: Pos{File: path}, Text: text}}}
}
