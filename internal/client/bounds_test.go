package client_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/qwatch/qwatch/internal/client"
)

// A server that answers without an end does not fill the memory of those who ask.
func TestAnAnswerWithoutAnEnd(t *testing.T) {
	t.Parallel()
	blank := bytes.Repeat([]byte(" "), 1<<20)
	var sent atomic.Int64
	s := serve(t, (*httptest.Server).Start, func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			n, err := w.Write(blank)
			if sent.Add(int64(n)); err != nil {
				return
			}
		}
	})
	c := asked(t, client.Config{URL: s.URL})
	var v map[string]any
	err := c.Fleet(t.Context(), nil, &v)
	if err == nil || !strings.Contains(err.Error(), "larger than 64 MiB") {
		t.Errorf("error %v", err)
	}
	if n := sent.Load(); n > 96<<20 {
		t.Errorf("%d bytes were taken", n)
	}
}
