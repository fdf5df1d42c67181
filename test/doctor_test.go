package test_test

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2/sas"

	"github.com/qwatch/qwatch/test/peer"
)

// O2 on a real peer: each fault is named with its cure, and the exit status is 1.
func TestDoctorOnAzurite(t *testing.T) {
	t.Parallel()
	azurite := peer.Azurite(t)
	good := fmt.Sprintf("connectionString: %q", azurite.ConnectionString())
	setup := writeConfig(t, good, "queues: [{name: orders, createIfMissing: true}, {name: orders-poison, createIfMissing: true, noPoison: true}]")
	for _, q := range []string{"orders", "orders-poison"} {
		if r := run(t, nil, "queue", "send", "dev/"+q, "hello", "-c", setup); r.status != 0 {
			t.Fatalf("send to %s: %s", q, r.stderr)
		}
	}
	const consumed = `queues: [{name: orders, consumer: {handler: {http: {url: "http://127.0.0.1:1/"}}}}]`
	keyed := func(endpoint, key string) string {
		return fmt.Sprintf("endpoint: %q\n    accountKey: %q", endpoint, key)
	}
	wrongKey := "F" + peer.AccountKey[1:]
	secure, trust := behindTLS(t, azurite.QueueURL())

	for name, tt := range map[string]struct {
		account, queues string
		status          int
		want            map[string]string // reason to a part of its cure
	}{
		"a consumer that may do everything": {good, consumed, 0, nil},
		"a read-only SAS": {
			fmt.Sprintf("endpoint: %q\n    sas: %q", azurite.QueueURL(), readOnly(t)), consumed, 1,
			map[string]string{"sas_permission": "the SAS lacks the permission"},
		},
		"a wrong key": {keyed(azurite.QueueURL(), wrongKey), consumed, 1, map[string]string{"wrong_key": "copy the key again"}},
		"a skewed clock": {
			keyed(skewed(t, azurite.QueueURL(), 20*time.Minute), peer.AccountKey), consumed, 1,
			map[string]string{"clock_skew": "set this machine's clock"},
		},
		"a table that is made when it is needed": {good, keeping(azurite.TableURL(), true), 0, nil},
		"a missing table":                        {good, keeping(azurite.TableURL(), false), 1, map[string]string{"missing_table": "set failureRecords.createTable"}},
		"a missing queue":                        {good, "queues: [{name: invoices}]", 1, map[string]string{"missing_queue": "az storage queue create --name invoices"}},
		"an identity that gets no token": {
			fmt.Sprintf("endpoint: %q\n    identity: {type: workload}", secure), consumed, 1,
			map[string]string{"no_token": `the pod must carry the label azure.workload.identity/use: "true"`},
		},
		"a closed port": {keyed("http://"+closedPort(t)+"/"+peer.AccountName, peer.AccountKey), consumed, 1, map[string]string{"connection_refused": "check host and port"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := run(t, []string{"SSL_CERT_FILE=" + trust}, "doctor", "-c", writeConfig(t, tt.account, tt.queues), "-o", "json")
			if r.status != tt.status {
				t.Errorf("exit status %d, want %d\n%s%s", r.status, tt.status, r.stdout, r.stderr)
			}
			var findings []struct{ Status, Reason, Detail, Cure string }
			if err := json.Unmarshal([]byte(r.stdout), &findings); err != nil {
				t.Fatalf("%v in %q", err, r.stdout)
			}
			got := map[string]string{}
			for _, f := range findings {
				if f.Status == "failed" {
					got[f.Reason] += f.Cure + "\n"
				}
			}
			if len(got) != len(tt.want) {
				t.Errorf("reasons %q, want %q", got, tt.want)
			}
			for reason, cure := range tt.want {
				if !strings.Contains(got[reason], cure) {
					t.Errorf("%s: cure %q does not name %q; it is %+v", reason, got[reason], cure, findings)
				}
			}
			for _, secret := range []string{peer.AccountKey, wrongKey, "sig="} {
				if strings.Contains(r.stdout+r.stderr, secret) {
					t.Error("a secret is shown")
				}
			}
		})
	}
	// Nothing was received, sent or deleted for good.
	for _, q := range []string{"orders", "orders-poison"} {
		r := run(t, nil, "queue", "peek", "dev/"+q, "-c", setup, "-o", "json")
		var messages []struct{ DequeueCount int }
		if err := json.Unmarshal([]byte(r.stdout), &messages); err != nil || len(messages) != 1 || messages[0].DequeueCount != 0 {
			t.Errorf("%s now: %v %s", q, err, r.stdout)
		}
	}
}

// keeping is the queue with a consumer that keeps records of its failures in a table.
func keeping(endpoint string, create bool) string {
	return fmt.Sprintf(`queues: [{name: orders, consumer: {handler: {http: {url: "http://127.0.0.1:1/"}}, failureRecords: {endpoint: %q, createTable: %v}}}]`, endpoint, create)
}

// writeConfig writes a configuration with the account dev.
func writeConfig(t *testing.T, signIn, queues string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "qwatch.yaml")
	text := "accounts:\n  - name: dev\n    " + signIn + "\n    " + queues + "\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// readOnly is an account SAS that may list, count and peek.
func readOnly(t *testing.T) string {
	t.Helper()
	key, err := azqueue.NewSharedKeyCredential(peer.AccountName, peer.AccountKey)
	if err != nil {
		t.Fatal(err)
	}
	q, err := sas.AccountSignatureValues{
		Version: sas.Version, Protocol: sas.ProtocolHTTPSandHTTP, ExpiryTime: time.Now().Add(30 * 24 * time.Hour),
		ResourceTypes: "sco", Permissions: "rl",
	}.SignWithSharedKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return q.Encode()
}

// skewed is Azurite behind a proxy that moves its clock. Azurite, unlike the service, checks no dates: the proxy
// refuses nothing either, so that it is the Date alone that tells.
func skewed(t *testing.T, target string, by time.Duration) string {
	t.Helper()
	proxy, path := proxyTo(t, target)
	proxy.ModifyResponse = func(r *http.Response) error {
		r.Header.Set("Date", time.Now().Add(by).UTC().Format(http.TimeFormat))
		return nil
	}
	server := httptest.NewServer(proxy)
	t.Cleanup(server.Close)
	return server.URL + path
}

// behindTLS is Azurite behind TLS, without which no token would be sent, and a file with the certificate.
func behindTLS(t *testing.T, target string) (endpoint, trust string) {
	t.Helper()
	proxy, path := proxyTo(t, target)
	server := httptest.NewTLSServer(proxy)
	t.Cleanup(server.Close)
	trust = filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(trust, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return server.URL + path, trust
}

// proxyTo is a proxy for a URL, and the URL's path.
func proxyTo(t *testing.T, target string) (proxy *httputil.ReverseProxy, path string) {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	return &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = u.Scheme, u.Host, u.Host
	}}, u.Path
}

// closedPort is an address at which nothing listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}
