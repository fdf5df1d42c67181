package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

// LeaderConfig says how a leader is elected. Lock is required.
type LeaderConfig struct {
	// Lock returns the lock that is held under an identity.
	Lock func(identity string) resourcelock.Interface
	// LeaseDuration is how long a leader that says nothing is respected. Default 15s, at least a second.
	LeaseDuration time.Duration
	// RenewDeadline is how long a leader that cannot renew its lease goes on polling. Default two thirds of LeaseDuration,
	// so that it has stopped before another begins.
	RenewDeadline time.Duration
	// RetryPeriod is how often the lease is renewed, and looked at by the others. Default a fifth of RenewDeadline.
	RetryPeriod time.Duration
	// Changed is called whenever this replica begins or ends to lead. It must not call the Leader's Run. When it ends, the lease
	// is given back only after Changed has returned. Default: nobody is told.
	Changed func()
	// Peers says how the leader is talked to.
	Peers PeersConfig
	// Logger gets who leads, and when the API cannot be reached. Default: nothing is logged.
	Logger *slog.Logger
}

func (c LeaderConfig) withDefaults() LeaderConfig {
	if c.LeaseDuration == 0 {
		c.LeaseDuration = 15 * time.Second
	}
	if c.RenewDeadline == 0 {
		c.RenewDeadline = c.LeaseDuration * 2 / 3
	}
	if c.RetryPeriod == 0 {
		c.RetryPeriod = c.RenewDeadline / 5
	}
	if c.Changed == nil {
		c.Changed = func() {}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c LeaderConfig) validate() error {
	var errs []error
	if c.Lock == nil {
		errs = append(errs, errors.New("there is no lock"))
	}
	if c.LeaseDuration < time.Second {
		errs = append(errs, fmt.Errorf("a lease of %v is shorter than a second", c.LeaseDuration))
	}
	if c.RenewDeadline >= c.LeaseDuration {
		errs = append(errs, fmt.Errorf("a renewal deadline of %v is not shorter than the lease of %v", c.RenewDeadline, c.LeaseDuration))
	}
	if 2*c.RetryPeriod > c.RenewDeadline || c.RetryPeriod <= 0 {
		errs = append(errs, fmt.Errorf("a retry period of %v does not fit twice into the renewal deadline of %v", c.RetryPeriod, c.RenewDeadline))
	}
	return errors.Join(errs...)
}

// Leader is the election of the one replica that watches everything. Its methods are safe for
// concurrent use. It is a Router: the owner of every queue is the leader.
//
// The election is client-go's. What this replica does follows from what the lease is known to say, not from the
// election's callbacks: it leads from a renewal that was accepted until RenewDeadline after that renewal was sent, and no longer,
// even when the API hangs, or when the process was stopped in between.
type Leader struct {
	cfg   LeaderConfig
	log   *slog.Logger
	asker *asker
	lapse *time.Timer

	mu       sync.Mutex
	identity string
	leading  bool
	until    time.Time    // leading ends
	holder   string       // as the lease last said; "" nobody
	addr     string       // of the holder
	trouble  [deeds]error // of the last time
	seen     bool         // the API has answered
}

// NewLeader returns an election that this replica takes part in once Run is called.
func NewLeader(cfg LeaderConfig) (*Leader, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("leader election: %w", err)
	}
	a, err := newAsker(cfg.Peers)
	if err != nil {
		return nil, fmt.Errorf("leader election: %w", err)
	}
	return &Leader{cfg: cfg, log: cfg.Logger.With("component", "cluster"), asker: a}, nil
}

// Identity returns the holder identity of a replica: its name, which must differ from the others', and the base URL of
// its main listener, by which followers find it.
func Identity(name, addr string) string { return name + "@" + addr }

// addrOf returns the base URL in an identity; "" when there is none that is usable.
func addrOf(identity string) string {
	_, addr, ok := strings.Cut(identity, "@")
	if !ok || CheckAddr(addr) != nil {
		return ""
	}
	return addr
}

