package queue

import (
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
)

// signIn is how an account signs its requests. One of key, sas and identity is in use.
type signIn struct {
	account  string // AccountConfig.AccountName
	endpoint endpoint
	key      *azqueue.SharedKeyCredential
	rawKey   atomic.Pointer[[]byte] // the same key, decoded
	sas      atomic.Pointer[sasToken]
	identity azcore.TokenCredential

	file  *secretFile // nil when the secret is fixed
	adopt func(Secret) error
	log   *slog.Logger
}

// newSignIn finds the one sign-in form of a configuration and checks it. Faults go to f.
func newSignIn(cfg AccountConfig, f *faults, next policy.Transporter, log *slog.Logger) *signIn {
	s := &signIn{account: cfg.AccountName, log: log}
	if cfg.AccountName != "" && !plainAccount(cfg.AccountName) {
		f.say("accountName", "it is not a storage account name (3 to 24 lower-case letters and digits)")
		s.account, cfg.AccountName = "", ""
	}
	var given bool
	if cfg.Endpoint != "" {
		e, err := parseEndpoint(cfg.Endpoint, cfg.AccountName)
		f.add("endpoint", err)
		s.endpoint, given = e, err == nil
	}
	forms := cfg.forms()
	switch {
	case len(forms) == 0 && cfg.Endpoint != "":
		f.say("endpoint", "an endpoint alone does not sign in: add accountKey, sas or identity")
		return s
	case len(forms) == 0:
		f.say("connectionString", "there is no sign-in: set connectionString, or endpoint with accountKey, sas or identity")
		return s
	case len(forms) > 1:
		f.say(forms[1], "%s are set: keep one way to sign in", strings.Join(forms[:len(forms)-1], ", ")+" and "+forms[len(forms)-1])
		return s
	}
	form := strings.TrimSuffix(forms[0], "File")
	needs := form == "accountKey" || form == "identity"
	if needs && cfg.Endpoint == "" {
		f.say("endpoint", "%s needs it: add https://%s.queue.core.windows.net", forms[0], orName(cfg.AccountName))
	}
	if form == "identity" {
		s.useIdentity(cfg, f, given, next)
		return s
	}
	secret := cfg.secret()
	if form != forms[0] {
		var err error
		if s.file, secret, err = openSecretFile(cfg.secretFile()); err != nil {
			f.add(forms[0], err)
			return s
		}
	}
	switch form {
	case "connectionString":
		s.adopt = s.useConnection
	case "accountKey":
		s.adopt = s.useKey
	case "sas":
		s.adopt = s.useSAS
	}
	// Where the endpoint's own fault is told already, the secret is checked by itself.
	switch faulty := cfg.Endpoint != "" && !given; {
	case form == "accountKey" && !given:
		_, err := checkKey(secret)
		f.add(forms[0], err)
	case form == "sas" && faulty:
		_, _, err := parseSAS(secret)
		f.add(forms[0], err)
	default:
		f.add(forms[0], s.adopt(secret))
	}
	return s
}

func orName(name string) string {
	if name == "" {
		return "NAME"
	}
	return name
}

// forms names the fields that say how to sign in.
func (c AccountConfig) forms() []string {
	var out []string
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"connectionString", c.ConnectionString != ""},
		{"connectionStringFile", c.ConnectionStringFile != ""},
		{"accountKey", c.AccountKey != ""},
		{"accountKeyFile", c.AccountKeyFile != ""},
		{"sas", c.SAS != ""},
		{"sasFile", c.SASFile != ""},
		{"identity", c.Identity != nil},
	} {
		if f.set {
			out = append(out, f.name)
		}
	}
	return out
}

func (c AccountConfig) secret() Secret { return c.ConnectionString + c.AccountKey + c.SAS }

func (c AccountConfig) secretFile() string {
	return c.ConnectionStringFile + c.AccountKeyFile + c.SASFile
}

// useConnection takes a connection string, at the start or after a rotation.
func (s *signIn) useConnection(secret Secret) error {
	c, err := parseConnection(secret, s.account)
	if err != nil {
		return err
	}
	started := s.key != nil || s.sas.Load() != nil
	switch {
	case s.endpoint.host == "":
		s.endpoint = c.endpoint
	case !s.endpoint.same(c.endpoint) && !started:
		return errors.New("it is for another endpoint than endpoint says: remove endpoint, or make them agree")
	case !s.endpoint.same(c.endpoint):
		return errors.New("it is for another account or endpoint than before: restart to change accounts")
	}
	if started && (s.key != nil) != (c.key != "") {
		return errors.New("it signs in another way than before (account key or SAS): restart to change it")
	}
	if c.key != "" {
		return prefixed("AccountKey", s.useKey(c.key))
	}
	return prefixed("SharedAccessSignature", s.useSAS(c.sas))
}

func prefixed(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", name, err)
}

