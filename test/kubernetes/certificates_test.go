//go:build drill

package kube_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/qwatch/qwatch/test/peer"
)

// writeCertificates writes what KEDA's operator and adapter show each other: ca.crt, tls.crt and tls.key, for localhost.
func writeCertificates(t testing.TB, dir string) {
	t.Helper()
	ca := peer.NewAuthority(t)
	cert, key := ca.Issue(t)
	for name, text := range map[string]string{"ca.crt": ca.PEM, "tls.crt": cert, "tls.key": key} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// failing is a handler to which every message is bad luck: it asks for another try each time.
func failing(t testing.TB) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
	}))
	t.Cleanup(server.Close)
	return server.URL
}
