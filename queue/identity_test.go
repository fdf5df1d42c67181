package queue_test

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/queue"
)

// entra is a transport that plays the authority, the instance metadata service and storage.
type entra struct {
	mu     sync.Mutex
	tokens []tokenRequest
	auth   []string // Authorization headers that reached storage
	answer func(r *http.Request) *http.Response
}

type tokenRequest struct {
	Host, Path, Client, Scope string
	Assertion                 string
}

const tenant = "11111111-2222-3333-4444-555555555555"

func answer(r *http.Request, status int, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r,
	}
}

func (e *entra) Do(r *http.Request) (*http.Response, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	host := r.URL.Hostname()
	switch {
	case strings.Contains(host, ".queue."):
		e.auth = append(e.auth, r.Header.Get("Authorization"))
		resp := answer(r, 200, `<?xml version="1.0"?><QueueMessagesList/>`)
		resp.Header = http.Header{"Content-Type": {"application/xml"}, "X-Ms-Version": {"2026-04-06"}}
		return resp, nil
	case strings.HasSuffix(r.URL.Path, "/discovery/instance"):
		at := "https://" + host + "/" + tenant
		return answer(r, 200, `{"tenant_discovery_endpoint":"`+at+`/v2.0/.well-known/openid-configuration","metadata":[{"preferred_network":"`+host+`","preferred_cache":"`+host+`","aliases":["`+host+`"]}]}`), nil
	case strings.HasSuffix(r.URL.Path, "/openid-configuration"):
		at := "https://" + host + "/" + tenant
		return answer(r, 200, `{"token_endpoint":"`+at+`/oauth2/v2.0/token","authorization_endpoint":"`+at+`/oauth2/v2.0/authorize","issuer":"`+at+`/v2.0"}`), nil
	}
	if e.answer != nil {
		return e.answer(r), nil
	}
	got := tokenRequest{Host: host, Path: r.URL.Path}
	form := r.URL.Query()
	if r.Method == http.MethodPost {
		b, _ := io.ReadAll(r.Body)
		form, _ = url.ParseQuery(string(b))
	}
	got.Client, got.Assertion = form.Get("client_id"), form.Get("client_assertion")
	for s := range strings.FieldsSeq(form.Get("scope") + " " + form.Get("resource")) {
		if strings.HasPrefix(s, "https://") {
			got.Scope = s
		}
	}
	e.tokens = append(e.tokens, got)
	return answer(r, 200, `{"access_token":"tok-`+host+`","token_type":"Bearer","expires_in":"3600","expires_on":"4070908800","resource":"https://storage.azure.com","client_info":"`+
		base64.RawURLEncoding.EncodeToString([]byte(`{"uid":"u","utid":"t"}`))+`"}`), nil
}

func clearIdentityEnv(t *testing.T) {
	for _, n := range []string{
		"AZURE_CLIENT_ID", "AZURE_TENANT_ID", "AZURE_CLIENT_SECRET", "AZURE_FEDERATED_TOKEN_FILE", "AZURE_AUTHORITY_HOST",
		"AZURE_TOKEN_CREDENTIALS", "IDENTITY_ENDPOINT", "IDENTITY_HEADER", "MSI_ENDPOINT", "MSI_SECRET", "IMDS_ENDPOINT",
		"AZURE_CLIENT_CERTIFICATE_PATH", "AZURE_USERNAME", "AZURE_PASSWORD", "AZURE_ADDITIONALLY_ALLOWED_TENANTS",
	} {
		t.Setenv(n, "") // puts back what was there at the end
		if err := os.Unsetenv(n); err != nil {
			t.Fatal(err)
		}
	}
}

