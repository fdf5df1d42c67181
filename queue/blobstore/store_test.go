package blobstore_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/blobstore"
)

func TestContainerIsCreatedWhenFirstNeeded(t *testing.T) {
	each(t, blobstore.Config{}, func(t *testing.T, f *fake, _ *queue.Account, s *blobstore.Store) {
		for range 2 {
			ref, err := s.Put(t.Context(), []byte("body"))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := s.Fetch(t.Context(), ref, 4); err != nil || string(got) != "body" {
				t.Errorf("fetched %q, error %v", got, err)
			}
			var address string
			if err := json.Unmarshal(ref, &address); err != nil || !strings.HasPrefix(address, "http://127.0.0.1:10000/devstoreaccount1/queue-large-messages/") {
				t.Errorf("reference %s", ref)
			}
		}
		const c = "/devstoreaccount1/queue-large-messages"
		want := []string{"PUT " + c + "/…", "PUT " + c + " container", "PUT " + c + "/…", "GET " + c + "/…", "PUT " + c + "/…", "GET " + c + "/…"}
		if d := cmp.Diff(want, f.asked()); d != "" {
			t.Error(d)
		}
	})
	each(t, blobstore.Config{Container: "bodies", KeepContainerMissing: true}, func(t *testing.T, f *fake, _ *queue.Account, s *blobstore.Store) {
		_, err := s.Put(t.Context(), []byte("body"))
		if want := "upload a body to acct/bodies: 404 ContainerNotFound: create the container, or let the store create it"; err == nil || err.Error() != want || errors.Is(err, queue.ErrUnreadable) {
			t.Errorf("error %v, want %s", err, want)
		}
		if n := len(f.asked()); n != 1 {
			t.Errorf("%d requests", n)
		}
	})
}

// Two clients may find the container missing at once.
func TestContainerThatSomebodyElseCreates(t *testing.T) {
	each(t, blobstore.Config{}, func(t *testing.T, f *fake, _ *queue.Account, s *blobstore.Store) {
		f.fail(func(r *http.Request) *http.Response {
			if r.URL.Query().Get("restype") == "container" {
				f.containers = append(f.containers, r.URL.Path)
				return answer(409, "ContainerAlreadyExists", nil)
			}
			return nil
		})
		if _, err := s.Put(t.Context(), []byte("body")); err != nil {
			t.Error(err)
		}
	})
}

