package keyvault_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/encryption"
	"github.com/qwatch/qwatch/queue/keyvault"
	"github.com/qwatch/qwatch/queue/queuetest"
)

const (
	keyURL  = "https://acme.vault.azure.net/keys/orders"
	version = "0123456789abcdef0123456789abcdef"
)

// vault answers as Key Vault does: first with a challenge, then by the operation in the path.
type vault struct {
	private *rsa.PrivateKey
	fault   func(*http.Request) *http.Response
	asked   []string
}

func newVault(t testing.TB) *vault {
	t.Helper()
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return &vault{private: private}
}

func (v *vault) Do(r *http.Request) (*http.Response, error) {
	if r.Header.Get("Authorization") != "Bearer the-token" {
		resp := reply(401, "")
		resp.Header.Set("WWW-Authenticate", `Bearer authorization="https://login.microsoftonline.com/the-tenant", resource="https://vault.azure.net"`)
		resp.Request = r
		return resp, nil
	}
	v.asked = append(v.asked, r.Method+" "+r.URL.Host+r.URL.Path)
	resp := v.answer(r)
	resp.Request = r
	return resp, r.Context().Err()
}

func (v *vault) answer(r *http.Request) *http.Response {
	if v.fault != nil {
		return v.fault(r)
	}
	var in struct{ Alg, Value string }
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		return reply(400, `{"error":{"code":"BadParameter","message":"not JSON"}}`)
	}
	value, err := base64.RawURLEncoding.DecodeString(in.Value)
	hashes := map[string]func() hash.Hash{"RSA-OAEP": sha1.New, "RSA-OAEP-256": sha256.New}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/") // keys/orders/VERSION/wrapkey
	switch {
	case err != nil || hashes[in.Alg] == nil || r.Method != http.MethodPost || r.URL.Query().Get("api-version") == "":
		return reply(400, `{"error":{"code":"BadParameter","message":"no"}}`)
	case parts[1] != "orders":
		return reply(404, `{"error":{"code":"KeyNotFound","message":"no"}}`)
	case parts[len(parts)-1] == "wrapkey":
		value, err = rsa.EncryptOAEP(hashes[in.Alg](), rand.Reader, &v.private.PublicKey, value, nil)
	case parts[len(parts)-1] == "unwrapkey" && parts[2] == version:
		value, err = rsa.DecryptOAEP(hashes[in.Alg](), nil, v.private, value, nil)
	default:
		return reply(404, `{"error":{"code":"KeyNotFound","message":"no"}}`)
	}
	if err != nil {
		return reply(400, `{"error":{"code":"BadParameter","message":"the secret of the day is 42"}}`)
	}
	return reply(200, fmt.Sprintf(`{"kid":"%s/%s","value":"%s"}`, keyURL, version, base64.RawURLEncoding.EncodeToString(value)))
}

func reply(status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Status: fmt.Sprint(status), Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body))}
}

type credential struct{ policy.TokenRequestOptions }

func (c *credential) GetToken(_ context.Context, o policy.TokenRequestOptions) (azcore.AccessToken, error) {
	c.TokenRequestOptions = o
	return azcore.AccessToken{Token: "the-token", ExpiresOn: time.Now().Add(time.Hour)}, nil
}

