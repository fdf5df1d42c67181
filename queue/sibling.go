package queue

import (
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
	at, err := a.blobEndpoint(endpoint)
	if err == nil {
		err = a.signsBlobs(at)
	}
	if err != nil {
		return BlobService{}, fmt.Errorf("blob service of account %q: %w", a.cfg.Name, err)
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
	if a.signIn.key != nil {
		sign, err := keyPolicy(a.signIn.key)
		if err != nil {
			return BlobService{}, fmt.Errorf("blob service of account %q: %w", a.cfg.Name, err)
		}
		o.PerRetryPolicies = append(o.PerRetryPolicies, sign)
	}
	return BlobService{URL: at.String(), options: o}, nil
}

// blobEndpoint checks the endpoint that was given, or derives it.
func (a *Account) blobEndpoint(given string) (*url.URL, error) {
	if given == "" {
		host := a.endpoint.host
		switch account, rest, ok := strings.Cut(host, ".queue."); {
		case ok:
			host = account + ".blob." + rest
		case a.endpoint.base != "" && strings.HasSuffix(host, ":"+devPort):
			host = strings.TrimSuffix(host, devPort) + "10000"
		default:
			return nil, fmt.Errorf("its endpoint cannot be told from the queue endpoint %s: set the blob endpoint", a.URL())
		}
		return &url.URL{Scheme: a.endpoint.scheme, Host: host, Path: a.endpoint.base}, nil
	}
	u, err := url.Parse(strings.TrimRight(strings.TrimSpace(given), "/"))
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("the blob endpoint is not a URL like https://NAME.blob.core.windows.net")
	case hasSignature(u.RawQuery):
		return nil, errors.New("the blob endpoint carries a SAS: end it before the ?; the account's own sign-in is used")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || u.User != nil:
		return nil, errors.New("the blob endpoint has more than scheme, host and account: end it there")
	case strings.Count(u.Path, "/") > 1:
		return nil, errors.New("the blob endpoint goes beyond the account: end it there")
	}
	return &url.URL{Scheme: u.Scheme, Host: strings.ToLower(u.Host), Path: u.Path}, nil
}

// signsBlobs says why the account's sign-in is no good for blobs, where that can be told.
func (a *Account) signsBlobs(at *url.URL) error {
	tok := a.signIn.sas.Load()
	switch {
	case a.signIn.identity != nil && at.Scheme != "https":
		return errors.New("an identity's token is only sent over https, but the blob endpoint is http")
	case tok == nil:
		return nil
	case tok.httpsOnly && at.Scheme != "https":
		return errors.New("the SAS is for https only (spr=), but the blob endpoint is http")
	case tok.services == "":
		return errors.New("the SAS is for one queue: use an account SAS for blobs too (ss=bq), a key or an identity")
	case !strings.Contains(tok.services, "b"):
		return fmt.Errorf("the SAS is not for blobs: its services (ss=%s) lack b", tok.services)
	case !strings.Contains(tok.types, "o"):
		return fmt.Errorf("the SAS is not for blobs: its resource types (srt=%s) lack o", tok.types)
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
