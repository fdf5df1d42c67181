package queuetest

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// list answers one page of queues, in order of their names.
func (s *Server) list(c *call) *failure {
	limit, f := c.number("maxresults", maxPage, 1, 1<<31-1)
	if f != nil {
		return f
	}
	prefix, _ := c.param("prefix")
	marker, _ := c.param("marker")
	from, ok := strings.CutPrefix(marker, "/"+c.account+"/")
	if marker != "" && !ok {
		return &failure{status: http.StatusBadRequest, code: "InvalidMarker"}
	}
	include, _ := c.param("include")
	withMetadata := false
	for part := range strings.SplitSeq(include, ",") {
		switch part {
		case "metadata":
			withMetadata = true
		case "":
		default:
			return invalidParameter("include", include, "Invalid query parameter value.")
		}
	}
	names := c.acct.names(prefix, from)
	next := ""
	if n := min(int(limit), maxPage); len(names) > n {
		next = "/" + c.account + "/" + names[n]
		names = names[:n]
	}

	c.status = http.StatusOK
	b := append(c.out, prolog+`<EnumerationResults ServiceEndpoint="`...)
	b = append(b, s.serviceEndpoint(c)...)
	b = append(b, `">`...)
	b = appendElement(b, "Prefix", prefix)
	b = appendElement(b, "Marker", marker)
	if _, ok := c.param("maxresults"); ok {
		b = appendElement(b, "MaxResults", strconv.FormatInt(limit, 10))
	}
	b = append(b, "<Queues>"...)
	for _, name := range names {
		b = append(b, "<Queue>"...)
		b = appendElement(b, "Name", name)
		if withMetadata {
			b = append(b, "<Metadata>"...)
			for _, m := range c.acct.find(name).copyMetadata() {
				b = appendElement(b, m.key, m.value)
			}
			b = append(b, "</Metadata>"...)
		}
		b = append(b, "</Queue>"...)
	}
	b = append(b, "</Queues>"...)
	if next == "" {
		b = append(b, "<NextMarker />"...)
	} else {
		b = appendElement(b, "NextMarker", next)
	}
	c.out = append(b, "</EnumerationResults>"...)
	return nil
}

// appendElement appends <name>value</name>, or nothing if there is no value.
func appendElement(b []byte, name, value string) []byte {
	if value == "" {
		return b
	}
	b = append(b, '<')
	b = append(b, name...)
	b = append(b, '>')
	b = appendText(b, value)
	b = append(b, "</"...)
	b = append(b, name...)
	return append(b, '>')
}

// names returns the account's queues with a prefix, from a name on, in order.
func (a *account) names(prefix, from string) []string {
	var names []string
	a.mu.RLock()
	defer a.mu.RUnlock()
	for name, q := range a.queues {
		if name < from || !strings.HasPrefix(name, prefix) {
			continue
		}
		q.mu.Lock()
		if q.exists {
			names = append(names, name)
		}
		q.mu.Unlock()
	}
	slices.Sort(names)
	return names
}

func (q *queue) copyMetadata() []pair {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.metadata // replaced, never changed
}

// serviceEndpoint is the account's URL as the request addressed it.
func (s *Server) serviceEndpoint(c *call) string {
	host := c.req.Host
	if host == "" {
		host = c.req.URL.Host
	}
	scheme := "http://"
	if c.secure {
		scheme = "https://"
	}
	b := appendText(nil, scheme+host+"/")
	if _, ok := hostAccount(host); !ok {
		b = appendText(b, c.account)
	}
	return strings.ReplaceAll(string(b), `"`, "&quot;")
}
