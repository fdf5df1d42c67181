package queuetest

import (
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// defaultVersion is the protocol version answered to requests that name none.
const defaultVersion = "2026-04-06"

// keptBuffer is the largest answer whose memory is used again.
const keptBuffer = 1 << 20

// Do answers a request in process: Server is a policy.Transporter. Errors have the form
// of an http.Client's, and come from injected faults, from the request's context, and
// from hosts that name no account of the server. Closing the response's body lets the
// server use its memory again.
func (s *Server) Do(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, clientError(r, err)
	}
	c := s.take(r)
	c.socket, c.secure = false, r.URL.Scheme == "https"
	if err := c.read(); err != nil {
		s.give(c)
		return nil, clientError(r, err)
	}
	h, end := s.serve(c)
	if end.err == nil && end.drop {
		end.err = io.EOF
	}
	if end.err != nil {
		s.give(c)
		return nil, clientError(r, end.err)
	}
	resp := &response{Response: http.Response{
		Status: statusLine(c.status), StatusCode: c.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: h, ContentLength: int64(len(c.out)), Request: r,
	}}
	if len(c.out) == 0 || r.Method == http.MethodHead {
		resp.Body = http.NoBody
		s.give(c)
		return &resp.Response, nil
	}
	resp.body = body{s: s, c: c, rest: c.out, end: io.EOF}
	if end.truncate {
		resp.body.rest, resp.body.end = c.out[:len(c.out)/2], io.ErrUnexpectedEOF
	}
	resp.Body = &resp.body
	return &resp.Response, nil
}

// ServeHTTP answers a request that came over a socket. Dropped, refused and truncated
// answers break the connection.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := s.take(r)
	defer s.give(c)
	c.socket, c.secure = true, r.TLS != nil
	if err := c.read(); err != nil {
		panic(http.ErrAbortHandler)
	}
	h, end := s.serve(c)
	if end.err != nil || end.drop {
		panic(http.ErrAbortHandler)
	}
	to := w.Header()
	maps.Copy(to, h)
	out := c.out
	if len(out) > 0 || c.status != http.StatusNoContent {
		to["Content-Length"] = []string{strconv.Itoa(len(out))}
	}
	w.WriteHeader(c.status)
	if r.Method == http.MethodHead {
		return
	}
	if end.truncate {
		_, _ = w.Write(out[:len(out)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(out) // the client may be gone; nobody to tell
}

// response is an http.Response with its body, in one piece of memory.
type response struct {
	http.Response
	body body
}

// body reads an answer, and gives the call back when it is closed.
type body struct {
	mu   sync.Mutex
	s    *Server
	c    *call
	rest []byte
	end  error
}

func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.c == nil {
		return 0, http.ErrBodyReadAfterClose
	}
	if len(b.rest) == 0 {
		return 0, b.end
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

func (b *body) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.c != nil {
		b.s.give(b.c)
		b.c, b.rest = nil, nil
	}
	return nil
}

// take returns a call for r; give puts it back. A call keeps memory, not state.
func (s *Server) take(r *http.Request) *call {
	c, _ := s.calls.Get().(*call)
	if c == nil {
		c = new(call)
	}
	c.req = r
	return c
}

func (s *Server) give(c *call) {
	c.reset()
	clear(c.query)
	clear(c.headers)
	if cap(c.out) > keptBuffer {
		c.out = nil
	}
	*c = call{
		query: c.query[:0], headers: c.headers[:0], body: c.body[:0], scratch: c.scratch[:0],
		answer: answer{out: c.out, extra: c.extra},
	}
	s.calls.Put(c)
}

// read takes in the body, up to a little more than the largest that can be right.
func (c *call) read() error {
	c.body = c.body[:0]
	r := c.req
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	defer func() { _ = r.Body.Close() }() // as an http.Client would
	for {
		if len(c.body) == cap(c.body) {
			c.body = append(c.body, make([]byte, max(4096, len(c.body)))...)[:len(c.body)]
		}
		n, err := r.Body.Read(c.body[len(c.body):cap(c.body)])
		c.body = c.body[:len(c.body)+n]
		if errors.Is(err, io.EOF) || len(c.body) > maxBody {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// clientError wraps err as an http.Client would.
func clientError(r *http.Request, err error) error {
	op := r.Method
	if op == "" {
		op = http.MethodGet
	}
	return &url.Error{Op: op[:1] + strings.ToLower(op[1:]), URL: r.URL.String(), Err: err}
}

// refused is the error of dialing a closed port.
func refused() error {
	return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
}

// unknownHost is the error of dialing an account that does not exist.
func unknownHost(host string) error {
	return &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}}
}

func statusLine(code int) string {
	switch code {
	case http.StatusOK:
		return "200 OK"
	case http.StatusCreated:
		return "201 Created"
	case http.StatusNoContent:
		return "204 No Content"
	}
	return strconv.Itoa(code) + " " + http.StatusText(code)
}
