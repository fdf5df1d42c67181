package queuetest

import (
	"net/http"
)

// ending says how an answer reaches the client, if not whole.
type ending struct {
	err      error // no answer, and nothing happened
	drop     bool  // no answer, though it happened
	truncate bool  // half the body, then the connection breaks
}

// serve carries out a request whose body has been read. It returns the answer's header;
// status and body are in c.
func (s *Server) serve(c *call) (http.Header, ending) {
	c.tick(s)
	f := c.parse(s)
	s.counters(c).count(c.verb)
	if c.acct == nil && c.hosted && !c.socket {
		return nil, ending{err: unknownHost(host(c.req))}
	}
	requestID := s.requestID()
	fault := s.match(c)
	if fault != nil {
		if err := fault.wait(c.req.Context()); err != nil {
			return nil, ending{err: err}
		}
		c.tick(s)
		if fault.Refuse {
			return nil, ending{err: refused()}
		}
	}
	switch {
	case fault.instead():
		f = fault.failure()
	case f == nil:
		if f = s.authorize(c); f == nil {
			f = s.run(c)
		}
	}
	if f == nil && fault.after() {
		f = fault.failure()
	}
	if f != nil {
		c.fail(f, requestID)
	}
	if s.onRequest != nil {
		s.onRequest(Request{
			Op:     Op{Account: c.account, Queue: c.queue, Operation: c.operation()},
			Status: c.status, Code: c.code, Injected: fault != nil,
		})
	}
	if fault == nil {
		return s.head(c, requestID), ending{}
	}
	return s.head(c, requestID), ending{drop: fault.DropResponse, truncate: fault.Truncate}
}

// tick reads the clock.
func (c *call) tick(s *Server) {
	c.now, c.shift = s.now().UnixMicro(), s.offset.Load()/micro
}

// run carries out what was authorized.
func (s *Server) run(c *call) *failure {
	if c.acct == nil {
		return &failure{status: http.StatusNotFound, code: "ResourceNotFound"}
	}
	switch c.verb {
	case listQueues:
		return s.list(c)
	case serviceProperties:
		return s.serviceProperties(c)
	case createQueue:
		return s.create(c)
	case deleteQueue:
		return s.deleteQueue(c)
	case getMetadata:
		return s.properties(c)
	case setMetadata:
		return s.setMetadata(c)
	case getACL:
		return s.policies(c)
	case setACL:
		return s.setPolicies(c)
	case putMessage:
		return s.put(c)
	case getMessages, peekMessages:
		return s.get(c)
	case clearMessages:
		return s.clear(c)
	case updateMessage:
		return s.update(c)
	case deleteMessage:
		return s.remove(c)
	}
	return &failure{status: http.StatusMethodNotAllowed, code: "UnsupportedHttpVerb"}
}

// serviceProperties answers settings this service does not have.
func (s *Server) serviceProperties(c *call) *failure {
	if c.req.Method != http.MethodGet {
		return &failure{status: http.StatusMethodNotAllowed, code: "UnsupportedHttpVerb"}
	}
	c.status = http.StatusOK
	c.out = append(c.out, prolog+"<StorageServiceProperties></StorageServiceProperties>"...)
	return nil
}

// requestID makes the next request's id.
func (s *Server) requestID() string {
	n := s.seq.Add(1)
	return string(appendID(make([]byte, 0, 36), messageID(^n)))
}