// useKey takes an account key, at the start or after a rotation.
func (s *signIn) useKey(secret Secret) error {
	key, err := checkKey(secret)
	if err != nil {
		return err
	}
	if s.key != nil {
		s.keep(key)
		return s.key.SetAccountKey(key)
	}
	if s.endpoint.account == "" {
		return errors.New("the endpoint does not tell the storage account that the key belongs to: set accountName")
	}
	s.keep(key)
	s.key, err = azqueue.NewSharedKeyCredential(s.endpoint.account, key)
	return err
}

// keep takes the bytes of a key that checkKey has seen.
func (s *signIn) keep(key string) {
	if b, err := base64.StdEncoding.DecodeString(key); err == nil {
		s.rawKey.Store(&b)
	}
}

// checkKey returns an account key as the SDK takes it. The decoder's own error is left out: it tells
// where the key breaks, which helps nobody.
func checkKey(secret Secret) (string, error) {
	key := strings.TrimSpace(string(secret))
	if b, err := base64.StdEncoding.DecodeString(key); err != nil || len(b) == 0 || strings.ContainsAny(key, "\r\n") {
		return "", errors.New("it is not base64: copy the key again, as a whole")
	}
	return key, nil
}

// useSAS takes a SAS or a SAS URL, at the start or after a rotation.
func (s *signIn) useSAS(secret Secret) error {
	tok, at, err := parseSAS(secret)
	if err != nil {
		return err
	}
	e := s.endpoint
	if at != "" {
		if e, err = parseEndpoint(at, s.account); err != nil {
			return fmt.Errorf("its URL: %w", err)
		}
		if s.endpoint.host != "" && (!s.endpoint.same(e) || s.endpoint.queue != "" && e.queue != s.endpoint.queue) {
			return errors.New("its URL is another than endpoint: remove endpoint, or make them agree")
		}
	}
	switch {
	case e.host == "":
		return errors.New("it needs endpoint, such as https://NAME.queue.core.windows.net")
	case tok.httpsOnly && e.scheme == "http":
		return errors.New("it is for https only (spr=), but the endpoint is http")
	}
	s.endpoint = e
	s.sas.Store(&tok)
	now := time.Now()
	switch {
	case !tok.expires.IsZero() && !tok.expires.After(now):
		s.log.Warn("SAS has expired; the service will refuse it", "expires", tok.expires)
	case tok.starts.After(now):
		s.log.Warn("SAS is not valid yet", "starts", tok.starts)
	}
	return nil
}

// Do implements policy.Policy: it looks after a changed file before every try, and after a refusal
// as well, which it then answers with the new secret instead of passing it on.
func (s *signIn) Do(req *policy.Request) (*http.Response, error) {
	s.file.poll(s)
	before := s.file.generation.Load()
	resp, err := req.Next()
	if err != nil || resp.StatusCode != http.StatusUnauthorized && resp.StatusCode != http.StatusForbidden {
		return resp, err
	}
	if !s.file.reread(s, before) {
		return resp, nil
	}
	if err := req.RewindBody(); err != nil {
		return nil, err
	}
	return req.Next()
}

// hint tells what would help against a refusal, or "".
func (a *Account) hint(op Operation, code string) string {
	tok, now := a.signIn.sas.Load(), a.Now()
	switch {
	case code == codeKeysDisabled:
		return "the account does not allow keys: sign in with an identity"
	case code == codeFirewall && tok == nil:
		return "the account's network rules refuse this address, or the sign-in has no access"
	case tok != nil && !tok.expires.IsZero() && !tok.expires.After(now):
		return "the SAS expired at " + tok.expires.Format(time.RFC3339)
	case tok != nil && tok.starts.After(now):
		return "the SAS is not valid before " + tok.starts.Format(time.RFC3339)
	case tok != nil && code == codeAuthFailed:
		return "the signature of the SAS does not match: it is another account's or queue's, or its key was rotated"
	case tok != nil:
		return tok.lacks(op)
	case a.signIn.identity != nil && code == codeNoPermission:
		return "the identity lacks a role such as " + roleFor(op)
	case a.signIn.key != nil && code == codeAuthFailed:
		if skew, ok := a.Skew(); ok && abs(skew) > 14*time.Minute {
			return fmt.Sprintf("the local clock is %v off the service's, which refuses signatures past 15 minutes", abs(skew).Round(time.Second))
		}
		return "the account key is not the account's: was it rotated?"
	}
	return ""
}

// roleFor names the least built-in role that may do an operation.
func roleFor(op Operation) string {
	switch op {
	case OpPeek, OpProperties, OpList:
		return "Storage Queue Data Reader"
	case OpReceive, OpDelete:
		return "Storage Queue Data Message Processor"
	case OpSend:
		return "Storage Queue Data Message Sender"
	default:
		return "Storage Queue Data Contributor"
	}
}
