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
	"testing/synctest"
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
			owner, err := queue.NewAccount(queue.AccountConfig{Name: "owner", ConnectionString: queue.Secret(srv.ConnectionString()), Transport: srv})
			if err != nil {
				t.Fatal(err)
			}
			q, err := owner.Queue("orders", queue.Config{})
			if err != nil {
				t.Fatal(err)
			}
			if err := q.Create(t.Context()); err != nil {
				t.Fatal(err)
			}
			var l logs
			cfg.Name, cfg.Transport, cfg.Logger = "acct", srv, l.logger()
			a, err := queue.NewAccount(cfg)
			if err != nil {
				t.Fatal(err)
			}
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

func TestSecretFilesAreReadAgainWhenTheyChange(t *testing.T) {
	const cs = "AccountName=devstoreaccount1;QueueEndpoint=" + emulator
	for name, c := range map[string]struct {
		old, new func(t *testing.T) string
		config   func(path string) queue.AccountConfig
	}{
		"an account key": {
			old:    func(*testing.T) string { return oldKey },
			new:    func(*testing.T) string { return key + "\n" },
			config: func(p string) queue.AccountConfig { return queue.AccountConfig{Endpoint: emulator, AccountKeyFile: p} },
		},
		"a SAS": {
			old: func(t *testing.T) string {
				return accountSigned(t, oldKey, "sco", "rwdlacup", time.Now().Add(time.Hour))
			},
			new: func(t *testing.T) string {
				return "?" + accountSigned(t, key, "sco", "rwdlacup", time.Now().Add(time.Hour))
			},
			config: func(p string) queue.AccountConfig { return queue.AccountConfig{Endpoint: emulator, SASFile: p} },
		},
		"a key in a connection string": {
			old:    func(*testing.T) string { return cs + ";AccountKey=" + oldKey },
			new:    func(*testing.T) string { return cs + ";AccountKey=" + key },
			config: func(p string) queue.AccountConfig { return queue.AccountConfig{ConnectionStringFile: p} },
		},
		"a SAS in a connection string": {
			old: func(t *testing.T) string {
				return cs + ";SharedAccessSignature=" + accountSigned(t, oldKey, "sco", "rwdlacup", time.Now().Add(time.Hour))
			},
			new: func(t *testing.T) string {
				return cs + ";SharedAccessSignature=" + accountSigned(t, key, "sco", "rwdlacup", time.Now().Add(time.Hour))
			},
			config: func(p string) queue.AccountConfig { return queue.AccountConfig{ConnectionStringFile: p} },
		},
	} {
		// A refusal is answered with the new secret within the same call, whatever the file's time says.
		t.Run(name+", after a refusal", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := queuetest.New(queuetest.Options{})
				var l logs
				path := filepath.Join(t.TempDir(), "secret")
				write(t, path, c.old(t))
				cfg := c.config(path)
				cfg.Name, cfg.Transport, cfg.Logger = "acct", srv, l.logger()
				a, err := queue.NewAccount(cfg)
				if err != nil {
					t.Fatal(err)
				}
				q, err := a.Queue("orders", queue.Config{})
				if err != nil {
					t.Fatal(err)
				}
				if err := q.Create(t.Context()); queue.Classify(err) != queue.ResultAuth {
					t.Fatalf("the old secret: %v", err)
				}
				write(t, path, c.new(t))
				// The body goes out again as well, and a refusal that was overcome leaves no trace in the error.
				_, err = q.Send(t.Context(), "hello", queue.SendOptions{})
				if want := "send to acct/orders: 404 QueueNotFound"; message(err) != want {
					t.Errorf("the new secret: %v, want %s", err, want)
				}
				if err := q.Create(t.Context()); err != nil {
					t.Error(err)
				}
				write(t, path, c.old(t))
				time.Sleep(5 * time.Second)
				if err := q.Clear(t.Context()); queue.Classify(err) != queue.ResultAuth {
					t.Fatalf("the old secret again: %v", err)
				}
				write(t, path, c.new(t))
				if _, err := q.Send(t.Context(), "hello", queue.SendOptions{}); err != nil {
					t.Error(err)
				}
				if got := srv.Texts(queuetest.AccountName, "orders"); !slices.Equal(got, []string{"hello"}) {
					t.Errorf("sent %q", got)
				}
				if err := use(t.Context(), a); err != nil {
					t.Error(err)
				}
				if got, want := l.String(), strings.Repeat(`level=INFO msg="credential file changed; the new credential is in use" account=acct`+"\n", 3); got != want {
					t.Errorf("logged %s", got)
				}
			})
		})
		// While the old one still works nobody is refused: the file is looked at every few seconds.
		t.Run(name+", in time", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := queuetest.New(queuetest.Options{})
				path := filepath.Join(t.TempDir(), "secret")
				write(t, path, c.new(t))
				cfg := c.config(path)
				cfg.Name, cfg.Transport = "acct", srv
				a, err := queue.NewAccount(cfg)
				if err != nil {
					t.Fatal(err)
				}
				q, err := a.Queue("orders", queue.Config{})
				if err != nil {
					t.Fatal(err)
				}
				if err := q.Create(t.Context()); err != nil {
					t.Fatal(err)
				}
				// As Kubernetes does it: another file under the same name.
				write(t, path+".new", c.old(t))
				if err := os.Rename(path+".new", path); err != nil {
					t.Fatal(err)
				}
				time.Sleep(5 * time.Second)
				if err := q.Clear(t.Context()); queue.Classify(err) != queue.ResultAuth {
					t.Errorf("five seconds after the change the file was not read: %v", err)
				}
			})
		})
	}
}

