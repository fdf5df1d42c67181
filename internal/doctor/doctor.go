// Package doctor examines whether qwatch can do its work: names, connections, certificates, clocks, sign-in, and
// each permission that the configuration needs, with the cure for what is wrong.
//
// It owns the questions, their order and the diagnosis of the answers. Nothing it asks changes what is in
// storage, but for one hidden message sent to the poison queue of a consumer and deleted at once
// (queue.Queue.Probe).
package doctor

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/qwatch/qwatch/internal/app"
	"github.com/qwatch/qwatch/internal/config"
	"github.com/qwatch/qwatch/queue"
)

// Status is how a check ended.
type Status string

// The states of a check.
const (
	OK      Status = "ok"
	Warning Status = "warning" // works, and may stop working
	Failed  Status = "failed"
	Skipped Status = "skipped" // not tried; Detail says why
)

// The checks, in the order in which they are made.
const (
	CheckAddress    = "address"    // the account's name resolves
	CheckConnection = "connection" // something listens there
	CheckTLS        = "tls"        // and shows a certificate for the name
	CheckSignIn     = "sign-in"    // storage answers, and accepts the credential
	CheckClock      = "clock"      // the clocks agree
	CheckExpiry     = "expiry"     // the credential lasts
	CheckDiscovery  = "discovery"  // the account's queues may be listed, and the first that is found read
	CheckQueue      = "queue"      // one operation on a main queue
	CheckPoison     = "poison"     // one operation on a poison queue
	CheckBodies     = "bodies"     // the store of large messages answers
)

// Finding is the outcome of one check.
type Finding struct {
	Account   string `json:"account"`
	Queue     string `json:"queue,omitempty"` // the queue that was asked; "" for the account
	Check     string `json:"check"`
	Operation string `json:"operation,omitempty"` // of CheckDiscovery, CheckQueue and CheckPoison, as in storage metrics
	Status    Status `json:"status"`
	Reason    string `json:"reason,omitempty"` // of Warning and Failed; one of the Reason constants
	Detail    string `json:"detail"`
	Cure      string `json:"cure,omitempty"`
}

// Report is every finding, by account in the order of the file.
type Report []Finding

// Count returns how many checks ended so.
func (r Report) Count(s Status) int {
	n := 0
	for _, f := range r {
		if f.Status == s {
			n++
		}
	}
	return n
}

// Options are what a configuration does not say. The zero value is usable.
type Options struct {
	// Timeout of one check. Default 10 s.
	Timeout time.Duration
	// Lookup resolves a host. Default: net.DefaultResolver's.
	Lookup func(ctx context.Context, host string) ([]net.IPAddr, error)
	// Dial connects. Default: a net.Dialer's.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Proxy tells the proxy of a request, nil for none. Default: the environment's.
	Proxy func(*http.Request) (*url.URL, error)
}

func (o Options) withDefaults() Options {
	o.Timeout = cmp.Or(o.Timeout, 10*time.Second)
	if o.Lookup == nil {
		o.Lookup = net.DefaultResolver.LookupIPAddr
	}
	if o.Dial == nil {
		o.Dial = (&net.Dialer{}).DialContext
	}
	if o.Proxy == nil {
		o.Proxy = http.ProxyFromEnvironment
	}
	return o
}

// atOnce is how many queues of an account are asked at a time.
const atOnce = 8

// Examine makes every check on the accounts given, or on all when none is named. It returns the report of what
// was checked until ctx ended.
func Examine(ctx context.Context, cfg *config.Config, fleet *app.Fleet, o Options, accounts ...string) Report {
	o = o.withDefaults()
	reports := make([]Report, len(cfg.Accounts))
	var all sync.WaitGroup
	for i, a := range cfg.Accounts {
		acct, err := fleet.Account(a.Name)
		if err != nil || len(accounts) > 0 && !slices.Contains(accounts, a.Name) {
			continue
		}
		e := examiner{Options: o, all: cfg, cfg: a, acct: acct}
		for _, q := range fleet.Queues {
			if q.Config.Account == a.Name {
				e.queues = append(e.queues, q)
			}
		}
		e.queues = append(e.queues, e.canary(cfg.Watch.Canary)...)
		all.Go(func() {
			e.account(ctx)
			reports[i] = e.report
		})
	}
	all.Wait()
	return slices.Concat(reports...)
}

// examiner examines one account.
type examiner struct {
	Options

	all    *config.Config
	cfg    config.Account
	acct   *queue.Account
	queues []app.FleetQueue
	report Report
}

func (e *examiner) add(f Finding) bool {
	f.Account = e.cfg.Name
	e.report = append(e.report, f)
	return f.Status != Failed
}

// account asks what everything else rests on first, and leaves out what cannot work then.
func (e *examiner) account(ctx context.Context) {
	if !e.network(ctx) {
		e.skip("the account cannot be reached")
		return
	}
	ok := e.signIn(ctx)
	e.clock()
	e.expiry()
	if !ok {
		e.skip("the account refuses the sign-in")
		return
	}
	e.discovery(ctx)
	reports := make([]Report, len(e.queues))
	var g errgroup.Group
	g.SetLimit(atOnce)
	for i, q := range e.queues {
		g.Go(func() error {
			reports[i] = e.queue(ctx, q)
			return nil
		})
	}
	_ = g.Wait() // the errors are in the reports
	e.report = append(e.report, slices.Concat(reports...)...)
}

func (e *examiner) skip(why string) {
	for _, q := range e.queues {
		e.add(Finding{Queue: q.Name(), Check: CheckQueue, Status: Skipped, Detail: "not asked: " + why})
	}
}

// within bounds one check.
func (e *examiner) within(ctx context.Context, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, e.Timeout)
	defer cancel()
	return check(ctx)
}
