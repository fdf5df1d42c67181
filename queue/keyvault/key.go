package keyvault

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/security/keyvault/azkeys"

	"github.com/qwatch/qwatch/queue/encryption"
)

// Config says how a key is used. The zero value is usable.
type Config struct {
	// Algorithm to wrap by: RSA-OAEP-256, RSA-OAEP, or for a Managed HSM A256KW, A192KW, A128KW. Unwrapping
	// goes by what the message says, if it is one of these. Default RSA-OAEP-256.
	Algorithm string
	// Timeout bounds a call with its retries. Default 30 s.
	Timeout time.Duration
	// TryTimeout bounds one try. Default 10 s.
	TryTimeout time.Duration
	// Transport makes the HTTP exchanges. Default: the SDK's own.
	Transport policy.Transporter
}

// WithDefaults returns the configuration with every default filled in.
func (c Config) WithDefaults() Config {
	c.Algorithm = cmp.Or(c.Algorithm, string(azkeys.EncryptionAlgorithmRSAOAEP256))
	c.Timeout = cmp.Or(c.Timeout, 30*time.Second)
	c.TryTimeout = cmp.Or(c.TryTimeout, 10*time.Second)
	return c
}

// algorithms are those that a message may name. RSA1_5 is not one of them: its padding tells secrets.
func algorithms() []string {
	var out []string
	for _, a := range []azkeys.EncryptionAlgorithm{
		azkeys.EncryptionAlgorithmRSAOAEP256, azkeys.EncryptionAlgorithmRSAOAEP,
		azkeys.EncryptionAlgorithmA256KW, azkeys.EncryptionAlgorithmA192KW, azkeys.EncryptionAlgorithmA128KW,
	} {
		out = append(out, string(a))
	}
	return out
}

// Key is a key in a vault. It is safe for concurrent use.
type Key struct {
	cfg    Config
	client *azkeys.Client
	at     address
}

// New returns the key at a URL, https://VAULT.vault.azure.net/keys/NAME, with or without a version. It
// wraps with that version, or the newest, and unwraps what any version wrapped. It makes no request.
func New(keyURL string, cred azcore.TokenCredential, cfg Config) (*Key, error) {
	cfg = cfg.WithDefaults()
	at, err := parse(keyURL)
	switch {
	case err != nil:
		return nil, fmt.Errorf("vault key: %w", err)
	case cred == nil:
		return nil, errors.New("vault key: it needs a credential")
	case !slices.Contains(algorithms(), cfg.Algorithm):
		return nil, fmt.Errorf("vault key %s: algorithm %q is not one of %s", at, cfg.Algorithm, strings.Join(algorithms(), ", "))
	case cfg.Timeout < 0 || cfg.TryTimeout < 0:
		return nil, fmt.Errorf("vault key %s: timeout %v or try timeout %v is negative: every call has a deadline", at, cfg.Timeout, cfg.TryTimeout)
	}
	client, err := azkeys.NewClient("https://"+at.host, cred, &azkeys.ClientOptions{ClientOptions: azcore.ClientOptions{
		Transport: cfg.Transport,
		Retry:     policy.RetryOptions{MaxRetries: 3, TryTimeout: cfg.TryTimeout, RetryDelay: 200 * time.Millisecond, MaxRetryDelay: 5 * time.Second},
		Telemetry: policy.TelemetryOptions{ApplicationID: "qwatch"},
	}})
	if err != nil {
		return nil, fmt.Errorf("vault key %s: %w", at, err)
	}
	return &Key{cfg: cfg, client: client, at: at}, nil
}

// String returns the key's URL.
func (k *Key) String() string { return k.at.String() }

// Wrap implements encryption.KeyWrapper.
func (k *Key) Wrap(ctx context.Context, content []byte) (encryption.WrappedKey, error) {
	ctx, cancel := context.WithTimeout(ctx, k.cfg.Timeout)
	defer cancel()
	algorithm := azkeys.EncryptionAlgorithm(k.cfg.Algorithm)
	r, err := k.client.WrapKey(ctx, k.at.name, k.at.version, azkeys.KeyOperationParameters{Algorithm: &algorithm, Value: content}, nil)
	if err != nil {
		return encryption.WrappedKey{}, k.wrap("wrap a content key with", err)
	}
	if r.KID == nil || len(r.Result) == 0 {
		return encryption.WrappedKey{}, k.wrap("wrap a content key with", errors.New("the answer has no wrapped key"))
	}
	return encryption.WrappedKey{KeyID: string(*r.KID), Algorithm: k.cfg.Algorithm, Key: r.Result}, nil
}

