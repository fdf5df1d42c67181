package doctor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/qwatch/qwatch/collector"
	"github.com/qwatch/qwatch/internal/app"
	"github.com/qwatch/qwatch/queue"
)

// expiresSoon is how long before its end a SAS is worth a warning.
const expiresSoon = 7 * 24 * time.Hour

// signIn makes the first request. A refusal of that request alone, or a queue that is missing, is not one of the sign-in.
func (e *examiner) signIn(ctx context.Context) bool {
	with := map[string]string{"key": "an account key", "sas": "a SAS", "identity": "an identity"}[e.acct.SignsWith()]
	f := Finding{Check: CheckSignIn, Status: OK, Detail: "storage accepts " + with}
	op, name, err := queue.OpList, "", error(nil)
	switch {
	case len(e.queues) > 0:
		op, name = queue.OpProperties, e.queues[0].Name()
		err = e.within(ctx, func(ctx context.Context) error { return e.queues[0].Probe(ctx, op) })
	case e.cfg.Discovery != nil:
		err = e.list(ctx)
	default:
		f.Status, f.Detail = Skipped, "the account has neither queues nor discovery: nothing is asked of it"
		return e.add(f)
	}
	if err == nil {
		return e.add(f)
	}
	d := e.diagnose(op, name, err)
	if !d.account {
		return e.add(f)
	}
	f.Status, f.Reason, f.Detail, f.Cure = Failed, d.reason, err.Error(), d.cure
	return e.add(f)
}

// clock compares the clocks, once storage has answered anything.
func (e *examiner) clock() {
	skew, known := e.acct.Skew()
	if !known {
		return
	}
	off := max(skew, -skew).Round(time.Second)
	way := "behind"
	if skew < 0 {
		way = "ahead of"
	}
	f := Finding{Check: CheckClock, Status: OK, Detail: "the clocks agree"}
	if off > 0 {
		f.Detail = fmt.Sprintf("this machine's clock is %v %s storage's", off, way)
	}
	if off > skewWorth {
		f.Status, f.Reason = Warning, ReasonClock
		f.Cure = "set this machine's clock (chrony, systemd-timesyncd): past 15 minutes the service refuses signatures, and a SAS begins and ends at the wrong time"
	}
	if off >= skewRefused {
		f.Status = Failed
	}
	e.add(f)
}

// expiry looks at how long a SAS lasts.
func (e *examiner) expiry() {
	expires, dated := e.acct.CredentialExpiry()
	if !dated {
		return
	}
	left := expires.Sub(e.acct.Now())
	f := Finding{Check: CheckExpiry, Status: OK, Detail: "the SAS lasts until " + expires.Format(time.RFC3339)}
	switch {
	case left <= 0:
		f.Status, f.Reason, f.Detail = Failed, ReasonExpired, "the SAS expired at "+expires.Format(time.RFC3339)
		f.Cure = "make a new SAS; from a file (sasFile) it is taken up without a restart"
	case left < expiresSoon:
		f.Status, f.Reason = Warning, ReasonExpires
		f.Cure = "make a new SAS in time; from a file (sasFile) it is taken up without a restart"
	}
	e.add(f)
}

func (e *examiner) list(ctx context.Context) error {
	return e.within(ctx, func(ctx context.Context) error {
		for _, err := range e.acct.Queues(ctx, queue.ListOptions{Metadata: true}) {
			return err // one page tells
		}
		return nil
	})
}

