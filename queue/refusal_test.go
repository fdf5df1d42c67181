package queue_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

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
			a := account(t, queue.AccountConfig{Name: "acct", Endpoint: "https://acct.queue.core.windows.net", SAS: queue.Secret("sv=2024-11-04&sp=raup&" + c.sas + "&" + sig)})
			got, ok := a.CredentialExpiry()
			if !got.Equal(c.want) || ok == c.want.IsZero() {
				t.Errorf("got %v, %v; want %v", got, ok, c.want)
			}
		})
	}
	a := account(t, queue.AccountConfig{Name: "acct", Endpoint: "https://acct.queue.core.windows.net", AccountKey: key})
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
			a := account(t, c.cfg)
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
	a := account(t, queue.AccountConfig{Name: "acct", Endpoint: "https://acct.queue.core.windows.net", SAS: reader})
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
