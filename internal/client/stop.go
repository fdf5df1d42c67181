package client

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"
)

// How long to wait for the server to stop work, and for what came of it.
const (
	stopWait   = 5 * time.Second
	resultWait = 15 * time.Second
)

// stopping is the context of a request whose work is stopped when another context ends, so that its result is
// still heard.
type stopping struct {
	context.Context

	work atomic.Pointer[string]
	end  func()
}

// stoppedWith returns one for work on a queue's poison. Its end is to be called.
func (c *Client) stoppedWith(ctx context.Context, account, queue string) *stopping {
	out, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := &stopping{Context: out}
	unheard := context.AfterFunc(ctx, func() {
		id := s.work.Load()
		if id == nil { // it has not begun, or the server stops nothing: ending the request does
			cancel()
			return
		}
		t := time.AfterFunc(resultWait, cancel)
		context.AfterFunc(out, func() { t.Stop() })
		if err := c.stop(out, account, queue, *id); err != nil {
			cancel()
		}
	})
	s.end = func() { unheard(); cancel() }
	return s
}

// begun notes what the server calls the work.
func (s *stopping) begun(resp *http.Response) {
	if id := resp.Header.Get("Qwatch-Work"); id != "" {
		s.work.Store(&id)
	}
}

// stop has the server end work; it is no error when that is over.
func (c *Client) stop(ctx context.Context, account, queue, work string) error {
	ctx, cancel := context.WithTimeout(ctx, stopWait)
	defer cancel()
	var v struct{}
	err := c.whole(ctx, request{method: http.MethodPost, path: []string{"api", "v1", "poison", account, queue, "stop"}, query: url.Values{"work": {work}}}, &v)
	if over, ok := errors.AsType[*Error](err); ok && over.Status == http.StatusNotFound {
		return nil
	}
	return err
}