func TestIdentitiesAskTheRightAuthorityForTheRightScope(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	write(t, file, "kubernetes-token")
	workload := map[string]string{"AZURE_CLIENT_ID": "client", "AZURE_TENANT_ID": tenant, "AZURE_FEDERATED_TOKEN_FILE": file}
	secret := map[string]string{"AZURE_CLIENT_ID": "client", "AZURE_TENANT_ID": tenant, "AZURE_CLIENT_SECRET": "s"}
	const scope, path = "https://storage.azure.com/.default", "/" + tenant + "/oauth2/v2.0/token"
	for name, c := range map[string]struct {
		endpoint string
		id       queue.Identity
		env      map[string]string
		want     tokenRequest
	}{
		"workload identity of the pod": {
			endpoint: "https://acct.queue.core.windows.net", id: queue.Identity{Type: queue.IdentityWorkload}, env: workload,
			want: tokenRequest{"login.microsoftonline.com", path, "client", scope, "kubernetes-token"},
		},
		"workload identity of another client": {
			endpoint: "https://acct.queue.core.windows.net/", id: queue.Identity{Type: queue.IdentityWorkload, ClientID: "other"}, env: workload,
			want: tokenRequest{"login.microsoftonline.com", path, "other", scope, "kubernetes-token"},
		},
		"workload identity in China": {
			endpoint: "https://acct.queue.core.chinacloudapi.cn", id: queue.Identity{Type: queue.IdentityWorkload}, env: workload,
			want: tokenRequest{"login.chinacloudapi.cn", path, "client", scope, "kubernetes-token"},
		},
		"workload identity for US government": {
			endpoint: "https://acct.queue.core.usgovcloudapi.net", id: queue.Identity{Type: queue.IdentityWorkload}, env: workload,
			want: tokenRequest{"login.microsoftonline.us", path, "client", scope, "kubernetes-token"},
		},
		"the default chain, a service principal": {
			endpoint: "https://acct.queue.core.windows.net", env: secret,
			want: tokenRequest{"login.microsoftonline.com", path, "client", scope, ""},
		},
		"the default chain, in a pod": {
			endpoint: "https://acct.queue.core.windows.net", id: queue.Identity{Type: queue.IdentityDefault}, env: workload,
			want: tokenRequest{"login.microsoftonline.com", path, "client", scope, "kubernetes-token"},
		},
		"a managed identity of the machine": {
			endpoint: "https://acct.queue.core.windows.net", id: queue.Identity{Type: queue.IdentityManaged},
			want: tokenRequest{"169.254.169.254", "/metadata/identity/oauth2/token", "", "https://storage.azure.com", ""},
		},
		"a managed identity of the user's": {
			endpoint: "https://acct.queue.core.windows.net", id: queue.Identity{Type: queue.IdentityManaged, ClientID: "client"},
			want: tokenRequest{"169.254.169.254", "/metadata/identity/oauth2/token", "client", "https://storage.azure.com", ""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			clearIdentityEnv(t)
			for k, v := range c.env {
				t.Setenv(k, v)
			}
			var e entra
			a := account(t, queue.AccountConfig{Name: "acct", Endpoint: c.endpoint, Identity: &c.id, Transport: &e})
			q, err := a.Queue("orders", queue.Config{})
			if err != nil {
				t.Fatal(err)
			}
			for range 3 {
				if _, err := q.Receive(t.Context(), 1, 0); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff([]tokenRequest{c.want}, e.tokens); diff != "" {
				t.Errorf("token requests (-want +got):\n%s", diff)
			}
			bearer := "Bearer tok-" + c.want.Host
			if !slices.Equal(e.auth, []string{bearer, bearer, bearer}) {
				t.Errorf("storage got %q, want three times %q", e.auth, bearer)
			}
		})
	}
}

// The webhook sets them in the pod: without it the configuration is as right as ever, and the sign-in fails.
func TestWorkloadIdentityWithoutItsEnvironment(t *testing.T) {
	for name, c := range map[string]struct {
		id   queue.Identity
		want string
	}{
		"none":                 {queue.Identity{Type: queue.IdentityWorkload}, "AZURE_CLIENT_ID and AZURE_TENANT_ID and AZURE_FEDERATED_TOKEN_FILE"},
		"client and tenant":    {queue.Identity{Type: queue.IdentityWorkload, ClientID: "c", TenantID: tenant}, "AZURE_FEDERATED_TOKEN_FILE"},
		"a client of the file": {queue.Identity{Type: queue.IdentityWorkload, ClientID: "c"}, "AZURE_TENANT_ID and AZURE_FEDERATED_TOKEN_FILE"},
	} {
		t.Run(name, func(t *testing.T) {
			clearIdentityEnv(t)
			a := account(t, queue.AccountConfig{Name: "acct", Endpoint: "https://acct.queue.core.windows.net", Transport: noNetwork(t), Identity: &c.id})
			q, err := a.Queue("orders", queue.Config{})
			if err != nil {
				t.Fatal(err)
			}
			_, err = q.Properties(t.Context())
			want := "sign in: workload identity needs " + c.want + ", which its webhook sets"
			if !strings.Contains(message(err), want) || queue.Classify(err) != queue.ResultAuth {
				t.Errorf("%s\n got %v\nwant %s", queue.Classify(err), err, want)
			}
		})
	}
	// What the file says is checked as ever.
	clearIdentityEnv(t)
	file := filepath.Join(t.TempDir(), "token")
	write(t, file, "kubernetes-token")
	t.Setenv("AZURE_FEDERATED_TOKEN_FILE", file)
	got := refused(t, queue.AccountConfig{Endpoint: "https://acct.queue.core.windows.net", Identity: &queue.Identity{Type: queue.IdentityWorkload, ClientID: "c", TenantID: "no tenant!"}})
	if len(got) != 1 || !strings.HasPrefix(got[0], "identity: ") {
		t.Errorf("got %q", got)
	}
}

func TestRefusedSignInIsOneLineAndNamesTheCause(t *testing.T) {
	clearIdentityEnv(t)
	file := filepath.Join(t.TempDir(), "token")
	write(t, file, "kubernetes-token")
	t.Setenv("AZURE_FEDERATED_TOKEN_FILE", file)
	e := entra{answer: func(r *http.Request) *http.Response {
		return answer(r, 401, `{"error":"invalid_client","error_description":"AADSTS70021: No matching federated identity record found for presented assertion. Trace ID: 1234 Correlation ID: 5678\r\nTimestamp: now"}`)
	}}
	a, err := queue.NewAccount(queue.AccountConfig{
		Name: "acct", Endpoint: "https://acct.queue.core.windows.net", Transport: &e,
		Identity: &queue.Identity{Type: queue.IdentityWorkload, ClientID: "client", TenantID: tenant},
	})
	if err != nil {
		t.Fatal(err)
	}
	q, err := a.Queue("orders", queue.Config{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = q.Receive(t.Context(), 1, 0)
	want := "receive from acct/orders: sign in: login.microsoftonline.com answers 401 AADSTS70021: No matching federated identity record found for presented assertion."
	if message(err) != want || queue.Classify(err) != queue.ResultAuth {
		t.Errorf("%s\n got %v\nwant %s", queue.Classify(err), err, want)
	}
	if len(e.auth) != 0 {
		t.Errorf("storage was asked without a token: %q", e.auth)
	}
}

type tokenFunc func(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error)

func (f tokenFunc) GetToken(ctx context.Context, o policy.TokenRequestOptions) (azcore.AccessToken, error) {
	return f(ctx, o)
}

func TestSignInFailuresAreClassified(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want queue.Result
	}{
		"refused":  {errors.New("no"), queue.ResultAuth},
		"too late": {context.DeadlineExceeded, queue.ResultTimeout},
		"canceled": {context.Canceled, queue.ResultOther},
	} {
		t.Run(name, func(t *testing.T) {
			calls := 0
			cred := tokenFunc(func(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
				calls++
				return azcore.AccessToken{}, c.err
			})
			a, err := queue.NewAccount(queue.AccountConfig{
				Name: "acct", Endpoint: "https://acct.queue.core.windows.net", Transport: noNetwork(t), Identity: &queue.Identity{Credential: cred},
				Observe: func(r queue.Request) { t.Errorf("observed a request that was not made: %+v", r) },
			})
			if err != nil {
				t.Fatal(err)
			}
			q, err := a.Queue("orders", queue.Config{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := q.Properties(t.Context()); queue.Classify(err) != c.want {
				t.Errorf("%v is %s, want %s", err, queue.Classify(err), c.want)
			}
			if calls != 1 {
				t.Errorf("the credential was asked %d times: it retries for itself", calls)
			}
		})
	}
}

func TestSignInErrorsShowNoQuery(t *testing.T) {
	cred := tokenFunc(func(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
		return azcore.AccessToken{}, errors.New("get https://sts.example/token?client_secret=s3cr3t:\n\n refused")
	})
	a := account(t, queue.AccountConfig{Name: "acct", Endpoint: "https://acct.queue.core.windows.net", Transport: noNetwork(t), Identity: &queue.Identity{Credential: cred}})
	q, err := a.Queue("orders", queue.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Clear(t.Context()); message(err) != "clear acct/orders: sign in: get https://sts.example/token?[redacted] refused" {
		t.Errorf("got %v", err)
	}
}

func TestCredentialOfOnesOwnLeavesNoUseForTheRest(t *testing.T) {
	got := refused(t, queue.AccountConfig{Endpoint: "https://acct.queue.core.windows.net", Identity: &queue.Identity{Type: queue.IdentityManaged, Credential: fixedToken("t")}})
	if want := []string{"identity: a credential of one's own leaves no use for type, clientId and tenantId: remove them"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}
