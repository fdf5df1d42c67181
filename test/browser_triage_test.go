package test_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/test/peer"
)

// TestBrowserLetsAnOperatorReplay has messages die, with script in every text that is not qwatch's own, and an operator
// look at them and bring them back.
func TestBrowserLetsAnOperatorReplay(t *testing.T) {
	const (
		operator, reader = "correct-horse-battery", "1234567890123456"
		script           = `<script>window.pwned=1</script><img src=x onerror="window.pwned=1">`
		reason           = `"><svg onload=pwned=1> </li><b>bad order</b> javascript:pwned=1`
		team             = `</td><script>pwned=1</script>`
	)
	body := script + "\u202e'\"`${pwned=1}`\r\n end of body"
	var mended atomic.Bool
	var mu sync.Mutex
	var handled []string
	handler := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if !mended.Load() {
			w.Header().Set("Qwatch-Reason", reason)
			w.WriteHeader(http.StatusUnprocessableEntity)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		handled = append(handled, string(b))
	}))
	t.Cleanup(handler.Close)
	_, address, open := embedded(t)
	orders := open("orders")
	tokens := filepath.Join(t.TempDir(), "tokens.yaml")
	text := fmt.Sprintf("- {name: ann, role: operator, token: %s}\n- {name: grafana, role: reader, token: %q}\n", operator, reader)
	if err := os.WriteFile(tokens, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var want []string
	for range 6 {
		if _, err := orders.Send(t.Context(), []byte(body), queue.SendOptions{Headers: map[string]string{"order": script}}); err != nil {
			t.Fatal(err)
		}
		want = append(want, body)
	}
	s := serveWith(t, fmt.Sprintf(`
accounts:
  - name: hostile
    connectionString: %q
    queues:
      - name: orders
        team: %q
        consumer: {handler: {http: {url: %q}}, visibilityTimeout: 30s}
watch: {interval: 1s, idleInterval: 1s}
`, connection(address), team, handler.URL), "tokensFile: "+tokens)
	eventually(t, 30*time.Second, "all messages have died", func() bool {
		count, err := orders.Poison().Properties(t.Context())
		return err == nil && count.ApproximateMessages == 6
	})
	mended.Store(true)
	peer.Browse(t, "triage.js", shots(), map[string]string{"url": s.main, "operator": operator, "reader": reader, "reason": reason, "team": team, "body": body}, &struct{}{})
	eventually(t, 30*time.Second, "the replayed messages are handled", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(handled) == 6
	})
	if !slices.Equal(handled, want) {
		t.Errorf("handled %q", handled)
	}
}