// Q10: what a message says is untrusted: nothing is asked for on its word.
func TestForeignReferencesMakeNoRequest(t *testing.T) {
	each(t, blobstore.Config{}, func(t *testing.T, f *fake, acct *queue.Account, s *blobstore.Store) {
		q, err := acct.Queue("orders", queue.Config{CreateIfMissing: true, BodyStore: s})
		if err != nil {
			t.Fatal(err)
		}
		refs := []string{
			`"http://127.0.0.1:10000/devstoreaccount1/other/x"`, `"https://evil.blob.core.windows.net/queue-large-messages/x"`,
			`"http://127.0.0.1:10000/devstoreaccount1/queue-large-messages/../other/x"`, `"http://127.0.0.1:10000/devstoreaccount1/queue-large-messages/x?sig=a"`, `{"name":"x"}`,
		}
		for _, ref := range refs {
			if _, err := q.SendText(t.Context(), `{"$azqs-envelope":1,"blob":`+ref+`}`, queue.SendOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		ms, err := q.Receive(t.Context(), 32, 0)
		if err != nil || len(ms) != len(refs) {
			t.Fatalf("received %d, error %v", len(ms), err)
		}
		for _, m := range ms {
			if !errors.Is(m.Err, queue.ErrUnreadable) || !strings.Contains(m.Err.Error(), "not one of the body store acct/queue-large-messages") {
				t.Errorf("error %v", m.Err)
			}
			if err := m.Complete(t.Context()); err != nil { // which deletes what it refers to
				t.Error(err)
			}
		}
		if got := f.asked(); len(got) > 0 {
			t.Errorf("asked %q", got)
		}
	})
}

func TestFailuresOfTheBlobService(t *testing.T) {
	for name, tc := range map[string]struct {
		fault   func(*http.Request) *http.Response
		want    string // in what a fetch says
		class   queue.Result
		lasting bool
		tries   int
	}{
		"the blob is gone":         {nil, "404 BlobNotFound", queue.ResultNotFound, true, 1},
		"the container is gone":    {always(404, "ContainerNotFound"), "404 ContainerNotFound", queue.ResultNotFound, true, 1},
		"the blob is archived":     {always(409, "BlobArchived"), "409 BlobArchived: the blob was moved to the archive tier", queue.ResultConflict, true, 1},
		"no permission":            {always(403, "AuthorizationPermissionMismatch"), "Storage Blob Data Contributor", queue.ResultAuth, false, 1},
		"the service is busy":      {always(503, "ServerBusy"), "503 ServerBusy", queue.ResultThrottled, false, 4},
		"the service fails":        {always(500, "InternalError"), "500 InternalError", queue.ResultServer, false, 4},
		"a proxy says nothing":     {always(502, ""), "502 Bad Gateway", queue.ResultServer, false, 4},
		"a conflict that may pass": {always(409, "ContainerBeingDeleted"), "409 ContainerBeingDeleted", queue.ResultConflict, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, blobstore.Config{Container: "bodies"}, func(t *testing.T, f *fake, _ *queue.Account, s *blobstore.Store) {
				ref, err := s.Put(t.Context(), []byte("body"))
				if err != nil {
					t.Fatal(err)
				}
				if tc.fault == nil {
					if err := s.Delete(t.Context(), ref); err != nil {
						t.Fatal(err)
					}
				}
				before := len(f.asked())
				f.fail(tc.fault)
				got, err := s.Fetch(t.Context(), ref, 100)
				if err == nil || got != nil || !strings.Contains(err.Error(), "download a body from acct/bodies: ") || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
					t.Fatalf("error %v, want %q", err, tc.want)
				}
				if errors.Is(err, queue.ErrUnreadable) != tc.lasting || queue.Classify(err) != tc.class {
					t.Errorf("%v is lasting %v, %s", err, errors.Is(err, queue.ErrUnreadable), queue.Classify(err))
				}
				if n := len(f.asked()) - before; n != tc.tries {
					t.Errorf("%d tries, want %d", n, tc.tries)
				}
				// Deleting what is not there is fine, and the store is there.
				gone := strings.Contains(tc.want, "NotFound")
				if err := s.Delete(t.Context(), ref); (err == nil) != gone {
					t.Errorf("delete: %v", err)
				}
				if err := s.Check(t.Context()); (err == nil) != gone {
					t.Errorf("check: %v", err)
				}
			})
		})
	}
}

func TestDownloadsAreBounded(t *testing.T) {
	for _, trickle := range []bool{false, true} {
		each(t, blobstore.Config{}, func(t *testing.T, f *fake, _ *queue.Account, s *blobstore.Store) {
			ref, err := s.Put(t.Context(), make([]byte, 1000))
			if err != nil {
				t.Fatal(err)
			}
			f.trickle = trickle
			if got, err := s.Fetch(t.Context(), ref, 1000); err != nil || len(got) != 1000 {
				t.Errorf("%d bytes, error %v", len(got), err)
			}
			f.read = 0
			if got, err := s.Fetch(t.Context(), ref, 999); !errors.Is(err, queue.ErrUnreadable) || got != nil || !strings.Contains(err.Error(), "limit of 999 bytes") {
				t.Errorf("%d bytes, error %v", len(got), err)
			}
			if !trickle && f.read > 0 {
				t.Errorf("%d bytes were read of a body that says it is too large", f.read)
			}
		})
	}
	// Nothing is a body, too.
	each(t, blobstore.Config{}, func(t *testing.T, _ *fake, _ *queue.Account, s *blobstore.Store) {
		ref, err := s.Put(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := s.Fetch(t.Context(), ref, 1000); err != nil || len(got) != 0 {
			t.Errorf("%d bytes, error %v", len(got), err)
		}
	})
}

func TestCallsHaveADeadline(t *testing.T) {
	each(t, blobstore.Config{Timeout: 7 * time.Second, TryTimeout: 2 * time.Second}, func(t *testing.T, f *fake, _ *queue.Account, s *blobstore.Store) {
		ref, err := s.Put(t.Context(), []byte("body"))
		if err != nil {
			t.Fatal(err)
		}
		f.fail(func(r *http.Request) *http.Response { <-r.Context().Done(); return answer(500, "", nil) })
		for name, call := range map[string]func() error{
			"put":    func() error { _, err := s.Put(t.Context(), []byte("body")); return err },
			"fetch":  func() error { _, err := s.Fetch(t.Context(), ref, 10); return err },
			"delete": func() error { return s.Delete(t.Context(), ref) },
			"check":  func() error { return s.Check(t.Context()) },
		} {
			start := time.Now()
			if err := call(); err == nil || errors.Is(err, queue.ErrUnreadable) {
				t.Errorf("%s: %v", name, err)
			}
			if took := time.Since(start); took > 7*time.Second || took < 6*time.Second {
				t.Errorf("%s took %v", name, took)
			}
		}
	})
}

// Q10: no SAS on the queue. It goes out with each request, and is nowhere else.
func TestSASIsNeverOnTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		const signature = "c2lnbmF0dXJlc2lnbmF0dXJlc2lnbmF0dXJlc2lnMTI="
		sas := "?sv=2026-01-01&ss=bq&srt=sco&sp=rwdlacup&se=2090-01-01T00:00:00Z&sig=" + strings.ReplaceAll(signature, "=", "%3D")
		acct := account(t, f, queue.AccountConfig{Endpoint: "http://127.0.0.1:10001/devstoreaccount1", SAS: queue.Secret(sas)})
		s, err := blobstore.New(acct, blobstore.Config{})
		if err != nil {
			t.Fatal(err)
		}
		ref, err := s.Put(t.Context(), []byte("body"))
		if err != nil {
			t.Fatal(err)
		}
		if got := f.query().Get("sig"); got != signature {
			t.Errorf("the request was signed %q", got)
		}
		if strings.Contains(string(ref), "sig") || strings.Contains(string(ref), "?") {
			t.Errorf("reference %s", ref)
		}
		f.fail(always(403, "AuthenticationFailed"))
		if _, err := s.Fetch(t.Context(), ref, 10); err == nil || strings.Contains(err.Error(), "sig") {
			t.Errorf("error %v", err)
		}
	})
}

