package forward

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
)

// Probe implements processor.Prober: it connects to the handler, or to the proxy on the way to it, and
// says nothing there.
func (h *HTTPHandler) Probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, h.timeout)
	defer cancel()
	to := h.url
	if h.transport.Proxy != nil {
		switch proxy, err := h.transport.Proxy(&http.Request{URL: h.url}); {
		case err != nil:
			return fmt.Errorf("probe handler at %s: the proxy's address cannot be read", h.url.Host)
		case proxy != nil:
			to = proxy
		}
	}
	conn, err := h.transport.DialContext(ctx, "tcp", net.JoinHostPort(to.Hostname(), port(to)))
	if err != nil {
		return &saidError{fmt.Sprintf("probe handler at %s: %s", h.url.Host, whyNotConnected(err)), err}
	}
	return conn.Close()
}

// port is the port of a URL, its scheme's if it names none.
func port(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	case u.Scheme == "socks5", u.Scheme == "socks5h":
		return "1080"
	default:
		return "80"
	}
}
