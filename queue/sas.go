package queue

import (
	"encoding/base64"
	"errors"
	"net/url"
	"strings"
	"time"
)

// sasToken is a shared access signature, checked as far as that goes without asking the service.
type sasToken struct {
	query     string    // as it is appended to a request's query
	starts    time.Time // zero when it does not say
	expires   time.Time // zero when a stored access policy says it
	services  string    // of an account SAS; "" for one queue's
	types     string    // resource types of an account SAS
	perms     string
	policy    bool // a stored access policy may hold permissions and expiry
	httpsOnly bool
}

// parseSAS reads a SAS: with or without a leading "?", or a whole SAS URL, whose endpoint it returns
// beside it. An expired one is not an error: its file may be renewed any moment, and the service's
// clock decides. No error shows a value.
func parseSAS(raw Secret) (tok sasToken, at string, err error) {
	s := strings.TrimSpace(string(raw))
	if lower := asciiLower(s); strings.HasPrefix(lower, "https://") || strings.HasPrefix(lower, "http://") {
		var found bool
		if at, s, found = strings.Cut(s, "?"); !found {
			return sasToken{}, "", errors.New("it is a URL without a SAS after a ?")
		}
	}
	s = strings.Trim(s, "?&")
	switch {
	case s == "":
		return sasToken{}, "", errors.New("it is empty")
	case strings.Contains(s, "&amp;"):
		return sasToken{}, "", errors.New("it has &amp; where & belongs: it was copied out of HTML or XML")
	case strings.ContainsAny(s, `"'`):
		return sasToken{}, "", errors.New("it has quotation marks in it: remove them")
	case strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '#' || r == '<' || r == '>' }):
		return sasToken{}, "", errors.New("it has a character that no SAS has (a space, a line break or one that is not ASCII): was it wrapped or cut?")
	case strings.Contains(asciiLower(s), "accountkey=") || strings.Contains(asciiLower(s), "sharedaccesssignature="):
		return sasToken{}, "", errors.New("it is a connection string: put it in connectionString (or connectionStringFile)")
	}
	v, query, err := sasValues(s)
	if err != nil {
		return sasToken{}, "", err
	}
	tok = sasToken{query: query, services: v["ss"], types: v["srt"], perms: v["sp"], policy: v["si"] != "", httpsOnly: v["spr"] == "https"}
	return tok, at, tok.check(v)
}

// sasValues splits a SAS. A raw "+" in a value can only be base64's: written as such in a query it
// would arrive as a space, so it is escaped.
func sasValues(s string) (map[string]string, string, error) {
	s = strings.ReplaceAll(s, "+", "%2B")
	v := make(map[string]string)
	for part := range strings.SplitSeq(s, "&") {
		name, value, _ := strings.Cut(part, "=")
		name = strings.ToLower(name)
		plain, err := url.QueryUnescape(value)
		if err != nil {
			return nil, "", errors.New("it has a broken % escape: was it cut off?")
		}
		if _, twice := v[name]; twice && len(name) <= 3 {
			return nil, "", errors.New("it has a parameter twice")
		}
		v[name] = plain
	}
	return v, s, nil
}

func (t *sasToken) check(v map[string]string) error {
	sig, err := base64.StdEncoding.DecodeString(v["sig"])
	switch {
	case v["sig"] == "":
		return errors.New("it has no signature (sig=): copy it again, as a whole")
	case err != nil || len(sig) != 32:
		return errors.New("its signature (sig=) is not 32 bytes in base64: it is cut off, or URL-encoded twice")
	case v["sv"] == "":
		return errors.New("it has no version (sv=): copy it again, as a whole")
	case v["tn"] != "":
		return errors.New("it is for a table (tn=): create one for the queue service")
	case v["sr"] != "" && v["sr"] != "q":
		return errors.New("it is for a blob, a container or a file (sr=): create one for the queue service")
	case v["ss"] != "" && !strings.Contains(v["ss"], "q"):
		return errors.New("it is not for the queue service: its services (ss=) lack q")
	case v["ss"] != "" && !strings.ContainsAny(v["srt"], "co"):
		return errors.New("it is not for queues or messages: its resource types (srt=) need c for queues and o for messages")
	case v["sp"] == "" && !t.policy:
		return errors.New("it grants nothing: it has neither permissions (sp=) nor a stored access policy (si=)")
	case v["sp"] != "" && !strings.ContainsAny(v["sp"], "raupwdlc"):
		return errors.New("its permissions (sp=) grant nothing on a queue: read r, add a, update u and process p are those that count")
	case v["se"] == "" && !t.policy:
		return errors.New("it has no expiry (se=): copy it again, as a whole")
	}
	if t.starts, err = sasTime(v["st"]); err != nil {
		return errors.New("its start (st=) is not a time")
	}
	if t.expires, err = sasTime(v["se"]); err != nil {
		return errors.New("its expiry (se=) is not a time")
	}
	if key, err := sasTime(v["ske"]); err == nil && !key.IsZero() && (t.expires.IsZero() || key.Before(t.expires)) {
		t.expires = key // a user delegation key that ends earlier
	}
	return nil
}

func sasTime(s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04Z", "2006-01-02T15:04Z07:00", "2006-01-02"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, errors.New("not a time")
}

// lacks says what the SAS lacks for an operation, or "". With a stored access policy nobody can tell.
func (t *sasToken) lacks(op Operation) string {
	need, ok := sasNeeds()[op]
	if !ok {
		return ""
	}
	if t.services == "" { // for one queue
		switch {
		case need.queueSAS == "":
			return "a SAS of a single queue cannot do it: use an account SAS, a key or an identity"
		case t.policy || strings.ContainsAny(t.perms, need.queueSAS):
			return ""
		}
		return "the SAS lacks the permission " + spell(need.queueSAS)
	}
	switch {
	case !strings.Contains(t.types, need.kind):
		return "the SAS lacks the resource type " + map[string]string{"s": "s (service)", "c": "c (container: queues)", "o": "o (object: messages)"}[need.kind]
	case !strings.ContainsAny(t.perms, need.perms):
		return "the SAS lacks the permission " + spell(need.perms)
	}
	return ""
}

type sasNeed struct {
	kind     string // resource type of an account SAS
	perms    string // any one of them
	queueSAS string // the same for one queue's SAS; "" when it cannot
}

func sasNeeds() map[Operation]sasNeed {
	return map[Operation]sasNeed{
		OpReceive:     {"o", "p", "p"},
		OpPeek:        {"o", "r", "r"},
		OpSend:        {"o", "a", "a"},
		OpUpdate:      {"o", "u", "u"},
		OpDelete:      {"o", "p", "p"},
		OpClear:       {"o", "d", "p"},
		OpProperties:  {"c", "r", "r"},
		OpCreate:      {"c", "cw", ""},
		OpDeleteQueue: {"c", "d", ""},
		OpList:        {"s", "l", ""},
		OpSetMetadata: {"c", "w", ""},
	}
}

func spell(perms string) string {
	names := map[rune]string{'r': "read", 'a': "add", 'u': "update", 'p': "process", 'd': "delete", 'c': "create", 'w': "write", 'l': "list"}
	var out []string
	for _, p := range perms {
		out = append(out, string(p)+" ("+names[p]+")")
	}
	return strings.Join(out, " or ")
}
