package queue

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
)

// BlobService is how to reach the Blob service beside an account's queues, signed in to as the account is.
type BlobService struct {
	// URL is the endpoint, without a trailing slash and never with a SAS.
	URL string

	options azcore.ClientOptions
}

// Options returns options for one SDK client made without a credential: requests are signed on their way
// out with whatever the account signs in with, rotations included, and told to the account's observer.
// Whoever uses them sends requests to URL alone: they would be signed for any host. The retry policy is
// the SDK's own.
func (s BlobService) Options() azcore.ClientOptions {
	o := s.options
	o.PerRetryPolicies = slices.Clone(o.PerRetryPolicies)
	return o
}

// BlobService returns the account's Blob service. An empty endpoint is derived from the queue endpoint,
// NAME.queue.… to NAME.blob.…, and for an emulator port 10001 to 10000. Errors: the endpoint cannot be
// told or is none; the account's SAS is not for blobs. It makes no request.
func (a *Account) BlobService(endpoint string) (BlobService, error) {
	at, o, err := a.sibling(blobs, endpoint)
	if err == nil && a.signIn.key != nil {
		var sign policy.Policy
		if sign, err = keyPolicy(a.signIn.key); err == nil {
			o.PerRetryPolicies = append(o.PerRetryPolicies, sign)
		}
	}
	if err != nil {
		return BlobService{}, fmt.Errorf("blob service of account %q: %w", a.cfg.Name, err)
	}
	return BlobService{URL: at.String(), options: o}, nil
}

// TableService is how to reach the Table service beside an account's queues, signed in to as the account is.
type TableService struct {
	// URL is the endpoint, without a trailing slash and never with a SAS.
	URL string

	options azcore.ClientOptions
}

// Options are as BlobService's: for one SDK client made without a credential.
func (s TableService) Options() azcore.ClientOptions {
	return BlobService{options: s.options}.Options()
}

// TableService returns the account's Table service. An empty endpoint is derived from the queue endpoint,
// NAME.queue.… to NAME.table.…, and for an emulator port 10001 to 10002. Errors: the endpoint cannot be
// told or is none; the account's SAS is not for tables. It makes no request.
func (a *Account) TableService(endpoint string) (TableService, error) {
	at, o, err := a.sibling(tables, endpoint)
	if err != nil {
		return TableService{}, fmt.Errorf("table service of account %q: %w", a.cfg.Name, err)
	}
	if a.signIn.key != nil {
		o.PerRetryPolicies = append(o.PerRetryPolicies, tableSigner{a.signIn})
	}
	return TableService{URL: at.String(), options: o}, nil
}

// tableSigner signs requests to tables with the account's key, in the form called SharedKeyLite: the SDK
// for tables takes a key only for good, and would be linked into every program.
// Source: https://learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key
type tableSigner struct{ in *signIn }

