package app

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/qwatch/qwatch/internal/config"
	"github.com/qwatch/qwatch/queue"
)

// Fleet is the accounts and queues of a configuration, signed in and ready to be asked.
// Opening one makes no request.
type Fleet struct {
	Queues []FleetQueue // in the order of the file

	config   *config.Config
	accounts []*queue.Account  // one for each configured account, in order
	keys     map[string]keySum // of the queues that encrypt, by name
}

// FleetQueue is a configured queue.
type FleetQueue struct {
	*queue.Queue
	Config config.Queue
}

// String returns "account/queue".
func (q FleetQueue) String() string { return fullName(q.Config.Account, q.Config.Name) }

func fullName(account, name string) string { return account + "/" + name }

// FleetOptions are what a configuration file does not say. The zero value is usable.
type FleetOptions struct {
	// Logger of the accounts. Nil discards.
	Logger *slog.Logger
	// Transport replaces every account's own HTTP client.
	Transport policy.Transporter
	// Observe is told of every storage request.
	Observe func(queue.Request)
	// OnSend returns what is called after each message sent to a queue. Nil: nothing.
	OnSend func(account, name string) func()
	// Timeout bounds every storage call, retries included. Default: the library's.
	Timeout time.Duration
	// Tracer follows the calls on every queue. Nil: none.
	Tracer queue.Tracer
}

// OpenFleet signs in to every account and opens every queue of a configuration. It
// makes no request. Every fault is reported at once, each with its place in the file.
func OpenFleet(cfg *config.Config, o FleetOptions) (*Fleet, error) {
	return reopenFleet(cfg, o, &Fleet{})
}

func accountConfig(a config.Account, o FleetOptions) queue.AccountConfig {
	c := queue.AccountConfig{
		Name:                 a.Name,
		ConnectionString:     a.ConnectionString,
		ConnectionStringFile: a.ConnectionStringFile,
		Endpoint:             a.Endpoint,
		AccountName:          a.AccountName,
		AccountKey:           a.AccountKey,
		AccountKeyFile:       a.AccountKeyFile,
		SAS:                  a.SAS,
		SASFile:              a.SASFile,
		Transport:            o.Transport,
		MaxConnections:       connections(a),
		Timeout:              o.Timeout,
		Observe:              o.Observe,
		Logger:               o.Logger,
	}
	if id := a.Identity; id != nil {
		c.Identity = &queue.Identity{Type: queue.IdentityType(id.Type), ClientID: id.ClientID, TenantID: id.TenantID}
	}
	return c
}

// connections is how many idle connections an account may keep: one for each handler's settling, one for each
// receive loop, some for watching, and some for what a reload adds, which finds the account open. What is not used
// is not there.
func connections(a config.Account) int {
	const spare = 256
	n := spare
	for _, q := range a.Queues {
		if c := q.Consumer; c != nil {
			n += c.Concurrency + 1
		}
	}
	return n
}

// Config returns the configuration that the fleet was opened by.
func (f *Fleet) Config() *config.Config { return f.config }

// Account returns the account of that configured name. The error lists the names there are.
func (f *Fleet) Account(name string) (*queue.Account, error) {
	names := make([]string, 0, len(f.accounts))
	for _, a := range f.accounts {
		if a.Name() == name {
			return a, nil
		}
		names = append(names, a.Name())
	}
	return nil, fmt.Errorf("account %q is not configured; there are: %s", name, strings.Join(names, ", "))
}

// Settings returns the effective settings of a queue as YAML, secrets masked.
func (f *Fleet) Settings(q FleetQueue) ([]byte, error) { return f.config.QueueYAML(q.Config) }

// Names returns "account/queue" of every configured queue, in order.
func (f *Fleet) Names() []string {
	names := make([]string, 0, len(f.Queues))
	for _, q := range f.Queues {
		names = append(names, q.String())
	}
	return names
}

// Find returns the queue called "account/queue": a configured one, the poison queue of
// one, or, in an account with discovery, any queue. The error lists the names there are.
func (f *Fleet) Find(name string) (FleetQueue, error) {
	accountName, queueName, ok := strings.Cut(name, "/")
	if !ok || accountName == "" || queueName == "" || strings.Contains(queueName, "/") {
		return FleetQueue{}, fmt.Errorf("%q is not the name of a queue: write ACCOUNT/QUEUE; there are: %s", name, f.listing())
	}
	for _, q := range f.Queues {
		if q.String() == name {
			return q, nil
		}
	}
	acct, err := f.Account(accountName)
	if err != nil {
		return FleetQueue{}, err
	}
	for _, q := range f.Queues {
		if p := q.Poison(); p != nil && q.Config.Account == accountName && p.Name() == queueName {
			qc := f.config.QueueFor(accountName, queueName)
			return FleetQueue{Queue: p, Config: qc}, nil
		}
	}
	if !f.discovers(accountName) {
		return FleetQueue{}, fmt.Errorf("queue %q is not configured; there are: %s", name, f.listing())
	}
	qc := f.config.QueueFor(accountName, queueName)
	q, err := openQueue(acct, qc, FleetOptions{})
	if err != nil {
		return FleetQueue{}, err
	}
	return FleetQueue{Queue: q, Config: qc}, nil
}

// PoisonOf returns the configured queues whose poison queue q is.
func (f *Fleet) PoisonOf(q FleetQueue) []FleetQueue {
	var of []FleetQueue
	for _, m := range f.Queues {
		if p := m.Poison(); p != nil && m.Config.Account == q.Config.Account && p.Name() == q.Name() {
			of = append(of, m)
		}
	}
	return of
}

func (f *Fleet) discovers(account string) bool {
	return slices.ContainsFunc(f.config.Accounts, func(a config.Account) bool { return a.Name == account && a.Discovery != nil })
}

// listing is the names for an error: all of a few, the first of many.
func (f *Fleet) listing() string { return Listing(f.Names()) }

// Listing writes names for people, separated by commas: the first 20 and how many more there are, "none" for none.
func Listing(names []string) string {
	const most = 20
	switch {
	case len(names) == 0:
		return "none"
	case len(names) > most:
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// Close releases the accounts' connections.
func (f *Fleet) Close() {
	for _, a := range f.accounts {
		a.Close()
	}
}
