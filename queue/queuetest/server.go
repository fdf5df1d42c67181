package queuetest

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// The account that every server has: the storage emulators' well-known one.
const (
	AccountName = "devstoreaccount1"
	AccountKey  = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)

// Options says how a server behaves. The zero value is a strict service with one account.
type Options struct {
	// Now is the service's clock before SetClockOffset; default time.Now, which is
	// fake inside a testing/synctest bubble.
	Now func() time.Time
	// Accounts are additional accounts, name to Base64 key. An entry for AccountName
	// replaces the well-known key.
	Accounts map[string]string
	// NoAuth accepts every request without looking at its credentials. It saves the
	// work of verifying signatures in load tests.
	NoAuth bool
	// AllowBearer accepts any non-empty bearer token. Default: 401, as for a token of
	// another audience.
	AllowBearer bool
	// LostLeaseNotFound answers a receipt that is no longer the newest with 404
	// MessageNotFound instead of 400 PopReceiptMismatch. The service does either.
	LostLeaseNotFound bool
	// OnRequest, if set, is called after each request with what was asked and
	// answered. It must be fast, and may be called concurrently.
	OnRequest func(Request)
}

// Server is an in-process queue service. It is a policy.Transporter and an
// http.Handler, and is safe for concurrent use.
type Server struct {
	now          func() time.Time
	noAuth       bool
	allowBearer  bool
	lostNotFound bool
	onRequest    func(Request)

	accounts map[string]*account // read only
	offset   atomic.Int64        // of the clock, in nanoseconds
	seq      atomic.Uint64       // request ids
	ids      atomic.Uint64       // message ids and pop receipts
	date     atomic.Pointer[stamp]

	lost  counters  // requests of unknown accounts
	calls sync.Pool // of *call

	faultMu sync.Mutex
	faults  atomic.Pointer[[]*fault] // copied on write
}

// New returns a server without queues. It panics if a key in o.Accounts is not Base64,
// as that is a mistake in the calling program.
func New(o Options) *Server {
	s := &Server{
		now: o.Now, noAuth: o.NoAuth, allowBearer: o.AllowBearer,
		lostNotFound: o.LostLeaseNotFound, onRequest: o.OnRequest,
	}
	if s.now == nil {
		s.now = time.Now
	}
	keys := map[string]string{AccountName: AccountKey}
	maps.Copy(keys, o.Accounts)
	s.accounts = make(map[string]*account, len(keys))
	for name, key := range keys {
		raw, err := base64.StdEncoding.DecodeString(key)
		if err != nil {
			panic(fmt.Sprintf("queuetest: key of account %q is not base64", name))
		}
		s.accounts[name] = newAccount(name, key, raw)
	}
	return s
}

// Endpoint returns the path-style URL of an account for the in-process transporter:
// http://127.0.0.1:10001/NAME. The host is never dialed.
func (s *Server) Endpoint(account string) string {
	return EndpointAt("http://127.0.0.1:10001", account)
}

// EndpointAt returns the path-style URL of an account of a server listening at base,
// for instance an httptest.Server's URL.
func EndpointAt(base, account string) string { return strings.TrimSuffix(base, "/") + "/" + account }

// ConnectionString returns that of the default account for the in-process transporter.
func (s *Server) ConnectionString() string { return s.ConnectionStringAt("http://127.0.0.1:10001") }

// ConnectionStringAt returns the default account's connection string for a server
// listening at base.
func (s *Server) ConnectionStringAt(base string) string {
	return "DefaultEndpointsProtocol=http;AccountName=" + AccountName + ";AccountKey=" + s.Key(AccountName) +
		";QueueEndpoint=" + EndpointAt(base, AccountName) + ";"
}

// Key returns the account's Base64 key, or "" if there is no such account.
func (s *Server) Key(account string) string {
	if a := s.accounts[account]; a != nil {
		return a.key
	}
	return ""
}

// AccountNames returns the server's accounts in order.
func (s *Server) AccountNames() []string { return slices.Sorted(maps.Keys(s.accounts)) }

// SetClockOffset moves the service's clock to its own clock + d: the Date header,
// insertion and expiration times, and the checks of request dates and SAS lifetimes.
// Leases and times to live that already run keep their length.
func (s *Server) SetClockOffset(d time.Duration) { s.offset.Store(int64(d)) }

// Now returns the service's time, offset included.
func (s *Server) Now() time.Time { return s.now().Add(time.Duration(s.offset.Load())) }
