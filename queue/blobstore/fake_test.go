package blobstore_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/blobstore"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// fake is an account's queue service and as much of a Blob service as faults need; what it stores
// correctly is proved on Azurite. It answers requests to hosts whose port or name is the Blob service's.
type fake struct {
	*queuetest.Server

	mu         sync.Mutex
	containers []string          // paths
	blobs      map[string][]byte // by path
	requests   []*http.Request   // to the Blob service
	fault      func(*http.Request) *http.Response
	trickle    bool // answers without a Content-Length
	read       int  // bytes that were read of bodies
}

// counted counts what is read of a body.
type counted struct {
	io.ReadCloser
	f *fake
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.f.read += n
	return n, err
}

func (f *fake) Do(r *http.Request) (*http.Response, error) {
	if !strings.HasSuffix(r.URL.Host, ":10000") && !strings.Contains(r.URL.Host, ".blob.") {
		return f.Server.Do(r)
	}
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests = append(f.requests, r)
	if f.fault != nil {
		if resp := f.fault(r); resp != nil {
			resp.Request = r
			return resp, nil
		}
	}
	resp := f.serve(r, body)
	resp.Request = r
	return resp, nil
}

func (f *fake) serve(r *http.Request, body []byte) *http.Response {
	path := r.URL.Path
	slash := strings.LastIndexByte(path, '/')
	_, exists := f.blobs[path]
	switch {
	case r.URL.Query().Get("restype") == "container":
		if slices.Contains(f.containers, path) {
			return answer(409, "ContainerAlreadyExists", nil)
		}
		if r.Header.Get("x-ms-blob-type") != "" || len(body) > 0 {
			return answer(400, "InvalidHeaderValue", nil)
		}
		f.containers = append(f.containers, path)
		return answer(201, "", nil)
	case !slices.Contains(f.containers, path[:slash]):
		return answer(404, "ContainerNotFound", nil)
	case r.Method == http.MethodPut:
		f.blobs[path] = body
		return answer(201, "", nil)
	case !exists:
		return answer(404, "BlobNotFound", nil)
	case r.Method == http.MethodDelete:
		delete(f.blobs, path)
		return answer(202, "", nil)
	default:
		resp := answer(200, "", f.blobs[path])
		resp.Body = counted{resp.Body, f}
		if f.trickle {
			resp.Header.Del("Content-Length")
			resp.ContentLength = -1
		}
		return resp
	}
}

func answer(status int, code string, body []byte) *http.Response {
	resp := &http.Response{StatusCode: status, Status: fmt.Sprint(status), Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body))}
	resp.Header.Set("x-ms-request-id", "r")
	resp.Header.Set("Content-Length", strconv.Itoa(len(body)))
	if code != "" {
		resp.Header.Set("x-ms-error-code", code)
	}
	return resp
}

func (f *fake) asked() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []string
	for _, r := range f.requests {
		path := r.URL.Path
		if i := strings.LastIndexByte(path, '/'); len(path)-i == 27 { // a random name
			path = path[:i+1] + "…"
		}
		line := r.Method + " " + path
		if r.URL.Query().Get("restype") != "" {
			line += " container"
		}
		out = append(out, line)
	}
	return out
}

func (f *fake) fail(fault func(*http.Request) *http.Response) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = fault
}

// always answers every request alike.
func always(status int, code string) func(*http.Request) *http.Response {
	return func(*http.Request) *http.Response { return answer(status, code, nil) }
}

// each runs a test in fake time on a store in the account of a fake.
func each(t *testing.T, cfg blobstore.Config, run func(t *testing.T, f *fake, acct *queue.Account, s *blobstore.Store)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		acct := account(t, f, queue.AccountConfig{ConnectionString: queue.Secret(f.ConnectionString())})
		s, err := blobstore.New(acct, cfg)
		if err != nil {
			t.Fatal(err)
		}
		run(t, f, acct, s)
	})
}

func newFake() *fake {
	return &fake{Server: queuetest.New(queuetest.Options{}), blobs: map[string][]byte{}}
}

func account(t *testing.T, f *fake, cfg queue.AccountConfig) *queue.Account {
	t.Helper()
	cfg.Name, cfg.Transport = "acct", f
	acct, err := queue.NewAccount(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return acct
}

// query returns the query of the last request to the Blob service.
func (f *fake) query() url.Values {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.requests[len(f.requests)-1].URL.Query()
}

// header returns a header of the last request to the Blob service.
func (f *fake) header(name string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.requests[len(f.requests)-1].Header.Get(name)
}
