package forward_test

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/qwatch/qwatch/internal/forward"
	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
)

func TestConnectionsAreMadeByDial(t *testing.T) {
	t.Parallel()
	addr := strings.TrimPrefix(serve(t, func(http.ResponseWriter, *http.Request) {}), "http://")
	var asked []string
	h := post(t, forward.HTTPConfig{
		URL: queue.Secret("http://127.0.0.1:9/orders"), // where nobody listens
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			asked = append(asked, network+" "+address)
			return (&net.Dialer{}).DialContext(ctx, network, addr)
		},
	})
	if err := h.Handle(t.Context(), received(t)); err != nil {
		t.Fatalf("handle: %v", err)
	}
	if p, ok := h.(processor.Prober); !ok || p.Probe(t.Context()) != nil {
		t.Error("the probe does not reach the handler")
	}
	if got := strings.Join(asked, ", "); got != "tcp 127.0.0.1:9, tcp 127.0.0.1:9" {
		t.Errorf("dialled %s", got)
	}
}
