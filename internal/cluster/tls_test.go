package cluster_test

import (
	"context"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/qwatch/qwatch/internal/cluster"
)

// Replicas talk by TLS, to whom their authorities vouch for.
func TestPeersByTLS(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // refusals are what is tested
	server.StartTLS()
	t.Cleanup(server.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		peers cluster.PeersConfig
		fault string // empty: it answers
	}{
		"with its authority":       {peers: cluster.PeersConfig{CAFile: ca}},
		"under its name":           {peers: cluster.PeersConfig{CAFile: ca, ServerName: "example.com"}},
		"under another name":       {peers: cluster.PeersConfig{CAFile: ca, ServerName: "example.org"}, fault: "certificate"},
		"with other authorities":   {fault: "certificate"},
		"with a file of something": {peers: cluster.PeersConfig{CAFile: "tls_test.go"}, fault: "no certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := cluster.NewShards(cluster.ShardsConfig{Count: 2, Addr: func(int) string { return server.URL }, Peers: tt.peers})
			var answer *cluster.Answer
			if err == nil {
				t.Cleanup(s.Close)
				for range 50 { // on a machine that is busy, a handshake may take too long for an answer in time
					if answer, err = s.Ask(t.Context(), server.URL, "/x"); !errors.Is(err, context.DeadlineExceeded) {
						break
					}
				}
			}
			switch {
			case tt.fault == "" && (err != nil || string(answer.Body) != "hello"):
				t.Errorf("%+v, %v", answer, err)
			case tt.fault != "" && (err == nil || !strings.Contains(err.Error(), tt.fault)):
				t.Errorf("%v, want %q in it", err, tt.fault)
			}
		})
	}
}
