package tabletest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"regexp"
	"strings"
)

// A call is one request, read.
type call struct {
	operation string
	table     string
	keys      keys
	ifMatch   string // "" for none
	query     url.Values
	entity    map[string]json.RawMessage
	parts     []call // of a transaction
}

var entityPath = regexp.MustCompile(`^(\w+)\(PartitionKey='((?:[^']|'')*)',RowKey='((?:[^']|'')*)'\)$`)

func parseCall(method string, u *url.URL, h http.Header, body []byte) (call, error) {
	path := strings.TrimPrefix(strings.TrimPrefix(u.Path, "/"+accountName), "/")
	c := call{query: u.Query(), ifMatch: h.Get("If-Match")}
	if path == "$batch" {
		parts, err := parseParts(h.Get("Content-Type"), body)
		c.operation, c.parts = Submit, parts
		return c, err
	}
	if len(body) > 0 {
		if err := json.Unmarshal(body, &c.entity); err != nil {
			return c, fmt.Errorf("tabletest: read the entity: %w", err)
		}
	}
	m := entityPath.FindStringSubmatch(path)
	if m != nil {
		unquote := func(s string) string { return strings.ReplaceAll(s, "''", "'") }
		c.table, c.keys = m[1], keys{unquote(m[2]), unquote(m[3])}
	}
	switch {
	case path == "Tables" && method == http.MethodPost:
		c.operation, c.table = Create, text(c.entity["TableName"])
	case m == nil && method == http.MethodPost:
		c.operation, c.table = Insert, path
		c.keys = keys{text(c.entity["PartitionKey"]), text(c.entity["RowKey"])}
	case m == nil && method == http.MethodGet:
		c.operation, c.table = Query, strings.TrimSuffix(path, "()")
	case m == nil:
		return c, fmt.Errorf("tabletest: cannot %s %s", method, path)
	case method == http.MethodGet:
		c.operation = Read
	case method == http.MethodPut:
		c.operation = Replace
	case method == http.MethodPatch, method == "MERGE":
		c.operation = Merge
	case method == http.MethodDelete:
		c.operation = Delete
	default:
		return c, fmt.Errorf("tabletest: cannot %s %s", method, path)
	}
	return c, nil
}

func text(raw json.RawMessage) (s string) {
	_ = json.Unmarshal(raw, &s)
	return s
}

// parseParts reads a transaction: a multipart message in a multipart message, with requests in it.
func parseParts(contentType string, body []byte) ([]call, error) {
	outer, err := parts(contentType, body)
	if err != nil || len(outer) != 1 {
		return nil, fmt.Errorf("tabletest: %d changesets: %w", len(outer), err)
	}
	inner, err := parts(outer[0].header.Get("Content-Type"), outer[0].body)
	if err != nil {
		return nil, err
	}
	var calls []call
	for _, p := range inner {
		r := bufio.NewReader(bytes.NewReader(p.body))
		line, err := r.ReadString('\n')
		if err != nil {
			return nil, err
		}
		verb := strings.Fields(line)
		u, err := url.Parse(verb[1])
		if err != nil {
			return nil, err
		}
		h, err := textproto.NewReader(r).ReadMIMEHeader()
		if err != nil {
			return nil, err
		}
		rest, err := io.ReadAll(r)
		if err != nil {
			return nil, err
		}
		c, err := parseCall(verb[0], u, http.Header(h), bytes.TrimSpace(rest))
		if err != nil {
			return nil, err
		}
		calls = append(calls, c)
	}
	return calls, nil
}

type part struct {
	header textproto.MIMEHeader
	body   []byte
}

func parts(contentType string, body []byte) ([]part, error) {
	_, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		return nil, err
	}
	var all []part
	for r := multipart.NewReader(bytes.NewReader(body), params["boundary"]); ; {
		p, err := r.NextRawPart()
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		b, err := io.ReadAll(p)
		if err != nil {
			return nil, err
		}
		all = append(all, part{p.Header, b})
	}
}