// Do implements policy.Policy.
func (s tableSigner) Do(req *policy.Request) (*http.Response, error) {
	r := req.Raw()
	const date = "x-ms-date"
	if r.Header.Get(date) == "" {
		r.Header.Set(date, time.Now().UTC().Format(http.TimeFormat))
	}
	resource := "/" + s.in.key.AccountName() + cmp.Or(r.URL.EscapedPath(), "/")
	if comp := r.URL.Query().Get("comp"); comp != "" {
		resource += "?comp=" + comp
	}
	mac := hmac.New(sha256.New, *s.in.rawKey.Load())
	mac.Write([]byte(r.Header.Get(date) + "\n" + resource))
	r.Header.Set("Authorization", "SharedKeyLite "+s.in.key.AccountName()+":"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	return req.Next()
}

// siblingService is a service beside the queues.
type siblingService struct {
	name, port string // as hosts spell it, and an emulator's port
	letter     string // in a SAS
	types      string // of a SAS: what the requests are about
	need       string
}

var (
	blobs  = siblingService{name: "blob", port: "10000", letter: "b", types: "o", need: "ss=bq"}
	tables = siblingService{name: "table", port: "10002", letter: "t", types: "o", need: "ss=qt"}
)

// sibling returns where a service is, and options for a client of it: all but a key's signature.
func (a *Account) sibling(s siblingService, endpoint string) (*url.URL, azcore.ClientOptions, error) {
	at, err := a.siblingEndpoint(s, endpoint)
	if err == nil {
		err = a.signs(s, at)
	}
	if err != nil {
		return nil, azcore.ClientOptions{}, err
	}
	next := a.cfg.Transport
	if next == nil {
		next = a.own
	}
	o := azcore.ClientOptions{
		Transport: signer{next: next, signIn: a.signIn, base: at.Path},
		Telemetry: policy.TelemetryOptions{ApplicationID: "qwatch"},
	}
	if a.signIn.file != nil {
		o.PerRetryPolicies = append(o.PerRetryPolicies, a.signIn)
	}
	if a.signIn.identity != nil {
		o.PerRetryPolicies = append(o.PerRetryPolicies, bearer(a.signIn.identity))
	}
	o.PerRetryPolicies = append(o.PerRetryPolicies, siblingObserver{a})
	return at, o, nil
}

// siblingEndpoint checks the endpoint that was given, or derives it.
func (a *Account) siblingEndpoint(s siblingService, given string) (*url.URL, error) {
	if given == "" {
		host := a.endpoint.host
		switch account, rest, ok := strings.Cut(host, ".queue."); {
		case ok:
			host = account + "." + s.name + "." + rest
		case a.endpoint.base != "" && strings.HasSuffix(host, ":"+devPort):
			host = strings.TrimSuffix(host, devPort) + s.port
		default:
			return nil, fmt.Errorf("its endpoint cannot be told from the queue endpoint %s: set the %s endpoint", a.URL(), s.name)
		}
		return &url.URL{Scheme: a.endpoint.scheme, Host: host, Path: a.endpoint.base}, nil
	}
	u, err := url.Parse(strings.TrimRight(strings.TrimSpace(given), "/"))
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("the %s endpoint is not a URL like https://NAME.%s.core.windows.net", s.name, s.name)
	case hasSignature(u.RawQuery):
		return nil, fmt.Errorf("the %s endpoint carries a SAS: end it before the ?; the account's own sign-in is used", s.name)
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || u.User != nil:
		return nil, fmt.Errorf("the %s endpoint has more than scheme, host and account: end it there", s.name)
	case strings.Count(u.Path, "/") > 1:
		return nil, fmt.Errorf("the %s endpoint goes beyond the account: end it there", s.name)
	}
	return &url.URL{Scheme: u.Scheme, Host: strings.ToLower(u.Host), Path: u.Path}, nil
}

// signs says why the account's sign-in is no good for a service, where that can be told.
func (a *Account) signs(s siblingService, at *url.URL) error {
	tok := a.signIn.sas.Load()
	switch {
	case a.signIn.identity != nil && at.Scheme != "https":
		return fmt.Errorf("an identity's token is only sent over https, but the %s endpoint is http", s.name)
	case tok == nil:
		return nil
	case tok.httpsOnly && at.Scheme != "https":
		return fmt.Errorf("the SAS is for https only (spr=), but the %s endpoint is http", s.name)
	case tok.services == "":
		return fmt.Errorf("the SAS is for one queue: use an account SAS for %ss too (%s), a key or an identity", s.name, s.need)
	case !strings.Contains(tok.services, s.letter):
		return fmt.Errorf("the SAS is not for %ss: its services (ss=%s) lack %s", s.name, tok.services, s.letter)
	case !strings.Contains(tok.types, s.types):
		return fmt.Errorf("the SAS is not for %ss: its resource types (srt=%s) lack %s", s.name, tok.types, s.types)
	}
	return nil
}

// keyPolicy returns the SDK's policy that signs with an account key. The key stays inside the
// credential, which rotates; the SDK's constructor hands the policy out through the options it is given.
// Blob and Queue requests are signed alike.
func keyPolicy(key *azqueue.SharedKeyCredential) (policy.Policy, error) {
	var o azqueue.ClientOptions
	if _, err := azqueue.NewServiceClientWithSharedKeyCredential("https://example.invalid/", key, &o); err != nil {
		return nil, err
	}
	if len(o.PerRetryPolicies) != 1 {
		return nil, errors.New("the SDK no longer hands out its signing policy")
	}
	return o.PerRetryPolicies[0], nil
}

// siblingObserver tells of requests to another service than the queues.
type siblingObserver struct{ a *Account }

// Do implements policy.Policy.
func (o siblingObserver) Do(req *policy.Request) (*http.Response, error) {
	begin := time.Now()
	resp, err := req.Next()
	if o.a.cfg.Observe != nil {
		o.a.cfg.Observe(Request{Account: o.a.cfg.Name, Operation: OpOther, Result: resultOf(resp, err), Duration: time.Since(begin)})
	}
	return resp, err
}