func (e *examiner) discovery(ctx context.Context) {
	if e.cfg.Discovery == nil {
		return
	}
	f := Finding{Check: CheckDiscovery, Operation: string(queue.OpList), Status: OK, Detail: "the account's queues may be listed"}
	found, err := e.firstFound(ctx)
	switch {
	case err != nil:
		f = e.failed(f, queue.OpList, "", err)
	case found == "":
		f.Detail += "; none of them is to be found besides those of the file"
	}
	if !e.add(f) || found == "" {
		return
	}
	cfg := e.all.QueueFor(e.cfg.Name, found)
	q, err := e.acct.Queue(found, queue.Config{NoPoison: true, MaxBodyBytes: 1})
	if err != nil {
		return // the account's URL names another queue
	}
	for _, op := range needs(cfg).main {
		f := Finding{Queue: found, Check: CheckDiscovery, Operation: string(op), Status: OK, Detail: permits(op)}
		err := e.within(ctx, func(ctx context.Context) error { return q.Probe(ctx, op) })
		if errors.Is(err, queue.ErrQueueNotFound) {
			return // it has gone meanwhile, and tells nothing of the others
		}
		if err != nil {
			f = e.failed(f, op, found, err)
		}
		e.add(f)
	}
}

// firstFound returns the first queue that discovery would find besides those of the file; "" when there is none.
// Those that are found are read with the account's sign-in, which may list without being allowed to read.
func (e *examiner) firstFound(ctx context.Context) (name string, err error) {
	d := collector.Discovery{Include: e.cfg.Discovery.Include, Exclude: e.cfg.Discovery.Exclude}
	configured := map[string]bool{}
	for _, q := range e.queues {
		configured[q.Name()] = true
		if p := q.Poison(); p != nil {
			configured[p.Name()] = true
		}
	}
	err = e.within(ctx, func(ctx context.Context) error {
		for info, err := range e.acct.Queues(ctx, queue.ListOptions{Metadata: true}) {
			if err != nil {
				return err
			}
			if !configured[info.Name] && d.Wants(info.Name) {
				name = info.Name
				return nil
			}
		}
		return nil
	})
	return name, err
}

// failed is a finding about an operation that failed.
func (e *examiner) failed(f Finding, op queue.Operation, name string, err error) Finding {
	d := e.diagnose(op, name, err)
	f.Status, f.Reason, f.Detail, f.Cure = Failed, d.reason, err.Error(), d.cure
	return f
}

// queue asks for every permission that a queue and its poison queue need.
func (e *examiner) queue(ctx context.Context, q app.FleetQueue) Report {
	var r Report
	try := func(check string, q *queue.Queue, op queue.Operation) error {
		f := Finding{Account: e.cfg.Name, Queue: q.Name(), Check: check, Operation: string(op), Status: OK, Detail: permits(op)}
		err := e.within(ctx, func(ctx context.Context) error { return q.Probe(ctx, op) })
		switch {
		case errors.Is(err, queue.ErrProbeLeft):
			f.Status, f.Reason, f.Detail = Warning, ReasonProbeLeft, "allowed to "+string(op)+", but not to delete: "+err.Error()
			f.Cure = "nothing has to be done: nobody sees the message for 59 s, and it expires within a minute"
			err = nil
		case err != nil:
			f = e.failed(f, op, q.Name(), err)
			if untold(op, err) {
				f.Status, f.Detail = Skipped, "cannot be told without doing it: "+err.Error()
			}
		}
		r = append(r, f)
		return err
	}
	note := func(check string, q *queue.Queue, op queue.Operation, s Status, detail string) {
		r = append(r, Finding{Account: e.cfg.Name, Queue: q.Name(), Check: check, Operation: string(op), Status: s, Detail: detail})
	}

	n := needs(q.Config)
	exists := true
	for _, op := range n.main {
		err := try(CheckQueue, q.Queue, op)
		if !errors.Is(err, queue.ErrQueueNotFound) {
			continue
		}
		exists = false
		if q.Config.CreateIfMissing && q.Config.Consumer != nil {
			r = r[:len(r)-1]
			note(CheckQueue, q.Queue, op, OK, "the queue does not exist yet; it is created when first needed")
			e.mayCreate(&r, CheckQueue, q.Queue)
		}
		break // what else is asked of it has the same answer
	}
	p := q.Poison()
	if p == nil {
		return append(r, e.beside(ctx, q)...)
	}
	for _, op := range n.poison {
		if op == queue.OpCreate {
			continue // below
		}
		err := try(CheckPoison, p, op)
		if !errors.Is(err, queue.ErrQueueNotFound) {
			continue
		}
		if q.Config.Consumer == nil || q.Config.CreatePoisonIfMissing {
			r = r[:len(r)-1]
			note(CheckPoison, p, op, OK, "the poison queue does not exist yet: nothing was ever poisoned")
		}
		break
	}
	if q.Config.Consumer != nil && q.Config.CreatePoisonIfMissing {
		var via *queue.Queue
		if exists {
			via = q.Queue
		}
		e.mayCreatePoison(ctx, &r, p, via, try)
	}
	return append(r, e.beside(ctx, q)...)
}