// The account key signs; when its file changes, the new one does.
func TestKeysRotate(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	write := func(key string) {
		if err := os.WriteFile(file, []byte(key), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("b25l")
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		acct := account(t, f, queue.AccountConfig{Endpoint: "http://127.0.0.1:10001/devstoreaccount1", AccountKeyFile: file})
		s, err := blobstore.New(acct, blobstore.Config{})
		if err != nil {
			t.Fatal(err)
		}
		signature := func() string {
			if err := s.Check(t.Context()); err != nil {
				t.Fatal(err)
			}
			return f.header("Authorization")
		}
		first := signature()
		if !strings.HasPrefix(first, "SharedKey devstoreaccount1:") {
			t.Errorf("signed %q", first)
		}
		write("dHdv")
		time.Sleep(time.Minute)
		before := signature()
		write("dGhyZWU=")
		f.fail(func(r *http.Request) *http.Response {
			if r.Header.Get("Authorization") == before {
				return answer(403, "AuthenticationFailed", nil)
			}
			return nil
		})
		if err := s.Check(t.Context()); err != nil {
			t.Errorf("a refused key is not read again: %v", err)
		}
	})
}

type token struct{ policy.TokenRequestOptions }

func (k *token) GetToken(_ context.Context, o policy.TokenRequestOptions) (azcore.AccessToken, error) {
	k.TokenRequestOptions = o
	return azcore.AccessToken{Token: "the-token", ExpiresOn: time.Now().Add(time.Hour)}, nil
}

func TestIdentitySignsInToTheBlobService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		cred := &token{}
		acct := account(t, f, queue.AccountConfig{Endpoint: "https://acme.queue.core.windows.net", Identity: &queue.Identity{Credential: cred}})
		s, err := blobstore.New(acct, blobstore.Config{})
		if err != nil {
			t.Fatal(err)
		}
		ref, err := s.Put(t.Context(), []byte("body"))
		if err != nil {
			t.Fatal(err)
		}
		if got := f.header("Authorization"); got != "Bearer the-token" || cmp.Diff([]string{"https://storage.azure.com/.default"}, cred.Scopes) != "" {
			t.Errorf("signed %q for %q", got, cred.Scopes)
		}
		if !strings.HasPrefix(string(ref), `"https://acme.blob.core.windows.net/queue-large-messages/`) {
			t.Errorf("reference %s", ref)
		}
	})
}