func open(t testing.TB, v *vault, url string, cfg keyvault.Config) *keyvault.Key {
	t.Helper()
	cfg.Transport = v
	k, err := keyvault.New(url, &credential{}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// Q14: what is asked of the vault, and with which token.
func TestKeysWrapAndUnwrapInTheVault(t *testing.T) {
	content := []byte(strings.Repeat("k", 40))
	for name, tc := range map[string]struct {
		url       string
		algorithm string
		by        string
		want      []string
	}{
		"the newest version": {keyURL, "", "RSA-OAEP-256", []string{"POST acme.vault.azure.net/keys/orders/wrapkey", "POST acme.vault.azure.net/keys/orders/" + version + "/unwrapkey"}},
		"one version":        {keyURL + "/" + version, "RSA-OAEP", "RSA-OAEP", []string{"POST acme.vault.azure.net/keys/orders/" + version + "/wrapkey", "POST acme.vault.azure.net/keys/orders/" + version + "/unwrapkey"}},
		"in capitals":        {"https://ACME.vault.azure.net/keys/Orders/", "", "RSA-OAEP-256", []string{"POST acme.vault.azure.net/keys/orders/wrapkey", "POST acme.vault.azure.net/keys/orders/" + version + "/unwrapkey"}},
	} {
		t.Run(name, func(t *testing.T) {
			v, cred := newVault(t), &credential{}
			k, err := keyvault.New(tc.url, cred, keyvault.Config{Algorithm: tc.algorithm, Transport: v})
			if err != nil {
				t.Fatal(err)
			}
			w, err := k.Wrap(t.Context(), content)
			if err != nil || w.KeyID != keyURL+"/"+version || bytes.Contains(w.Key, content) || len(w.Key) != 256 {
				t.Fatalf("wrapped %+v, error %v", w, err)
			}
			if want := tc.by; w.Algorithm != want {
				t.Errorf("wrapped by %s, want %s", w.Algorithm, want)
			}
			if got, err := k.Unwrap(t.Context(), w); err != nil || !bytes.Equal(got, content) {
				t.Errorf("unwrapped %q, error %v", got, err)
			}
			if d := cmp.Diff(tc.want, v.asked); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff([]string{"https://vault.azure.net/.default"}, cred.Scopes); d != "" || cred.TenantID != "the-tenant" {
				t.Errorf("token for %q of %q", cred.Scopes, cred.TenantID)
			}
		})
	}
}

// A message is untrusted: of a key elsewhere nothing is asked.
func TestForeignKeysMakeNoRequest(t *testing.T) {
	v := newVault(t)
	k := open(t, v, keyURL, keyvault.Config{})
	for _, id := range []string{
		"https://evil.example/keys/orders/" + version, "https://acme.vault.azure.net.evil.example/keys/orders", "http://acme.vault.azure.net/keys/orders",
		"https://acme.vault.azure.net/keys/payments/" + version, "https://acme.vault.azure.net/secrets/orders", "https://acme.vault.azure.net/keys/orders/../payments",
		"https://acme.vault.azure.net/keys/orders/a/b", "https://acme.vault.azure.net/keys/orders?x=1", "https://u@acme.vault.azure.net/keys/orders",
		"https://acme.vault.azure.net:8443/keys/orders", "https://acme.vault.azure.net/keys/%6frders", "local:key-1", "",
	} {
		if _, err := k.Unwrap(t.Context(), encryption.WrappedKey{KeyID: id, Algorithm: "RSA-OAEP", Key: []byte("x")}); !errors.Is(err, encryption.ErrUnknownKey) {
			t.Errorf("%s: %v", id, err)
		}
	}
	if _, err := k.Unwrap(t.Context(), encryption.WrappedKey{KeyID: keyURL, Algorithm: "RSA1_5", Key: []byte("x")}); !errors.Is(err, encryption.ErrUndecryptable) {
		t.Errorf("an algorithm that tells secrets: %v", err)
	}
	if len(v.asked) > 0 {
		t.Errorf("asked %q", v.asked)
	}
}

func TestFailuresOfTheVault(t *testing.T) {
	for name, tc := range map[string]struct {
		status  int
		body    string
		want    string
		class   queue.Result
		lasting bool
		unknown bool
		tries   int
	}{
		"the key is gone":     {status: 404, body: `{"error":{"code":"KeyNotFound","message":"x"}}`, want: "404 KeyNotFound", class: queue.ResultNotFound, lasting: true, unknown: true, tries: 1},
		"not its own work":    {status: 400, body: `{"error":{"code":"BadParameter","message":"x"}}`, want: "400 BadParameter", class: queue.ResultOther, lasting: true, tries: 1},
		"no permission":       {status: 403, body: `{"error":{"code":"Forbidden","message":"caller 1234"}}`, want: "403 Forbidden: the identity needs the role Key Vault Crypto User", class: queue.ResultAuth, tries: 1},
		"the vault is busy":   {status: 429, body: `{"error":{"code":"Throttled","message":"x"}}`, want: "429 Throttled", class: queue.ResultThrottled, tries: 4},
		"the vault fails":     {status: 500, want: "500", class: queue.ResultServer, tries: 4},
		"a proxy's own words": {status: 502, body: "<html>", want: "502", class: queue.ResultServer, tries: 4},
	} {
		t.Run(name, func(t *testing.T) {
			v := newVault(t)
			synctest.Test(t, func(t *testing.T) {
				k := open(t, v, keyURL, keyvault.Config{})
				w, err := k.Wrap(t.Context(), make([]byte, 40))
				if err != nil {
					t.Fatal(err)
				}
				v.asked, v.fault = nil, func(*http.Request) *http.Response { return reply(tc.status, tc.body) }
				_, err = k.Unwrap(t.Context(), w)
				if err == nil || !strings.Contains(err.Error(), "unwrap a content key with "+keyURL) || !strings.Contains(err.Error(), tc.want) || strings.ContainsAny(err.Error(), "\n<") || strings.Contains(err.Error(), "1234") {
					t.Fatalf("error %v, want %q", err, tc.want)
				}
				if errors.Is(err, encryption.ErrUndecryptable) != tc.lasting || errors.Is(err, encryption.ErrUnknownKey) != tc.unknown || queue.Classify(err) != tc.class {
					t.Errorf("%v is lasting %v, %s", err, errors.Is(err, encryption.ErrUndecryptable), queue.Classify(err))
				}
				if len(v.asked) != tc.tries {
					t.Errorf("%d tries, want %d", len(v.asked), tc.tries)
				}
				// A failure to wrap is nobody's message's.
				if _, err := k.Wrap(t.Context(), make([]byte, 40)); err == nil || errors.Is(err, encryption.ErrUndecryptable) {
					t.Errorf("wrap: %v", err)
				}
			})
		})
	}
}

func TestCallsHaveADeadline(t *testing.T) {
	v := newVault(t)
	synctest.Test(t, func(t *testing.T) {
		k := open(t, v, keyURL, keyvault.Config{Timeout: 5 * time.Second, TryTimeout: 2 * time.Second})
		v.fault = func(r *http.Request) *http.Response { <-r.Context().Done(); return reply(500, "") }
		start := time.Now()
		_, err := k.Wrap(t.Context(), make([]byte, 40))
		if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took != 5*time.Second {
			t.Errorf("took %v, error %v", took, err)
		}
	})
}

func TestAnswersThatAreNone(t *testing.T) {
	v := newVault(t)
	k := open(t, v, keyURL, keyvault.Config{})
	for _, body := range []string{`{}`, `{"kid":"x"}`, `{"value":"AAAA"}`} {
		v.fault = func(*http.Request) *http.Response { return reply(200, body) }
		if w, err := k.Wrap(t.Context(), make([]byte, 40)); err == nil || !strings.Contains(err.Error(), "no wrapped key") {
			t.Errorf("%s: %+v, error %v", body, w, err)
		}
	}
}

func TestKeysAreChecked(t *testing.T) {
	for _, tc := range []struct {
		url, algorithm string
		timeout        time.Duration
		want           string
	}{
		{"http://acme.vault.azure.net/keys/orders", "", 0, "not a URL like https"},
		{"acme.vault.azure.net/keys/orders", "", 0, "not a URL like https"},
		{"https://acme.vault.azure.net/secrets/orders", "", 0, "its path is not /keys/NAME"},
		{"https://acme.vault.azure.net/keys/", "", 0, "its path is not /keys/NAME"},
		{keyURL, "RSA1_5", 0, `algorithm "RSA1_5" is not one of`},
		{keyURL, "", -1, "every call has a deadline"},
	} {
		if _, err := keyvault.New(tc.url, &credential{}, keyvault.Config{Algorithm: tc.algorithm, Timeout: tc.timeout}); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want %q", tc.url, err, tc.want)
		}
	}
	if _, err := keyvault.New(keyURL, nil, keyvault.Config{}); err == nil {
		t.Error("no credential passes")
	}
}

// Q14: a queue whose messages are encrypted with a vault's key.
func TestQueueWithAVaultKey(t *testing.T) {
	v := newVault(t)
	synctest.Test(t, func(t *testing.T) {
		srv := queuetest.New(queuetest.Options{})
		acct, err := queue.NewAccount(queue.AccountConfig{Name: "acct", ConnectionString: queue.Secret(srv.ConnectionString()), Transport: srv})
		if err != nil {
			t.Fatal(err)
		}
		q, err := acct.Queue("orders", queue.Config{CreateIfMissing: true, KeyWrapper: open(t, v, keyURL, keyvault.Config{})})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := q.Send(t.Context(), "secret", queue.SendOptions{}); err != nil {
			t.Fatal(err)
		}
		if text := srv.Texts(queuetest.AccountName, "orders")[0]; strings.Contains(text, "secret") || !strings.Contains(text, `"KeyId":"`+keyURL+"/"+version+`"`) {
			t.Errorf("on the wire: %s", text)
		}
		v.fault = func(*http.Request) *http.Response { return reply(503, "") }
		if ms, err := q.Receive(t.Context(), 1, 0); err == nil || queue.Classify(err) != queue.ResultServer {
			t.Errorf("received %d, error %v", len(ms), err)
		}
		time.Sleep(10 * time.Minute)
		v.fault = nil
		ms, err := q.Receive(t.Context(), 1, 0)
		if err != nil || len(ms) != 1 || string(ms[0].Body) != "secret" {
			t.Fatalf("received %d, error %v", len(ms), err)
		}
	})
}