func TestUnusableRotationKeepsTheOldSecret(t *testing.T) {
	const cs = "AccountName=devstoreaccount1;AccountKey=" + key + ";QueueEndpoint=" + emulator
	for name, c := range map[string]struct{ text, why string }{
		"another account":  {"AccountName=other;AccountKey=" + key + ";QueueEndpoint=http://127.0.0.1:10001/other", "it is for another account or endpoint than before: restart to change accounts"},
		"another endpoint": {"AccountName=devstoreaccount1;AccountKey=" + key, "it is for another account or endpoint than before: restart to change accounts"},
		"another way":      {"QueueEndpoint=" + emulator + ";SharedAccessSignature=" + queueSAS, "it signs in another way than before (account key or SAS): restart to change it"},
		"a broken key":     {"AccountName=devstoreaccount1;AccountKey=???;QueueEndpoint=" + emulator, "AccountKey: it is not base64: copy the key again, as a whole"},
		"nonsense":         {"nonsense", "it is not a connection string: settings are written name=value and separated by semicolons"},
		"nothing":          {"", "credential file cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := queuetest.New(queuetest.Options{})
				var l logs
				path := filepath.Join(t.TempDir(), "secret")
				write(t, path, cs)
				a, err := queue.NewAccount(queue.AccountConfig{Name: "acct", ConnectionStringFile: path, Transport: srv, Logger: l.logger()})
				if err != nil {
					t.Fatal(err)
				}
				q, err := a.Queue("orders", queue.Config{})
				if err != nil {
					t.Fatal(err)
				}
				write(t, path, c.text)
				for range 10 {
					time.Sleep(4 * time.Second)
					if err := q.Create(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				if got := l.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "level=ERROR") || !strings.Contains(got, c.why) || strings.Contains(got, key[:20]) {
					t.Errorf("logged %s", got)
				}
				l.b.Reset()
				write(t, path, cs+";")
				time.Sleep(4 * time.Second)
				if err := q.Create(t.Context()); err != nil {
					t.Fatal(err)
				}
				if got := l.String(); !strings.Contains(got, "the new credential is in use") {
					t.Errorf("after the repair logged %q", got)
				}
			})
		})
	}
}

func TestSecretFileIsNotReadOnEveryRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := queuetest.New(queuetest.Options{})
		path := filepath.Join(t.TempDir(), "secret")
		write(t, path, key)
		a, err := queue.NewAccount(queue.AccountConfig{Name: "acct", Endpoint: emulator, AccountKeyFile: path, Transport: srv})
		if err != nil {
			t.Fatal(err)
		}
		q, err := a.Queue("orders", queue.Config{})
		if err != nil {
			t.Fatal(err)
		}
		write(t, path, oldKey)
		// No time passes: the change is not seen, and the key that was read still signs.
		for range 100 {
			if err := q.Create(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestCredentialExpiry(t *testing.T) {
	at := time.Date(2031, 5, 6, 7, 8, 9, 0, time.UTC)
	for name, c := range map[string]struct {
		sas  string
		want time.Time
	}{
		"seconds":                  {"se=2031-05-06T07:08:09Z", at},
		"escaped":                  {"se=2031-05-06T07%3A08%3A09Z", at},
		"fractions":                {"se=2031-05-06T07:08:09.0000000Z", at},
		"minutes":                  {"se=2031-05-06T07:08Z", at.Truncate(time.Minute)},
		"a day":                    {"se=2031-05-06", at.Truncate(24 * time.Hour)},
		"a user's key ends before": {"se=2031-05-06T07:08:09Z&skoid=x&ske=2031-05-01T00:00:00Z", time.Date(2031, 5, 1, 0, 0, 0, 0, time.UTC)},
		"a user's key ends after":  {"se=2031-05-06T07:08:09Z&skoid=x&ske=2031-05-09T00:00:00Z", at},
		"a stored access policy":   {"si=p", time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := queue.NewAccount(queue.AccountConfig{Name: "acct", Endpoint: "https://acct.queue.core.windows.net", SAS: queue.Secret("sv=2024-11-04&sp=raup&" + c.sas + "&" + sig)})
			if err != nil {
				t.Fatal(err)
			}
			got, ok := a.CredentialExpiry()
			if !got.Equal(c.want) || ok == c.want.IsZero() {
				t.Errorf("got %v, %v; want %v", got, ok, c.want)
			}
		})
	}
	a, err := queue.NewAccount(queue.AccountConfig{Name: "acct", Endpoint: "https://acct.queue.core.windows.net", AccountKey: key})
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := a.CredentialExpiry(); ok {
		t.Errorf("a key expires %v", got)
	}
}

func TestExpiredSASIsAWarningAndARefusalThatSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := queuetest.New(queuetest.Options{})
		var l logs
		past := time.Now().Add(-time.Hour)
		a, err := queue.NewAccount(queue.AccountConfig{
			Name: "acct", Endpoint: emulator, Transport: srv, Logger: l.logger(),
			SAS: queue.Secret(accountSigned(t, key, "sco", "rwdlacup", past)),
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := l.String(); !strings.Contains(got, "level=WARN") || !strings.Contains(got, "SAS has expired") {
			t.Errorf("logged %q", got)
		}
		q, err := a.Queue("orders", queue.Config{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = q.Peek(t.Context(), 1)
		if want := "peek at acct/orders: 403 AuthenticationFailed: the SAS expired at " + past.UTC().Format(time.RFC3339); message(err) != want {
			t.Errorf("\n got %v\nwant %s", err, want)
		}
	})
}

func TestSASThatIsNotValidYetIsAWarning(t *testing.T) {
	var l logs
	_, err := queue.NewAccount(queue.AccountConfig{
		Name: "acct", Endpoint: emulator, Logger: l.logger(), SAS: "sv=2024-11-04&sp=raup&st=2998-01-01&se=2999-01-01&" + sig,
	})
	if want := `level=WARN msg="SAS is not valid yet" account=acct starts=2998-01-01T00:00:00.000Z` + "\n"; err != nil || l.String() != want {
		t.Errorf("logged %q; %v", &l, err)
	}
}

// A transport need not say which request an answer is to.
func TestHintNeedsNoRequestInTheAnswer(t *testing.T) {
	a, err := queue.NewAccount(queue.AccountConfig{Name: "acct", Endpoint: emulator, AccountKey: key, Transport: transportFunc(func(r *http.Request) (*http.Response, error) {
		resp := answer(r, 403, "")
		resp.Header.Set("x-ms-error-code", "KeyBasedAuthenticationNotPermitted")
		resp.Request = nil
		return resp, nil
	})})
	if err != nil {
		t.Fatal(err)
	}
	q, err := a.Queue("orders", queue.Config{})
	if err != nil {
		t.Fatal(err)
	}
	want := "clear acct/orders: 403 KeyBasedAuthenticationNotPermitted: the account does not allow keys: sign in with an identity"
	if err := q.Clear(t.Context()); message(err) != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestRefusalSaysWhatIsMissing(t *testing.T) {
	soon := time.Now().Add(time.Hour)
	peek := func(ctx context.Context, q *queue.Queue) error { _, err := q.Peek(ctx, 1); return err }
	receive := func(ctx context.Context, q *queue.Queue) error { _, err := q.Receive(ctx, 1, 0); return err }
	clear := func(ctx context.Context, q *queue.Queue) error { return q.Clear(ctx) }
	create := func(ctx context.Context, q *queue.Queue) error { return q.Create(ctx) }
	for name, c := range map[string]struct {
		cfg    queue.AccountConfig
		do     func(context.Context, *queue.Queue) error
		offset time.Duration
		fault  queuetest.Fault
		want   string
	}{
		"a permission of an account SAS": {
			cfg: queue.AccountConfig{SAS: queue.Secret(accountSigned(t, key, "sco", "rl", soon))}, do: receive,
			want: "receive from acct/orders: 403 AuthorizationPermissionMismatch: the SAS lacks the permission p (process)",
		},
		"either of two permissions": {
			cfg: queue.AccountConfig{SAS: queue.Secret(accountSigned(t, key, "sco", "rl", soon))}, do: create,
			want: "create queue acct/orders: 403 AuthorizationPermissionMismatch: the SAS lacks the permission c (create) or w (write)",
		},
		"a resource type": {
			cfg: queue.AccountConfig{SAS: queue.Secret(accountSigned(t, key, "c", "rwdlacup", soon))}, do: peek,
			want: "peek at acct/orders: 403 AuthorizationResourceTypeMismatch: the SAS lacks the resource type o (object: messages)",
		},
		"a permission of a queue's SAS": {
			cfg: queue.AccountConfig{SAS: queue.Secret(queueSigned(t, "orders", "r", soon))}, do: receive,
			want: "receive from acct/orders: 403 AuthorizationPermissionMismatch: the SAS lacks the permission p (process)",
		},
		"more than a queue's SAS can do": {
			cfg: queue.AccountConfig{SAS: queue.Secret(queueSigned(t, "orders", "raup", soon))}, do: create,
			want: "create queue acct/orders: 403 AuthorizationPermissionMismatch: a SAS of a single queue cannot do it: use an account SAS, a key or an identity",
		},
		"a SAS of another queue": {
			cfg: queue.AccountConfig{SAS: queue.Secret(queueSigned(t, "bills", "raup", soon))}, do: peek,
			want: "peek at acct/orders: 403 AuthenticationFailed: the signature of the SAS does not match: it is another account's or queue's, or its key was rotated",
		},
		"a key that was rotated": {
			cfg: queue.AccountConfig{AccountKey: oldKey}, do: clear,
			want: "clear acct/orders: 403 AuthenticationFailed: the account key is not the account's: was it rotated?",
		},
		"a clock that is far off": {
			cfg: queue.AccountConfig{AccountKey: key}, do: clear, offset: 17 * time.Minute,
			want: "clear acct/orders: 403 AuthenticationFailed: the local clock is 17m0s off the service's, which refuses signatures past 15 minutes",
		},
		"keys are disabled": {
			cfg: queue.AccountConfig{AccountKey: key}, do: peek, fault: queuetest.Fault{Status: 403, Code: "KeyBasedAuthenticationNotPermitted"},
			want: "peek at acct/orders: 403 KeyBasedAuthenticationNotPermitted: the account does not allow keys: sign in with an identity",
		},
		"a network rule": {
			cfg: queue.AccountConfig{AccountKey: key}, do: peek, fault: queuetest.Fault{Status: 403, Code: "AuthorizationFailure"},
			want: "peek at acct/orders: 403 AuthorizationFailure: the account's network rules refuse this address, or the sign-in has no access",
		},
		"a role to read": {
			cfg: queue.AccountConfig{Identity: &queue.Identity{Credential: fixedToken("t")}}, do: peek, fault: queuetest.Fault{Status: 403, Code: "AuthorizationPermissionMismatch"},
			want: "peek at acct/orders: 403 AuthorizationPermissionMismatch: the identity lacks a role such as Storage Queue Data Reader",
		},
		"a role to receive": {
			cfg: queue.AccountConfig{Identity: &queue.Identity{Credential: fixedToken("t")}}, do: receive, fault: queuetest.Fault{Status: 403, Code: "AuthorizationPermissionMismatch"},
			want: "receive from acct/orders: 403 AuthorizationPermissionMismatch: the identity lacks a role such as Storage Queue Data Message Processor",
		},
		"a role to create": {
			cfg: queue.AccountConfig{Identity: &queue.Identity{Credential: fixedToken("t")}}, do: create, fault: queuetest.Fault{Status: 403, Code: "AuthorizationPermissionMismatch"},
			want: "create queue acct/orders: 403 AuthorizationPermissionMismatch: the identity lacks a role such as Storage Queue Data Contributor",
		},
	} {
		t.Run(name, func(t *testing.T) {
			srv := queuetest.New(queuetest.Options{AllowBearer: true})
			srv.SetClockOffset(c.offset)
			if c.fault.Status != 0 {
				srv.Inject(c.fault)
			}
			c.cfg.Name, c.cfg.Transport, c.cfg.Endpoint = "acct", srv, emulator
			if c.cfg.Identity != nil {
				c.cfg.Endpoint = "https://devstoreaccount1.queue.core.windows.net"
			}
			a, err := queue.NewAccount(c.cfg)
			if err != nil {
				t.Fatal(err)
			}
			q, err := a.Queue("orders", queue.Config{})
			if err != nil {
				t.Fatal(err)
			}
			if err := c.do(t.Context(), q); message(err) != c.want {
				t.Errorf("\n got %v\nwant %s", err, c.want)
			} else if queue.Classify(err) != queue.ResultAuth {
				t.Errorf("classified %s", queue.Classify(err))
			}
		})
	}
}

func TestPermits(t *testing.T) {
	const reader = "sv=2024-11-04&ss=q&srt=co&sp=r&se=2999-01-01T00:00:00Z&" + sig
	a, err := queue.NewAccount(queue.AccountConfig{Name: "acct", Endpoint: "https://acct.queue.core.windows.net", SAS: reader})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Permits(queue.OpPeek, queue.OpProperties); err != nil {
		t.Error(err)
	}
	want := `account "acct" cannot receive: the SAS lacks the permission p (process)
account "acct" cannot delete queue: the SAS lacks the permission d (delete)
account "acct" cannot list: the SAS lacks the resource type s (service)`
	if err := a.Permits(queue.OpReceive, queue.OpDeleteQueue, queue.OpPeek, queue.OpList); message(err) != want {
		t.Errorf("\n got %v\nwant %s", err, want)
	}
}

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
			a, err := queue.NewAccount(cfg)
			if err != nil {
				t.Fatal(err)
			}
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
