package doctor_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"go.uber.org/goleak"

	"github.com/qwatch/qwatch/internal/app"
	"github.com/qwatch/qwatch/internal/config"
	"github.com/qwatch/qwatch/internal/doctor"
	"github.com/qwatch/qwatch/queue/queuetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	consumed = `queues: [{name: orders, consumer: {handler: {http: {url: "http://handler.invalid/"}}}}]`
	watched  = `queues: [{name: orders}]`
	wrongKey = "Fby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)

// storage is a service with the queue "orders", two messages on it, and no poison queue.
func storage(t *testing.T, o queuetest.Options) *queuetest.Server {
	t.Helper()
	s := queuetest.New(o)
	for _, path := range []string{"orders", "orders/messages", "orders/messages"} {
		put(t, s, path)
	}
	s.ResetCounts()
	return s
}

// put creates a queue, or sends to one, with an account SAS.
func put(t *testing.T, s *queuetest.Server, path string) {
	t.Helper()
	method, body := http.MethodPut, ""
	if strings.HasSuffix(path, "/messages") {
		method, body = http.MethodPost, "<QueueMessage><MessageText>hello</MessageText></QueueMessage>"
	}
	at := s.Endpoint(queuetest.AccountName) + "/" + path + "?" + signed("rwdlacup", time.Now().Add(time.Hour))
	req, err := http.NewRequestWithContext(t.Context(), method, at, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Ms-Version", "2026-04-06")
	resp, err := s.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		t.Fatalf("%s %s: %s", method, path, resp.Status)
	}
}

// signed is a SAS of the whole account with the permissions given.
func signed(perms string, expires time.Time) string {
	const version = "2022-11-02"
	until := expires.UTC().Format("2006-01-02T15:04:05Z")
	key, err := base64.StdEncoding.DecodeString(queuetest.AccountKey)
	if err != nil {
		panic(err)
	}
	mac := hmac.New(sha256.New, key)
	_, _ = io.WriteString(mac, strings.Join([]string{queuetest.AccountName, perms, "q", "sco", "", until, "", "https,http", version, "", ""}, "\n"))
	return url.Values{
		"sv": {version}, "ss": {"q"}, "srt": {"sco"}, "sp": {perms}, "se": {until}, "spr": {"https,http"},
		"sig": {base64.StdEncoding.EncodeToString(mac.Sum(nil))},
	}.Encode()
}

// connected is a network on which every connection succeeds.
func connected() doctor.Options {
	return doctor.Options{
		Timeout: 5 * time.Second,
		Lookup: func(context.Context, string) ([]net.IPAddr, error) {
			return []net.IPAddr{{IP: net.IPv4(10, 1, 2, 3)}}, nil
		},
		Dial: func(context.Context, string, string) (net.Conn, error) {
			client, server := net.Pipe()
			_ = server.Close()
			return client, nil
		},
		Proxy: func(*http.Request) (*url.URL, error) { return nil, nil },
	}
}

// withKey is an account that signs in with a key.
func withKey(key, rest string) string {
	return `{endpoint: "http://127.0.0.1:10001/devstoreaccount1", accountKey: "` + key + `", ` + rest + `}`
}

func withSAS(sas, rest string) string {
	return `{endpoint: "http://127.0.0.1:10001/devstoreaccount1", sas: "` + sas + `", ` + rest + `}`
}

// withIdentity is an account on which the machine's identity signs in.
func withIdentity(rest string) string {
	return `{endpoint: "https://devstoreaccount1.queue.core.windows.net", identity: {type: managed}, ` + rest + `}`
}

// examine parses an account, named acct, and examines it.
func examine(t *testing.T, transport policy.Transporter, account string, o doctor.Options) doctor.Report {
	t.Helper()
	cfg := parse(t, account)
	fleet, err := app.OpenFleet(cfg, app.FleetOptions{Transport: transport, Timeout: o.Timeout})
	if err != nil {
		t.Fatal(err)
	}
	defer fleet.Close()
	return doctor.Examine(t.Context(), cfg, fleet, o)
}

func parse(t *testing.T, account string) *config.Config {
	t.Helper()
	text := "accounts: [" + strings.Replace(account, "{", "{name: acct, ", 1) + "]"
	cfg, _, err := config.Parse("qwatch.yaml", []byte(text), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// entra gives the machine's identity a token, or with refuse does not; everything else is storage.
type entra struct {
	storage *queuetest.Server
	refuse  bool
}

// Do implements policy.Transporter.
func (e entra) Do(r *http.Request) (*http.Response, error) {
	if strings.Contains(r.URL.Host, ".queue.") {
		return e.storage.Do(r)
	}
	status, body := http.StatusOK, `{"access_token":"token","token_type":"Bearer","expires_in":"3600","expires_on":"4070908800","resource":"https://storage.azure.com"}`
	if e.refuse {
		status, body = http.StatusBadRequest, `{"error":"invalid_request","error_description":"Identity not found"}`
	}
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r,
	}, nil
}