// Unwrap implements encryption.KeyWrapper. Of another vault's or another name's key nothing is asked.
func (k *Key) Unwrap(ctx context.Context, w encryption.WrappedKey) ([]byte, error) {
	of, err := parse(w.KeyID)
	if err != nil || of.host != k.at.host || of.name != k.at.name {
		return nil, encryption.ErrUnknownKey
	}
	if !slices.Contains(algorithms(), w.Algorithm) {
		return nil, fmt.Errorf("%w: its content key is wrapped by %.20q, which is not known to this reader", encryption.ErrUndecryptable, w.Algorithm)
	}
	ctx, cancel := context.WithTimeout(ctx, k.cfg.Timeout)
	defer cancel()
	algorithm := azkeys.EncryptionAlgorithm(w.Algorithm)
	r, err := k.client.UnwrapKey(ctx, of.name, of.version, azkeys.KeyOperationParameters{Algorithm: &algorithm, Value: w.Key}, nil)
	if err == nil {
		return r.Result, nil
	}
	e := k.wrap("unwrap a content key with", err)
	switch e.Status {
	case http.StatusNotFound:
		return nil, fmt.Errorf("%w: %w", encryption.ErrUnknownKey, e)
	case http.StatusBadRequest:
		return nil, fmt.Errorf("%w: %w", encryption.ErrUndecryptable, e)
	}
	return nil, e
}

func (k *Key) wrap(operation string, err error) *Error {
	e := &Error{Operation: operation, Key: k.at.String(), cause: err}
	if resp, ok := errors.AsType[*azcore.ResponseError](err); ok {
		e.Status, e.Code = resp.StatusCode, resp.ErrorCode
	}
	return e
}

// address is where a key is.
type address struct{ host, name, version string }

// parse reads a key's URL.
func parse(raw string) (address, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || u.RawPath != "" {
		return address{}, errors.New("it is not a URL like https://VAULT.vault.azure.net/keys/NAME")
	}
	parts := strings.Split(strings.Trim(u.Path, "/"), "/")
	if len(parts) < 2 || len(parts) > 3 || parts[0] != "keys" || !plain(parts[1]) || len(parts) == 3 && !plain(parts[2]) {
		return address{}, errors.New("its path is not /keys/NAME or /keys/NAME/VERSION")
	}
	a := address{host: strings.ToLower(u.Host), name: strings.ToLower(parts[1])} // neither minds case
	if len(parts) == 3 {
		a.version = parts[2]
	}
	return a, nil
}

// plain is what names and versions of keys are made of.
func plain(s string) bool {
	if s == "" || len(s) > 127 {
		return false
	}
	for _, r := range s {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-') {
			return false
		}
	}
	return true
}

func (a address) String() string {
	s := "https://" + a.host + "/keys/" + a.name
	if a.version != "" {
		s += "/" + a.version
	}
	return s
}

// Error is a failed call to a vault. Its text is one line and holds no secret.
type Error struct {
	Operation string // such as "wrap a content key with"
	Key       string // its URL
	Status    int    // HTTP status; 0 without an answer
	Code      string // the vault's error code; "" when it gave none

	cause error
}

// Error tells operation, object and cause.
func (e *Error) Error() string {
	text := e.Operation + " " + e.Key + ": "
	switch {
	case e.Status != 0:
		text += strings.TrimSpace(fmt.Sprintf("%d %s", e.Status, cmp.Or(e.Code, http.StatusText(e.Status))))
	case errors.Is(e.cause, context.DeadlineExceeded):
		text += "no answer in time"
	default:
		text += strings.Join(strings.Fields(e.cause.Error()), " ")
	}
	if e.Status == http.StatusForbidden {
		text += ": the identity needs the role Key Vault Crypto User"
	}
	return text
}

// Is matches what the cause matches, the context's errors among it. Unwrap would have the SDK's error,
// which prints a whole answer.
func (e *Error) Is(target error) bool { return errors.Is(e.cause, target) }

// As reaches the SDK's error, by which queue.Classify tells what happened.
func (e *Error) As(target any) bool { return errors.As(e.cause, target) }