// CheckAddr says what is wrong with the base URL of a replica.
func CheckAddr(addr string) error {
	u, err := url.Parse(addr)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return errors.New("it is not a URL such as http://10.1.2.3:9780")
	case u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "" || strings.HasSuffix(addr, "?") || strings.HasSuffix(addr, "#"):
		return errors.New("it has more than a scheme, a host and a port")
	}
	return nil
}

// Run takes part in the election under an Identity until the context ends, and returns nil after having
// given the lease back. Without an API to ask it keeps trying. It is called once.
func (l *Leader) Run(ctx context.Context, identity string) error {
	l.mu.Lock()
	l.identity = identity
	l.lapse = time.AfterFunc(l.cfg.LeaseDuration, l.expire)
	l.mu.Unlock()
	defer l.asker.close()
	defer l.lapse.Stop()
	defer l.resign("the end of this replica")

	quiet := klog.NewContext(ctx, logr.Discard()) // what there is to say is said here
	for ctx.Err() == nil {
		e, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock:            &lock{l.cfg.Lock(identity), l},
			LeaseDuration:   l.cfg.LeaseDuration,
			RenewDeadline:   l.cfg.RenewDeadline,
			RetryPeriod:     l.cfg.RetryPeriod,
			ReleaseOnCancel: true,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() {},
			},
		})
		if err != nil {
			return fmt.Errorf("leader election: %w", err)
		}
		e.Run(quiet)
		l.resign("the lease was not renewed")
		select {
		case <-ctx.Done():
		case <-time.After(l.cfg.RetryPeriod):
		}
	}
	return nil
}

// Leads says whether this replica watches the fleet now.
func (l *Leader) Leads() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leads()
}

func (l *Leader) leads() bool { return l.leading && time.Now().Before(l.until) }

// Owns is for collector.Config.Owns.
func (l *Leader) Owns(string, string) bool { return l.Leads() }

// LeaderState is what is known about the election.
type LeaderState struct {
	Identity string // of this replica; empty before Run
	Leading  bool
	Leader   string // identity of the lease's holder; empty when there is none, or none is known
	Addr     string // base URL of the leader; empty when it is not known
	Asked    bool   // the API has answered at least once
	Trouble  error  // why the lease could not be read or written, the last time it was tried
}

// State returns what is known now.
func (l *Leader) State() LeaderState {
	l.mu.Lock()
	defer l.mu.Unlock()
	return LeaderState{l.identity, l.leads(), l.holder, l.addr, l.seen, errors.Join(l.trouble[:]...)}
}

// Owner implements Router.
func (l *Leader) Owner(string, string) (addr string, self bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.leads() {
		return "", true
	}
	if l.holder == l.identity {
		return "", false // it was this replica
	}
	return l.addr, false
}

// Forward implements Router. The leader that was last known is asked even when the API cannot be
// reached: it knows whether it still leads.
func (l *Leader) Forward(ctx context.Context, account, queue, target string) (*Answer, error) {
	addr, _ := l.Owner(account, queue)
	return l.asker.about(ctx, addr, target)
}

// Others implements Router: the leader, unless this is it.
func (l *Leader) Others() []string {
	addr, self := l.Owner("", "")
	if self {
		return nil
	}
	return []string{addr}
}

// Whole implements Router: it is the leader, when that is another replica.
func (l *Leader) Whole() (addr string, ok bool) {
	addr, _ = l.Owner("", "")
	return addr, addr != ""
}

// Ask implements Router.
func (l *Leader) Ask(ctx context.Context, addr, target string) (*Answer, error) {
	return l.asker.about(ctx, addr, target)
}

// tell calls Changed when leading has changed.
func (l *Leader) tell(changed bool, leading bool, why string) {
	if !changed {
		return
	}
	l.cfg.Changed()
	if leading {
		l.log.Info("this replica leads: it watches the fleet")
	} else {
		l.log.Info("this replica leads no more: it watches nothing", "reason", why)
	}
}

// resign ends leading.
func (l *Leader) resign(why string) {
	l.mu.Lock()
	was := l.leading
	l.leading = false
	l.mu.Unlock()
	l.tell(was, false, why)
}

