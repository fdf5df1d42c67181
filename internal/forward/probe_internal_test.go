package forward

import (
	"net"
	"net/http"
	"net/url"
	"testing"

	"github.com/qwatch/qwatch/queue"
)

// What can be reached is the proxy; the handler's name may mean something to it alone.
func TestProbeConnectsToTheProxy(t *testing.T) {
	proxy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = proxy.Close() }()
	h, err := HTTP(HTTPConfig{URL: queue.Secret("http://orders.invalid/")})
	if err != nil {
		t.Fatal(err)
	}
	h.transport.Proxy = http.ProxyURL(&url.URL{Scheme: "http", Host: proxy.Addr().String()})
	if err := h.Probe(t.Context()); err != nil {
		t.Errorf("probe through a proxy: %v", err)
	}
}

func TestPortOfAURL(t *testing.T) {
	for text, want := range map[string]string{
		"http://h": "80", "https://h/": "443", "http://h:8080": "8080", "https://[::1]:1/": "1", "socks5://p": "1080", "socks5h://p": "1080",
	} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := port(u); got != want {
			t.Errorf("port of %s is %s, want %s", text, got, want)
		}
	}
}
