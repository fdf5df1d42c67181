package queue

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
)

// AccountConfig describes a storage account and how to sign in to it.
//
// Exactly one sign-in form is set: ConnectionString, AccountKey, SAS (or the file of one of them), or
// Identity. All but a connection string need Endpoint, which a SAS URL can stand for. A file is read
// at the start, and again within seconds of a change or at once when the service refuses the
// credential, so that it can be rotated without a restart.
type AccountConfig struct {
	// Name is the account's label, in metrics and messages. Required.
	Name string
	// ConnectionString as the portal shows it, or "UseDevelopmentStorage=true" for the emulator.
	ConnectionString     Secret
	ConnectionStringFile string
	// Endpoint is the account's queue endpoint, https://NAME.queue.core.windows.net or, for an
	// emulator, http://127.0.0.1:10001/devstoreaccount1; or the URL of a queue, which then is the
	// only name that Queue takes.
	Endpoint string
	// AccountName is the storage account, where the endpoint's host does not tell it.
	AccountName    string
	AccountKey     Secret
	AccountKeyFile string
	// SAS with or without a leading "?", or a whole SAS URL.
	SAS     Secret
	SASFile string
	// Identity signs in with Microsoft Entra ID. Its zero value is the default chain.
	Identity *Identity

	// Transport makes the HTTP exchanges. Default: a client of the account's own, closed by Close.
	Transport policy.Transporter
	// MaxConnections is how many idle connections the own client keeps. Default 64.
	MaxConnections int
	// Timeout bounds a call with its retries. Default 30 s.
	Timeout time.Duration
	// TryTimeout bounds one try, from sending to the last byte of the answer. Default 10 s.
	TryTimeout time.Duration
	// Observe is called after every HTTP exchange. It must be fast and safe for concurrent use.
	Observe func(Request)
	// Logger takes what a person should know. Default: nothing is logged.
	Logger *slog.Logger
}

// WithDefaults returns the configuration with every default filled in.
func (c AccountConfig) WithDefaults() AccountConfig {
	c.MaxConnections = cmp.Or(c.MaxConnections, 64)
	c.Timeout = cmp.Or(c.Timeout, 30*time.Second)
	c.TryTimeout = cmp.Or(c.TryTimeout, 10*time.Second)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// FieldError is a fault of one field of an AccountConfig.
type FieldError struct {
	Account string // AccountConfig.Name
	Field   string // as in the configuration file, such as "connectionString" or "identity.type"
	Err     error
}

// Error tells account, field and fault.
func (e *FieldError) Error() string {
	return fmt.Sprintf("account %q: %s: %v", e.Account, e.Field, e.Err)
}

// Unwrap returns the fault.
func (e *FieldError) Unwrap() error { return e.Err }

// faults collects the faults of a configuration.
type faults struct {
	account string
	errs    []error
}

func (f *faults) add(field string, err error) {
	if err != nil {
		f.errs = append(f.errs, &FieldError{Account: f.account, Field: field, Err: err})
	}
}

func (f *faults) say(field, format string, args ...any) { f.add(field, fmt.Errorf(format, args...)) }

// Account is a storage account's queue service. It is safe for concurrent use.
type Account struct {
	cfg      AccountConfig // without its secrets
	endpoint endpoint
	signIn   *signIn
	svc      *azqueue.ServiceClient
	clock    *clock
	log      *slog.Logger
	own      *http.Client // nil when the caller gave a transport
}

// NewAccount checks the configuration and makes the account's client. It reads the secret files, but
// makes no request. The error joins a *FieldError for every fault found; none shows a secret.
func NewAccount(cfg AccountConfig) (*Account, error) {
	cfg = cfg.WithDefaults()
	f := &faults{account: cfg.Name}
	cfg.check(f)
	a := &Account{log: cfg.Logger.With("account", cfg.Name)}
	a.clock = &clock{log: a.log}
	next := cfg.Transport
	if next == nil {
		a.own = newHTTPClient(cfg.MaxConnections)
		next = a.own
	}
	a.signIn = newSignIn(cfg, f, next, a.log)
	if len(f.errs) > 0 {
		return nil, errors.Join(f.errs...)
	}
	a.endpoint = a.signIn.endpoint
	cfg.ConnectionString, cfg.AccountKey, cfg.SAS = "", "", ""
	a.cfg = cfg
	var err error
	if a.svc, err = a.client(next); err != nil {
		return nil, &FieldError{Account: cfg.Name, Field: "endpoint", Err: err}
	}
	return a, nil
}

func (c AccountConfig) check(f *faults) {
	switch {
	case c.Name == "":
		f.say("name", "it is empty: give the account a label")
	case len(c.Name) > 80 || strings.ContainsFunc(c.Name, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '/' }):
		f.say("name", "it is a label of up to 80 characters without spaces and slashes")
	}
	if c.MaxConnections < 0 {
		f.say("maxConnections", "%d is negative", c.MaxConnections)
	}
	if c.Timeout < 0 {
		f.say("timeout", "%v is negative: every call has a deadline", c.Timeout)
	}
	if c.TryTimeout < 0 {
		f.say("tryTimeout", "%v is negative: every try has a deadline", c.TryTimeout)
	}
}