// beside asks for what a queue has in the account's other services.
func (e *examiner) beside(ctx context.Context, q app.FleetQueue) Report {
	return append(e.bodies(ctx, q), e.tables(ctx, q)...)
}

// mayCreatePoison asks whether the poison queue may be created: by creating it again or, while it does not exist,
// by creating the main queue again, which the same permission on the account covers.
func (e *examiner) mayCreatePoison(ctx context.Context, r *Report, p, main *queue.Queue, try func(string, *queue.Queue, queue.Operation) error) {
	if !errors.Is(try(CheckPoison, p, queue.OpCreate), queue.ErrQueueNotFound) {
		return
	}
	*r = (*r)[:len(*r)-1]
	if main != nil {
		f := Finding{
			Account: e.cfg.Name, Queue: p.Name(), Check: CheckPoison, Operation: string(queue.OpCreate), Status: OK,
			Detail: "allowed to create it (tried on " + main.Name() + ")",
		}
		if err := e.within(ctx, func(ctx context.Context) error { return main.Probe(ctx, queue.OpCreate) }); err != nil {
			f = e.failed(f, queue.OpCreate, p.Name(), err)
		}
		*r = append(*r, f)
		return
	}
	e.mayCreate(r, CheckPoison, p)
}

// mayCreate is all that can be said without creating a queue: what a SAS itself tells.
func (e *examiner) mayCreate(r *Report, check string, q *queue.Queue) {
	f := Finding{
		Account: e.cfg.Name, Queue: q.Name(), Check: check, Operation: string(queue.OpCreate), Status: Skipped,
		Detail: "create: not tried, because that would create the queue",
	}
	if err := e.acct.Permits(queue.OpCreate); err != nil {
		f.Status, f.Reason, f.Detail = Failed, ReasonPermission, err.Error()
		f.Cure = "create the queue by hand, or make a SAS with what is missing, or sign in with an identity"
	}
	*r = append(*r, f)
}

// bodies asks the store of large messages whether it answers.
func (e *examiner) bodies(ctx context.Context, q app.FleetQueue) Report {
	store, ok := q.Queue.Config().BodyStore.(queue.BodyChecker)
	if !ok || q.Config.LargeMessages == nil {
		return nil
	}
	f := Finding{Account: e.cfg.Name, Queue: q.Name(), Check: CheckBodies, Status: OK, Detail: "the Blob service answers for large messages"}
	if err := e.within(ctx, store.Check); err != nil {
		f.Status, f.Reason, f.Detail = Failed, ReasonOther, err.Error()
		f.Cure = "check largeMessages.endpoint, the account's network rules for Blob storage, and that the sign-in covers it (Storage Blob Data Contributor)"
	}
	return Report{f}
}

// untold says whether the service refused a check for its form, before it came to permissions.
func untold(op queue.Operation, err error) bool {
	var storage *queue.StorageError
	return (op == queue.OpDelete || op == queue.OpUpdate) && errors.As(err, &storage) && storage.Status == http.StatusBadRequest
}

func permits(op queue.Operation) string {
	switch op {
	case queue.OpProperties:
		return "allowed to count"
	case queue.OpDelete:
		return "allowed to receive and delete"
	case queue.OpUpdate:
		return "allowed to renew and release"
	default:
		return "allowed to " + string(op)
	}
}
