package queue

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// The SDK reads message lists by reflection, which is a third of what a receive costs, and Go's XML
// decoder turns a carriage return into a line feed, so that renewing a lease would alter the body.
// listingPolicy takes the answer of a receive or peek out of the SDK's hands; scanMessages reads it.
type listingPolicy struct{}

// listings holds buffers that answers are read into; a listing itself is one string of the right size.
var listings = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// maxKept is the largest buffer worth keeping.
const maxKept = 256 << 10

// maxListing bounds what is read of one answer: 32 texts of 64 KiB, each byte escaped at worst as "&quot;".
const maxListing = 16 << 20

// Do implements policy.Policy.
func (listingPolicy) Do(req *policy.Request) (*http.Response, error) {
	resp, err := req.Next()
	if err != nil || resp.StatusCode != http.StatusOK || req.Raw().Method != http.MethodGet || !strings.HasSuffix(req.Raw().URL.Path, "/messages") {
		return resp, err
	}
	trace := traceFrom(req.Raw().Context())
	if trace == nil {
		return resp, nil
	}
	body := resp.Body
	defer body.Close()
	b := listings.Get().(*bytes.Buffer)
	defer func() {
		if b.Cap() <= maxKept {
			b.Reset()
			listings.Put(b)
		}
	}()
	n, err := b.ReadFrom(io.LimitReader(body, maxListing+1))
	if err != nil {
		return resp, err
	}
	if n > maxListing {
		return resp, errListing
	}
	trace.listing, resp.Body = b.String(), http.NoBody
	return resp, nil
}

type listed struct {
	id, receipt, text              string
	inserted, expires, nextVisible time.Time
	dequeueCount                   int
}

var errListing = errors.New("the answer is not a list of messages: is the endpoint a queue service?")

// scanMessages reads a QueueMessagesList. It knows the plain shape that the service writes; what it
// does not know (comments, CDATA, name spaces) it leaves to encoding/xml.
func scanMessages(s string) ([]listed, error) {
	list, ok := scanList(s)
	if ok {
		return list, nil
	}
	var doc struct {
		XMLName  xml.Name `xml:"QueueMessagesList"`
		Messages []struct {
			ID                            string `xml:"MessageId"`
			InsertionTime, ExpirationTime string
			PopReceipt, TimeNextVisible   string
			MessageText                   string
			DequeueCount                  int
		} `xml:"QueueMessage"`
	}
	if err := xml.Unmarshal([]byte(s), &doc); err != nil {
		return nil, errListing
	}
	for _, m := range doc.Messages {
		l := listed{id: m.ID, receipt: m.PopReceipt, text: m.MessageText, dequeueCount: m.DequeueCount}
		if m.DequeueCount < 0 || !l.times(m.InsertionTime, m.ExpirationTime, m.TimeNextVisible) {
			return nil, errListing
		}
		list = append(list, l)
	}
	return list, nil
}

func (l *listed) times(inserted, expires, next string) bool {
	var ok [3]bool
	l.inserted, ok[0] = serviceTime(inserted)
	l.expires, ok[1] = serviceTime(expires)
	l.nextVisible, ok[2] = serviceTime(next)
	return l.id != "" && ok == [3]bool{true, true, true}
}

func serviceTime(s string) (time.Time, bool) {
	if s == "" {
		return time.Time{}, true
	}
	t, err := time.Parse(time.RFC1123, s)
	return t, err == nil
}

func scanList(s string) (list []listed, ok bool) {
	s = space(strings.TrimPrefix(s, "\uFEFF"))
	if strings.HasPrefix(s, "<?xml") {
		_, rest, found := strings.Cut(s, "?>")
		if !found {
			return nil, false
		}
		s = space(rest)
	}
	if rest, found := strings.CutPrefix(s, "<QueueMessagesList />"); found {
		return nil, space(rest) == ""
	}
	if rest, found := strings.CutPrefix(s, "<QueueMessagesList/>"); found {
		return nil, space(rest) == ""
	}
	s, found := strings.CutPrefix(s, "<QueueMessagesList>")
	if !found {
		return nil, false
	}
	list = make([]listed, 0, min(strings.Count(s, "<QueueMessage>"), MaxReceive))
	for {
		s = space(s)
		if rest, end := strings.CutPrefix(s, "</QueueMessagesList>"); end {
			return list, space(rest) == ""
		}
		if s, found = strings.CutPrefix(s, "<QueueMessage>"); !found {
			return nil, false
		}
		var l listed
		if l, s, ok = scanMessage(s); !ok {
			return nil, false
		}
		list = append(list, l)
	}
}

func scanMessage(s string) (l listed, rest string, ok bool) {
	var inserted, expires, next string
	for {
		s = space(s)
		if rest, end := strings.CutPrefix(s, "</QueueMessage>"); end {
			return l, rest, l.times(inserted, expires, next)
		}
		if len(s) == 0 || s[0] != '<' {
			return l, s, false
		}
		name, after, found := strings.Cut(s[1:], ">")
		if !found {
			return l, s, false
		}
		if empty, cut := strings.CutSuffix(name, "/"); cut { // <MessageText />
			if !plainName(strings.TrimRight(empty, " ")) {
				return l, s, false
			}
			s = after
			continue
		}
		end := strings.IndexByte(after, '<')
		if end < 0 || !plainName(name) {
			return l, s, false
		}
		text, closing := after[:end], after[end:]
		if !strings.HasPrefix(closing, "</") || !strings.HasPrefix(closing[2:], name) || !strings.HasPrefix(closing[2+len(name):], ">") {
			return l, s, false
		}
		s = closing[len(name)+3:]
		if text, ok = unescape(text); !ok {
			return l, s, false
		}
		switch name {
		case "MessageId":
			l.id = text
		case "PopReceipt":
			l.receipt = text
		case "MessageText":
			l.text = text
		case "InsertionTime":
			inserted = text
		case "ExpirationTime":
			expires = text
		case "TimeNextVisible":
			next = text
		case "DequeueCount":
			n, err := strconv.Atoi(text)
			if err != nil || n < 0 {
				return l, s, false
			}
			l.dequeueCount = n
		}
	}
}

func plainName(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < 'A' || c > 'z' || c > 'Z' && c < 'a' {
			return false
		}
	}
	return s != ""
}

func space(s string) string { return strings.TrimLeft(s, " \t\r\n") }

// unescape resolves XML's own entities and character references.
func unescape(s string) (string, bool) {
	i := strings.IndexByte(s, '&')
	if i < 0 {
		return s, true
	}
	var b strings.Builder
	b.Grow(len(s))
	for i >= 0 {
		b.WriteString(s[:i])
		ref, rest, found := strings.Cut(s[i+1:], ";")
		if !found {
			return "", false
		}
		switch ref {
		case "lt":
			b.WriteByte('<')
		case "gt":
			b.WriteByte('>')
		case "amp":
			b.WriteByte('&')
		case "quot":
			b.WriteByte('"')
		case "apos":
			b.WriteByte('\'')
		default:
			digits, base := strings.TrimPrefix(ref, "#"), 10
			if digits == ref {
				return "", false
			}
			if hex, cut := strings.CutPrefix(digits, "x"); cut {
				digits, base = hex, 16
			}
			n, err := strconv.ParseUint(digits, base, 32)
			if err != nil || n > 0x10FFFF {
				return "", false
			}
			b.WriteRune(rune(n))
		}
		s = rest
		i = strings.IndexByte(s, '&')
	}
	b.WriteString(s)
	return b.String(), true
}
