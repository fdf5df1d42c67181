package queuetest

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Operation names a request; the values are package queue's.
type Operation string

// The operations. OpOther is everything else, malformed requests included.
const (
	OpReceive     Operation = "receive"
	OpPeek        Operation = "peek"
	OpSend        Operation = "send"
	OpUpdate      Operation = "update"
	OpDelete      Operation = "delete"
	OpClear       Operation = "clear"
	OpProperties  Operation = "properties"
	OpCreate      Operation = "create"
	OpDeleteQueue Operation = "delete_queue"
	OpList        Operation = "list"
	OpOther       Operation = "other"
)

// verb is what a request asks for, finer than Operation.
type verb uint8

const (
	unknown verb = iota
	listQueues
	serviceProperties
	createQueue
	deleteQueue
	getMetadata
	setMetadata
	getACL
	setACL
	putMessage
	getMessages
	peekMessages
	clearMessages
	updateMessage
	deleteMessage
	numVerbs
)

// numOps is the size of a table indexed by an operation's place in operations.
const numOps = 11

var operations = [numOps]Operation{OpReceive, OpPeek, OpSend, OpUpdate, OpDelete, OpClear, OpProperties, OpCreate, OpDeleteQueue, OpList, OpOther}

var operationOf = [numVerbs]uint8{
	unknown: 10, serviceProperties: 10, setMetadata: 10, getACL: 10, setACL: 10,
	getMessages: 0, peekMessages: 1, putMessage: 2, updateMessage: 3, deleteMessage: 4, clearMessages: 5,
	getMetadata: 6, createQueue: 7, deleteQueue: 8, listQueues: 9,
}

type pair struct{ key, value string }

// call is one request on its way through the server. It is reused.
type call struct {
	req    *http.Request
	secure bool // arrived over https
	socket bool // arrived over a socket: header names lost their case

	account string
	hosted  bool     // the host names the account
	acct    *account // nil if there is no such account
	queue   string
	q       *queue // nil if the request names no queue, or an impossible one
	message string
	verb    verb

	query []pair // decoded, keys in lower case
	body  []byte // of the request
	now   int64  // microseconds, without the clock's offset
	shift int64  // the clock's offset in microseconds

	answer
	scratch []byte
	headers []pair
}

func (c *call) operation() Operation { return operations[operationOf[c.verb]] }

// time returns the service's time of the request.
func (c *call) time() time.Time { return time.UnixMicro(c.now + c.shift) }

// param returns the value of a query parameter, and whether it is there.
func (c *call) param(name string) (string, bool) {
	for i := range c.query {
		if c.query[i].key == name {
			return c.query[i].value, true
		}
	}
	return "", false
}

// number returns a whole-number parameter within [low, high], or def if it is absent.
func (c *call) number(name string, def, low, high int64) (int64, *failure) {
	v, ok := c.param(name)
	if !ok {
		return def, nil
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		return 0, invalidParameter(name, v, "Failed to parse query parameter.")
	}
	if n < low || n > high {
		return 0, outOfRange(name, v, low, high)
	}
	return n, nil
}

// parse reads the address of the request: account, queue, message and parameters.
func (c *call) parse(s *Server) *failure {
	u := c.req.URL
	if !c.parseQuery(u.RawQuery) {
		return &failure{status: http.StatusBadRequest, code: "RequestUrlFailedToParse"}
	}
	path := strings.TrimPrefix(u.Path, "/")
	if account, ok := hostAccount(host(c.req)); ok {
		c.account, c.hosted = account, true
	} else {
		c.account, path, _ = strings.Cut(path, "/")
	}
	c.acct = s.accounts[c.account]
	name, path, _ := strings.Cut(path, "/")
	messages, id, deep := strings.Cut(path, "/")
	c.queue, c.message = name, id
	c.verb = c.classify(name, messages, id)
	if name == "" {
		return nil
	}
	if f := checkName(name); f != nil {
		return f
	}
	if c.acct != nil {
		c.q = c.acct.find(name)
	}
	if messages != "" && messages != "messages" || deep && id == "" || strings.Contains(id, "/") {
		c.verb = unknown
		return &failure{status: http.StatusBadRequest, code: "InvalidUri"}
	}
	return nil
}

func (c *call) classify(name, messages, id string) verb {
	method := c.req.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	comp, _ := c.param("comp")
	switch {
	case name == "":
		restype, _ := c.param("restype")
		switch {
		case method == http.MethodGet && comp == "list":
			return listQueues
		case comp == "properties" && restype == "service":
			return serviceProperties
		}
	case messages == "":
		return classifyQueue(method, comp)
	case id == "":
		switch method {
		case http.MethodPost:
			return putMessage
		case http.MethodDelete:
			return clearMessages
		case http.MethodGet:
			if peek, _ := c.param("peekonly"); strings.EqualFold(peek, "true") {
				return peekMessages
			}
			return getMessages
		}
	default:
		switch method {
		case http.MethodPut:
			return updateMessage
		case http.MethodDelete:
			return deleteMessage
		}
	}
	return unknown
}

func classifyQueue(method, comp string) verb {
	switch {
	case method == http.MethodPut && comp == "":
		return createQueue
	case method == http.MethodDelete && comp == "":
		return deleteQueue
	case method == http.MethodGet && comp == "metadata":
		return getMetadata
	case method == http.MethodPut && comp == "metadata":
		return setMetadata
	case method == http.MethodGet && comp == "acl":
		return getACL
	case method == http.MethodPut && comp == "acl":
		return setACL
	}
	return unknown
}

func host(r *http.Request) string {
	h := r.Host
	if h == "" {
		h = r.URL.Host
	}
	if i := strings.LastIndexByte(h, ':'); i >= 0 && !strings.HasSuffix(h, "]") {
		h = h[:i]
	}
	return h
}

// hostAccount finds the account in hosts of the form ACCOUNT.queue.…
func hostAccount(host string) (string, bool) {
	account, rest, ok := strings.Cut(host, ".")
	return account, ok && strings.HasPrefix(rest, "queue.")
}

// parseQuery splits and decodes the query; it reports whether that could be done.
func (c *call) parseQuery(raw string) bool {
	c.query = c.query[:0]
	for raw != "" {
		var part string
		part, raw, _ = strings.Cut(raw, "&")
		if part == "" {
			continue
		}
		k, v, _ := strings.Cut(part, "=")
		var ok1, ok2 bool
		k, ok1 = unescape(k)
		v, ok2 = unescape(v)
		if !ok1 || !ok2 {
			return false
		}
		c.query = append(c.query, pair{strings.ToLower(k), v})
	}
	return true
}

func unescape(s string) (string, bool) {
	if strings.IndexByte(s, '%') < 0 && strings.IndexByte(s, '+') < 0 {
		return s, true
	}
	u, err := url.QueryUnescape(s)
	return u, err == nil
}

// checkName enforces the rules for queue names.
func checkName(name string) *failure {
	if len(name) < 3 || len(name) > 63 {
		return &failure{status: http.StatusBadRequest, code: "OutOfRangeInput"}
	}
	for i := range len(name) {
		switch b := name[i]; {
		case 'a' <= b && b <= 'z', '0' <= b && b <= '9':
		case b == '-' && i > 0 && i < len(name)-1 && name[i-1] != '-':
		default:
			return &failure{status: http.StatusBadRequest, code: "InvalidResourceName"}
		}
	}
	return nil
}
