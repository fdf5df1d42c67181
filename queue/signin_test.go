package queue_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2/sas"

	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// The emulator's key with its first letter changed: a key that was rotated away.
const oldKey = "Fby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

const emulator = "http://127.0.0.1:10001/devstoreaccount1"

func accountSigned(t testing.TB, key, types, perms string, expiry time.Time) string {
	t.Helper()
	cred, err := azqueue.NewSharedKeyCredential(queuetest.AccountName, key)
	if err != nil {
		t.Fatal(err)
	}
	q, err := sas.AccountSignatureValues{
		Version: sas.Version, Protocol: sas.ProtocolHTTPSandHTTP, ExpiryTime: expiry, ResourceTypes: types, Permissions: perms,
	}.SignWithSharedKey(cred)
	if err != nil {
		t.Fatal(err)
	}
	return q.Encode()
}

func queueSigned(t testing.TB, name, perms string, expiry time.Time) string {
	t.Helper()
	cred, err := azqueue.NewSharedKeyCredential(queuetest.AccountName, key)
	if err != nil {
		t.Fatal(err)
	}
	q, err := sas.QueueSignatureValues{
		Version: sas.Version, Protocol: sas.ProtocolHTTPSandHTTP, ExpiryTime: expiry, Permissions: perms, QueueName: name,
	}.SignWithSharedKey(cred)
	if err != nil {
		t.Fatal(err)
	}
	return q.Encode()
}

// use sends, peeks, receives, renews and deletes a message.
func use(ctx context.Context, a *queue.Account) error {
	q, err := a.Queue("orders", queue.Config{})
	if err != nil {
		return err
	}
	if _, err = q.Send(ctx, "hello", queue.SendOptions{}); err != nil {
		return err
	}
	if _, err = q.Peek(ctx, 32); err != nil {
		return err
	}
	if _, err = q.Properties(ctx); err != nil {
		return err
	}
	m, err := q.Receive(ctx, 1, 0)
	if err != nil {
		return err
	}
	return errors.Join(m[0].Renew(ctx, time.Minute), m[0].Complete(ctx))
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// logs collects log lines.
type logs struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *logs) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

func TestEverySignInIsAccepted(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		p := filepath.Join(dir, name)
		write(t, p, text)
		return p
	}
	soon := time.Now().Add(time.Hour)
	full := accountSigned(t, key, "sco", "rwdlacup", soon)
	one := queueSigned(t, "orders", "raup", soon)
	plus := full
	for at := soon; !strings.Contains(plus, "%2B"); at = at.Add(time.Second) {
		plus = accountSigned(t, key, "sco", "rwdlacup", at)
	}
	for name, cfg := range map[string]queue.AccountConfig{
		"connection string":             {ConnectionString: queue.Secret("AccountName=devstoreaccount1;AccountKey=" + key + ";QueueEndpoint=" + emulator)},
		"connection string from a file": {ConnectionStringFile: file("cs", "AccountName=devstoreaccount1;AccountKey="+key+";QueueEndpoint="+emulator+"/\n")},
		"emulator":                      {ConnectionString: "UseDevelopmentStorage=true"},
		"connection string with a SAS":  {ConnectionString: queue.Secret("QueueEndpoint=" + emulator + ";SharedAccessSignature=" + full)},
		"connection string with a ?SAS": {ConnectionString: queue.Secret("QueueEndpoint=" + emulator + "/;SharedAccessSignature=?" + full + ";")},
		"account key":                   {Endpoint: emulator, AccountKey: key},
		"account key, trailing slash":   {Endpoint: emulator + "/", AccountKey: key},
		"account key from a file":       {Endpoint: emulator, AccountKeyFile: file("key", key+"\n")},
		"account key at a queue's URL":  {Endpoint: emulator + "/orders", AccountKey: key},
		"SAS":                           {Endpoint: emulator, SAS: queue.Secret(full)},
		"SAS with a question mark":      {Endpoint: emulator + "/", SAS: queue.Secret("?" + full)},
		"SAS from a file":               {Endpoint: emulator, SASFile: file("sas", "?"+full+"\n")},
		"SAS URL":                       {SAS: queue.Secret(emulator + "?" + full)},
		"SAS of one queue":              {Endpoint: emulator, SAS: queue.Secret(one)},
		"SAS URL of one queue":          {SAS: queue.Secret(emulator + "/orders?" + one)},
		"SAS whose signature has raw +": {Endpoint: emulator, SAS: queue.Secret(strings.NewReplacer("%2B", "+", "%2F", "/", "%3D", "=").Replace(plus))},
		"an identity's token":           {Endpoint: "https://devstoreaccount1.queue.core.windows.net", Identity: &queue.Identity{Credential: fixedToken("t")}},
	} {
		t.Run(name, func(t *testing.T) {
			srv := queuetest.New(queuetest.Options{AllowBearer: true})
			owner := account(t, queue.AccountConfig{Name: "owner", ConnectionString: queue.Secret(srv.ConnectionString()), Transport: srv})
			created(t, owner, queue.Config{})
			var l logs
			cfg.Name, cfg.Transport, cfg.Logger = "acct", srv, l.logger()
			a := account(t, cfg)
			if err := use(t.Context(), a); err != nil {
				t.Error(err)
			}
			if l.String() != "" {
				t.Errorf("logged %s", &l)
			}
		})
	}
}

type fixedToken string

func (f fixedToken) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	return azcore.AccessToken{Token: string(f), ExpiresOn: time.Now().Add(time.Hour)}, nil
}

// A transport need not say which request an answer is to.
// B34, B40: what the SDK makes of odd strings must not reach storage.
func TestRequestsGoToTheRightURL(t *testing.T) {
	for name, cfg := range map[string]queue.AccountConfig{
		"plain":      {Endpoint: "https://acct.queue.core.windows.net", AccountKey: key},
		"slash":      {Endpoint: "https://acct.queue.core.windows.net/", AccountKey: key},
		"queue URL":  {Endpoint: "https://acct.queue.core.windows.net/orders/", AccountKey: key},
		"SAS":        {Endpoint: "https://acct.queue.core.windows.net", SAS: "?" + accountSAS},
		"SAS string": {ConnectionString: "QueueEndpoint=https://acct.queue.core.windows.net/;SharedAccessSignature=?" + accountSAS},
	} {
		t.Run(name, func(t *testing.T) {
			var urls []string
			cfg.Name = "acct"
			cfg.Transport = transportFunc(func(r *http.Request) (*http.Response, error) {
				urls = append(urls, r.Method+" "+r.URL.String())
				return nil, errors.New("enough")
			})
			a := account(t, cfg)
			q, err := a.Queue("orders", queue.Config{})
			if err != nil {
				t.Fatal(err)
			}
			_, _ = q.Send(t.Context(), "x", queue.SendOptions{})
			_, _ = q.Receive(t.Context(), 1, 0)
			want := []string{
				"POST https://acct.queue.core.windows.net/orders/messages",
				"GET https://acct.queue.core.windows.net/orders/messages?numofmessages=1&visibilitytimeout=30",
			}
			if cfg.AccountKey == "" {
				want[0] += "?" + accountSAS
				want[1] += "&" + accountSAS
			}
			if !slices.Equal(urls, want) {
				t.Errorf("\n got %q\nwant %q", urls, want)
			}
		})
	}
}
