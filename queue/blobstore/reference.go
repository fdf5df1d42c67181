package blobstore

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"github.com/qwatch/qwatch/queue"
)

// maxReference bounds a reference in bytes: the longest endpoint, container and blob name are shorter.
const maxReference = 2 << 10

// address reads a reference: the address of a blob in the store's own container, as a JSON string. It
// returns the address that may be asked for, made of the store's container and the blob's name alone.
// Whatever else a message says is ErrUnreadable, and shown nowhere.
func (s *Store) address(ref json.RawMessage) (string, error) {
	var text string
	if len(ref) > maxReference || json.Unmarshal(ref, &text) != nil {
		return "", s.foreign("it is not the address of a blob")
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Opaque != "" {
		return "", s.foreign("it is not the address of a blob")
	}
	own, err := url.Parse(s.container)
	if err != nil {
		return "", s.foreign(err.Error())
	}
	switch {
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.HasSuffix(text, "#"):
		return "", s.foreign("it has more than a blob's address, such as a SAS")
	case u.Scheme != own.Scheme || !sameHost(u, own):
		return "", s.foreign("it points to another account or host")
	}
	name, ok := strings.CutPrefix(u.EscapedPath(), own.EscapedPath()+"/")
	if !ok {
		return "", s.foreign("it points to another container")
	}
	if !plainName(name) {
		return "", s.foreign("it does not end in a plain blob name")
	}
	return s.container + "/" + name, nil
}

func sameHost(a, b *url.URL) bool {
	return strings.EqualFold(a.Hostname(), b.Hostname()) && portOf(a) == portOf(b)
}

func portOf(u *url.URL) string {
	switch p := u.Port(); {
	case p != "":
		return p
	case u.Scheme == "https":
		return "443"
	default:
		return "80"
	}
}

// plainName says whether a name means the same wherever it stands in a path: segments of letters,
// digits and a few signs, none of them dots alone.
func plainName(name string) bool {
	if len(name) > 1024 {
		return false
	}
	for segment := range strings.SplitSeq(name, "/") {
		if strings.Trim(segment, ".") == "" {
			return false
		}
		for _, r := range segment {
			switch {
			case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune("-_.~", r):
			default:
				return false
			}
		}
	}
	return true
}

func (s *Store) foreign(why string) error {
	return fmt.Errorf("%w: the message's reference is not one of the body store %s: %s", queue.ErrUnreadable, s, why)
}