func (s *Service) serve(c call) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch c.operation {
	case Create:
		if s.tables[c.table] != nil {
			return refusal(http.StatusConflict, "TableAlreadyExists")
		}
		if s.tables == nil {
			s.tables = map[string]map[keys]*entity{}
		}
		s.tables[c.table] = map[keys]*entity{}
		return answer{status: http.StatusCreated, body: []byte(`{"TableName":"` + c.table + `"}`)}
	case Submit:
		return s.submit(c.parts)
	case Query:
		return s.query(c)
	}
	return s.one(c)
}

// submit does all or nothing.
func (s *Service) submit(calls []call) answer {
	before := map[string]map[keys]*entity{}
	for name, t := range s.tables {
		before[name] = maps.Clone(t)
	}
	answers, status := make([]answer, 0, len(calls)), 0
	seen := map[keys]bool{}
	for i, c := range calls {
		a := s.one(c)
		switch {
		case c.keys.partition != calls[0].keys.partition:
			a = refusal(http.StatusBadRequest, "CommandsInBatchActOnDifferentPartitions")
		case seen[c.keys]:
			a = refusal(http.StatusBadRequest, "InvalidDuplicateRow")
		case len(calls) > 100:
			a = refusal(http.StatusBadRequest, "InvalidInput")
		}
		seen[c.keys] = true
		if a.status >= 400 {
			s.tables = before
			a.body = bytes.Replace(a.body, []byte(`"value":"`), fmt.Appendf(nil, `"value":"%d:`, i), 1)
			answers, status = []answer{a}, a.status
			break
		}
		answers = append(answers, a)
	}
	var b bytes.Buffer
	b.WriteString("--batchresponse_1\r\nContent-Type: multipart/mixed; boundary=changesetresponse_1\r\n\r\n")
	for _, a := range answers {
		fmt.Fprintf(&b, "--changesetresponse_1\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\nHTTP/1.1 %d %s\r\n", a.status, http.StatusText(a.status))
		if status != 0 {
			fmt.Fprintf(&b, "Content-Type: application/json\r\n\r\n%s\r\n", a.body)
		} else {
			b.WriteString("\r\n\r\n")
		}
	}
	b.WriteString("--changesetresponse_1--\r\n--batchresponse_1--\r\n")
	return answer{status: http.StatusAccepted, body: b.Bytes(), header: map[string]string{"Content-Type": "multipart/mixed; boundary=batchresponse_1"}}
}

// one does a call on one entity.
func (s *Service) one(c call) answer {
	t := s.tables[c.table]
	if t == nil {
		return refusal(http.StatusNotFound, "TableNotFound")
	}
	e := t[c.keys]
	switch {
	case c.operation == Insert && e != nil:
		return refusal(http.StatusConflict, "EntityAlreadyExists")
	case e == nil && c.operation != Insert && (c.operation == Read || c.operation == Delete || c.ifMatch != ""):
		return refusal(http.StatusNotFound, "ResourceNotFound")
	case e != nil && c.ifMatch != "" && c.ifMatch != "*" && c.ifMatch != e.etag:
		return refusal(http.StatusPreconditionFailed, "UpdateConditionNotSatisfied")
	}
	switch c.operation {
	case Read:
		b, _ := json.Marshal(e.properties)
		return answer{status: http.StatusOK, body: b, header: map[string]string{"ETag": e.etag}}
	case Delete:
		delete(t, c.keys)
		return answer{status: http.StatusNoContent}
	}
	properties := map[string]json.RawMessage{}
	if c.operation == Merge && e != nil {
		properties = maps.Clone(e.properties)
	}
	for k, v := range c.entity {
		if string(v) != "null" {
			properties[k] = v
		}
	}
	if code := tooLarge(properties); code != "" {
		return refusal(http.StatusBadRequest, code)
	}
	at := s.stamp().Format("2006-01-02T15:04:05.0000000Z")
	n := &entity{properties: properties, etag: `W/"datetime'` + url.QueryEscape(at) + `'"`}
	n.properties["Timestamp"], _ = json.Marshal(at)
	n.properties["odata.etag"], _ = json.Marshal(n.etag)
	t[c.keys] = n
	a := answer{status: http.StatusNoContent, header: map[string]string{"ETag": n.etag}}
	if c.operation == Insert {
		a.status = http.StatusCreated
		a.body, _ = json.Marshal(n.properties)
	}
	return a
}
