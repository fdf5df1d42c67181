// Package tabletest is a double of the Azure Table service for tests of the stores below package
// processor: a transporter that keeps entities in memory, checks conditions and transactions as the
// service does, and fails on request. It makes no socket, so that it works under fake time.
package tabletest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
)

// The account that everybody knows from the emulator.
const (
	accountName = "devstoreaccount1"
	accountKey  = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
	endpoint    = "http://tables.test/" + accountName
)

// Operations.
const (
	Create  = "create"
	Insert  = "insert"
	Read    = "read"
	Replace = "replace"
	Merge   = "merge"
	Delete  = "delete"
	Query   = "query"
	Submit  = "submit"
)

// A Fault is what happens to requests of an operation instead of their success.
type Fault struct {
	Operation string        // "" for any
	Skip      int           // requests to let pass first
	Times     int           // requests to fail; 0: all that follow
	Commit    bool          // do it, then fail
	Status    int           // answer with it and Code; 0: break the connection
	Code      string        //
	Delay     time.Duration // before all of it
	Hang      bool          // until the request's context ends
	Empty     bool          // answer 202 without a body
}

// Service is the service. Its methods are safe for concurrent use.
type Service struct {
	// Skew is how far the service's clock is ahead. Set it before the first request.
	Skew time.Duration
	// PageSize is how many entities a query returns at once. Default 1,000.
	PageSize int

	mu     sync.Mutex
	tables map[string]map[keys]*entity
	faults []*Fault
	counts map[string]int
	last   time.Time
}

type keys struct{ partition, row string }

type entity struct {
	properties map[string]json.RawMessage
	etag       string
}

// Client returns the client of a table, signing with the emulator's key.
func (s *Service) Client(table string) *aztables.Client {
	cred, err := aztables.NewSharedKeyCredential(accountName, accountKey)
	if err != nil {
		panic(err)
	}
	c, err := aztables.NewClientWithSharedKey(endpoint+"/"+table, cred, &aztables.ClientOptions{
		ClientOptions: azcore.ClientOptions{Transport: s, Retry: policy.RetryOptions{MaxRetries: -1}},
	})
	if err != nil {
		panic(err)
	}
	return c
}

// Fail adds a fault. Faults apply in the order they were added.
func (s *Service) Fail(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, &f)
}

// Heal removes every fault.
func (s *Service) Heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

// Count returns how many requests of an operation came, failed ones too.
func (s *Service) Count(operation string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[operation]
}

// Entities returns a table's entities, sorted by their keys.
func (s *Service) Entities(table string) []map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []map[string]any
	for _, k := range s.sorted(table) {
		b, _ := json.Marshal(s.tables[table][k].properties)
		var m map[string]any
		_ = json.Unmarshal(b, &m)
		all = append(all, m)
	}
	return all
}

func (s *Service) sorted(table string) []keys {
	return slices.SortedFunc(maps.Keys(s.tables[table]), func(a, b keys) int {
		return strings.Compare(a.partition+"\x00"+a.row, b.partition+"\x00"+b.row)
	})
}

// Do implements policy.Transporter.
func (s *Service) Do(req *http.Request) (*http.Response, error) {
	var body []byte
	if req.Body != nil {
		var err error
		if body, err = io.ReadAll(req.Body); err != nil {
			return nil, err
		}
	}
	c, err := parseCall(req.Method, req.URL, req.Header, body)
	if err != nil {
		return nil, err
	}
	f := s.count(c.operation)
	if f != nil {
		if err := f.wait(req); err != nil {
			return nil, err
		}
	}
	if f != nil && !f.Commit {
		return s.fail(f, req)
	}
	answer := s.serve(c)
	if f != nil {
		return s.fail(f, req)
	}
	return s.respond(req, answer), nil
}

func (s *Service) count(operation string) *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counts == nil {
		s.counts = map[string]int{}
	}
	s.counts[operation]++
	for i, f := range s.faults {
		if f.Operation != "" && f.Operation != operation {
			continue
		}
		if f.Skip > 0 {
			f.Skip--
			continue
		}
		if f.Times == 1 {
			s.faults = slices.Delete(s.faults, i, i+1)
		} else if f.Times > 1 {
			f.Times--
		}
		return f
	}
	return nil
}

func (f *Fault) wait(req *http.Request) error {
	switch {
	case f.Hang:
		<-req.Context().Done()
		return req.Context().Err()
	case f.Delay > 0:
		select {
		case <-req.Context().Done():
			return req.Context().Err()
		case <-time.After(f.Delay):
		}
	}
	return nil
}

func (s *Service) fail(f *Fault, req *http.Request) (*http.Response, error) {
	switch {
	case f.Empty:
		return s.respond(req, answer{status: http.StatusAccepted}), nil
	case f.Status == 0:
		return nil, &url.Error{Op: req.Method, URL: req.URL.String() + "?sig=secret", Err: io.ErrUnexpectedEOF}
	default:
		return s.respond(req, refusal(f.Status, f.Code)), nil
	}
}

// An answer is what the service says.
type answer struct {
	status int
	code   string // of an error
	header map[string]string
	body   []byte
}

func refusal(status int, code string) answer {
	body := fmt.Sprintf(`{"odata.error":{"code":%q,"message":{"lang":"en-US","value":"No."}}}`, code)
	return answer{status: status, code: code, body: []byte(body)}
}

func (s *Service) respond(req *http.Request, a answer) *http.Response {
	h := http.Header{}
	h.Set("Date", s.now().UTC().Format(http.TimeFormat))
	h.Set("Content-Type", "application/json;odata=minimalmetadata")
	if a.code != "" {
		h.Set("x-ms-error-code", a.code)
	}
	for k, v := range a.header {
		h.Set(k, v)
	}
	return &http.Response{
		StatusCode: a.status, Status: fmt.Sprintf("%d %s", a.status, http.StatusText(a.status)),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: h, Body: io.NopCloser(bytes.NewReader(a.body)), ContentLength: int64(len(a.body)), Request: req,
	}
}

func (s *Service) now() time.Time { return time.Now().Add(s.Skew) }

// stamp returns a time that no entity has yet.
func (s *Service) stamp() time.Time {
	now := s.now().UTC()
	if !now.After(s.last) {
		now = s.last.Add(100 * time.Nanosecond)
	}
	s.last = now
	return now
}