// client makes the SDK's client. Its options are this client's alone: the SDK's constructors append
// their signing policy to the options they are given.
func (a *Account) client(next policy.Transporter) (*azqueue.ServiceClient, error) {
	_, isHTTP := next.(*http.Client)
	opts := &azqueue.ClientOptions{ClientOptions: azcore.ClientOptions{
		Transport: signer{next: next, signIn: a.signIn, base: a.endpoint.base, http: isHTTP},
		Retry:     policy.RetryOptions{MaxRetries: -1}, // see retrier
		Telemetry: policy.TelemetryOptions{ApplicationID: "qwatch"},
	}}
	opts.PerCallPolicies = append(opts.PerCallPolicies, retrier{try: a.cfg.TryTimeout, whole: a.cfg.Timeout})
	if a.signIn.file != nil {
		opts.PerRetryPolicies = append(opts.PerRetryPolicies, a.signIn)
	}
	if a.signIn.identity != nil {
		opts.PerRetryPolicies = append(opts.PerRetryPolicies, bearer(a.signIn.identity))
	}
	opts.PerRetryPolicies = append(opts.PerRetryPolicies, observer{a}, listingPolicy{})
	url := a.endpoint.url() + "/"
	if a.signIn.key != nil {
		return azqueue.NewServiceClientWithSharedKeyCredential(url, a.signIn.key, opts)
	}
	return azqueue.NewServiceClientWithNoCredential(url, opts)
}

// Name returns the account's label.
func (a *Account) Name() string { return a.cfg.Name }

// StorageAccount returns the storage account's own name; for a custom domain that does not tell it, its host.
func (a *Account) StorageAccount() string { return cmp.Or(a.endpoint.account, a.endpoint.host) }

// URL returns the account's queue endpoint, without a trailing slash and never with a SAS.
func (a *Account) URL() string { return a.endpoint.url() }

// Now returns the time by the service's clock: the local one corrected by Skew.
func (a *Account) Now() time.Time { return a.clock.now() }

// Skew returns how far the service's clock is ahead of the local one, and false before the first
// answer. Its error is at most 1 s plus a round trip at first, and shrinks to tens of milliseconds
// as answers come in. A difference too small to be proved is 0.
func (a *Account) Skew() (time.Duration, bool) {
	return time.Duration(a.clock.skew.Load()), a.clock.seen.Load()
}

// CredentialExpiry returns when the SAS in use expires; false when there is none, or it does not say.
func (a *Account) CredentialExpiry() (time.Time, bool) {
	tok := a.signIn.sas.Load()
	if tok == nil || tok.expires.IsZero() {
		return time.Time{}, false
	}
	return tok.expires, true
}

// Permits returns an error that names what the SAS in use lacks for one of the operations. It is nil
// for every other sign-in form, and for what only the service can tell.
func (a *Account) Permits(ops ...Operation) error {
	tok := a.signIn.sas.Load()
	if tok == nil {
		return nil
	}
	var errs []error
	for _, op := range ops {
		if lack := tok.lacks(op); lack != "" {
			errs = append(errs, fmt.Errorf("account %q cannot %s: %s", a.cfg.Name, strings.ReplaceAll(string(op), "_", " "), lack))
		}
	}
	return errors.Join(errs...)
}

// Close closes idle connections of the account's own client. Calls still work afterwards.
func (a *Account) Close() {
	if a.own != nil {
		a.own.CloseIdleConnections()
	}
}

// String returns the account's label.
func (a *Account) String() string { return a.cfg.Name }

// GoString keeps %#v from printing the account's insides.
func (a *Account) GoString() string { return fmt.Sprintf("queue.Account(%q)", a.cfg.Name) }

// LogValue implements slog.LogValuer.
func (a *Account) LogValue() slog.Value { return slog.StringValue(a.cfg.Name) }

// checkQueueInURL refuses a name that contradicts the queue in the endpoint's URL.
func (a *Account) checkQueueInURL(name string) error {
	if a.endpoint.queue == "" || a.endpoint.queue == name {
		return nil
	}
	return fmt.Errorf("the account's endpoint is the URL of queue %q: end the endpoint after the host, or name that queue", a.endpoint.queue)
}