// expire ends leading when no renewal came in time.
func (l *Leader) expire() {
	l.mu.Lock()
	late := l.leading && !time.Now().Before(l.until)
	l.mu.Unlock()
	if late {
		l.resign("the lease could not be renewed in time")
	}
}

// saw takes in what the lease says.
func (l *Leader) saw(holder string) {
	l.mu.Lock()
	was, lost := l.holder, l.leading && holder != l.identity
	first := !l.seen
	l.holder, l.addr, l.seen = holder, addrOf(holder), true
	if lost {
		l.leading = false
	}
	l.mu.Unlock()
	l.tell(lost, false, "another replica holds the lease")
	switch {
	case holder == was && !first:
	case holder == "":
		l.log.Info("nobody leads")
	default:
		l.log.Info("a replica leads", "leader", holder)
	}
}

// renewed takes in that the lease was written at a time, as this replica's.
func (l *Leader) renewed(sent time.Time) {
	l.mu.Lock()
	began := !l.leads()
	l.leading, l.until = true, sent.Add(l.cfg.RenewDeadline)
	l.lapse.Reset(time.Until(l.until))
	l.mu.Unlock()
	l.tell(began, true, "")
}

// What is done with the lease. A replica may be let do the one and not the other.
const (
	reading = iota
	writing
	deeds
)

// reached notes whether the lease could be read or written, and logs when that changes.
func (l *Leader) reached(deed int, err error) {
	l.mu.Lock()
	was := l.trouble[deed]
	l.trouble[deed] = err
	l.mu.Unlock()
	what := "the lease cannot be read; it is tried again"
	mended := "the lease can be read again"
	if deed == writing {
		what, mended = "the lease cannot be written; it is tried again", "the lease can be written again"
	}
	switch {
	case err != nil && was == nil:
		l.log.Warn(what, "error", err)
	case err == nil && was != nil:
		l.log.Info(mended)
	}
}

// lock tells a Leader what passes between the election and the lease.
type lock struct {
	resourcelock.Interface

	leader *Leader
}

// bounded keeps a call from taking the time that a second one needs.
func (k *lock) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, k.leader.cfg.RenewDeadline/3)
}

// Get implements resourcelock.Interface.
func (k *lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	limited, cancel := k.bounded(ctx)
	defer cancel()
	record, raw, err := k.Interface.Get(limited)
	switch {
	case err == nil:
		k.leader.reached(reading, nil)
		if h := record.HolderIdentity; h != "" && h != k.Identity() {
			k.leader.reached(writing, nil) // there is nothing to write now
		}
		k.leader.saw(record.HolderIdentity)
	case apierrors.IsNotFound(err):
		k.leader.reached(reading, nil)
		k.leader.saw("")
	case ctx.Err() == nil:
		k.leader.reached(reading, fmt.Errorf("read lease %s: %w", k.Describe(), err))
	}
	return record, raw, err
}

// Create implements resourcelock.Interface.
func (k *lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return k.write(ctx, record, k.Interface.Create)
}

// Update implements resourcelock.Interface.
func (k *lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return k.write(ctx, record, k.Interface.Update)
}

func (k *lock) write(ctx context.Context, record resourcelock.LeaderElectionRecord, write func(context.Context, resourcelock.LeaderElectionRecord) error) error {
	mine := record.HolderIdentity == k.Identity()
	if !mine {
		k.leader.resign("the lease is given back") // before anybody else can have it
	}
	limited, cancel := k.bounded(ctx)
	defer cancel()
	sent := time.Now()
	err := write(limited, record)
	switch {
	case err == nil:
		k.leader.reached(reading, nil)
		k.leader.reached(writing, nil)
		k.leader.saw(record.HolderIdentity)
		if mine && ctx.Err() == nil {
			k.leader.renewed(sent)
		}
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err): // another replica was quicker: the next look tells who
		k.leader.reached(writing, nil)
	case ctx.Err() == nil:
		k.leader.reached(writing, fmt.Errorf("write lease %s: %w", k.Describe(), err))
	}
	return err
}