func TestEndpointsAndSignIns(t *testing.T) {
	const sas = "sv=2026-01-01&se=2090-01-01&sig=c2lnbmF0dXJlc2lnbmF0dXJlc2lnbmF0dXJlc2lnMTI%3D"
	for name, tc := range map[string]struct {
		account queue.AccountConfig
		cfg     blobstore.Config
		want    string // host in the reference, or what the error says
	}{
		"public":                      {account: key("https://acme.queue.core.windows.net"), want: "https://acme.blob.core.windows.net/"},
		"China":                       {account: key("https://acme.queue.core.chinacloudapi.cn"), want: "https://acme.blob.core.chinacloudapi.cn/"},
		"an account with a DNS zone":  {account: key("https://acme.z01.queue.storage.azure.net"), want: "https://acme.z01.blob.storage.azure.net/"},
		"the emulator":                {account: queue.AccountConfig{ConnectionString: "UseDevelopmentStorage=true"}, want: "http://127.0.0.1:10000/devstoreaccount1/"},
		"an emulator, other ports":    {account: key("http://127.0.0.1:4711/devstoreaccount1"), want: "set the blob endpoint"},
		"the same, told":              {account: key("http://127.0.0.1:4711/devstoreaccount1"), cfg: blobstore.Config{Endpoint: "http://127.0.0.1:10000/devstoreaccount1/"}, want: "http://127.0.0.1:10000/devstoreaccount1/"},
		"a custom domain":             {account: queue.AccountConfig{Endpoint: "https://queues.acme.example", AccountName: "acme", AccountKey: "b25l"}, want: "set the blob endpoint"},
		"an endpoint that is none":    {account: key("https://acme.queue.core.windows.net"), cfg: blobstore.Config{Endpoint: "acme"}, want: "is not a URL"},
		"an endpoint with a SAS":      {account: key("https://acme.queue.core.windows.net"), cfg: blobstore.Config{Endpoint: "https://acme.blob.core.windows.net/?" + sas}, want: "carries a SAS"},
		"an endpoint that goes on":    {account: key("https://acme.queue.core.windows.net"), cfg: blobstore.Config{Endpoint: "https://acme.blob.core.windows.net/a/b"}, want: "goes beyond the account"},
		"a SAS of one queue":          {account: queue.AccountConfig{Endpoint: "https://acme.queue.core.windows.net", SAS: sas + "&sp=rp"}, want: "the SAS is for one queue"},
		"a SAS for queues alone":      {account: queue.AccountConfig{Endpoint: "https://acme.queue.core.windows.net", SAS: sas + "&ss=q&srt=sco&sp=rp"}, want: "ss=q"},
		"a SAS for containers alone":  {account: queue.AccountConfig{Endpoint: "https://acme.queue.core.windows.net", SAS: sas + "&ss=bq&srt=c&sp=rp"}, want: "srt=c"},
		"an identity over http":       {account: queue.AccountConfig{Endpoint: "https://acme.queue.core.windows.net", Identity: &queue.Identity{Credential: &token{}}}, cfg: blobstore.Config{Endpoint: "http://acme.blob.core.windows.net"}, want: "only sent over https"},
		"a container nobody can name": {account: key("https://acme.queue.core.windows.net"), cfg: blobstore.Config{Container: "Bodies"}, want: `container "Bodies"`},
		"a negative timeout":          {account: key("https://acme.queue.core.windows.net"), cfg: blobstore.Config{Timeout: -1}, want: "every call has a deadline"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, err := blobstore.New(account(t, newFake(), tc.account), tc.cfg)
				if err != nil {
					if !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "sig=") {
						t.Errorf("error %v, want %q", err, tc.want)
					}
					return
				}
				ref, err := s.Put(t.Context(), []byte("x"))
				if err != nil || !strings.HasPrefix(string(ref), `"`+tc.want+"queue-large-messages/") {
					t.Errorf("reference %s, error %v, want %s", ref, err, tc.want)
				}
			})
		})
	}
}

func key(endpoint string) queue.AccountConfig {
	return queue.AccountConfig{Endpoint: endpoint, AccountKey: "b25l"}
}

// Every storage request is told to the account's observer.
func TestRequestsAreObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		var seen []queue.Request
		acct := account(t, f, queue.AccountConfig{ConnectionString: queue.Secret(f.ConnectionString()), Observe: func(r queue.Request) { seen = append(seen, r) }})
		s, err := blobstore.New(acct, blobstore.Config{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Put(t.Context(), []byte("x")); err != nil {
			t.Fatal(err)
		}
		want := []queue.Request{
			{Account: "acct", Operation: queue.OpOther, Result: queue.ResultNotFound},
			{Account: "acct", Operation: queue.OpOther, Result: queue.ResultOK},
			{Account: "acct", Operation: queue.OpOther, Result: queue.ResultOK},
		}
		if d := cmp.Diff(want, seen); d != "" {
			t.Error(d)
		}
	})
}
