package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
)

// Abandon makes the message visible again after the delay (0 to 7 days, whole seconds).
// Errors: ErrSettled, ErrLeaseLost, ErrNotLeased, or what the service answered.
func (m *Message) Abandon(ctx context.Context, delay time.Duration) error {
	if err := checkVisibility("abandon delay", delay, 0); err != nil {
		return err
	}
	return m.update(ctx, "", delay, Abandoned)
}

// Renew extends the lease to the visibility timeout from now (1 s to 7 days, whole seconds).
// It sends the text along unchanged, because the service would blank it otherwise.
// An update whose response was lost may have changed the receipt: what follows can then be ErrLeaseLost.
// Errors: as for Abandon.
func (m *Message) Renew(ctx context.Context, visibility time.Duration) error {
	if err := checkVisibility("visibility timeout", visibility, MinVisibility); err != nil {
		return err
	}
	return m.update(ctx, "", visibility, Unsettled)
}

// AmbiguousDelete says whether Complete met a lost response and then found the message gone.
func (m *Message) AmbiguousDelete() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.unsure
}

// begin takes the turn: one settling or renewing call at a time, each with the newest receipt. It
// waits for it no longer than the context lasts.
func (m *Message) begin(ctx context.Context) (receipt string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.busy {
		if m.free == nil {
			m.free = make(chan struct{})
		}
		free := m.free
		m.mu.Unlock()
		select {
		case <-free:
		case <-ctx.Done():
		}
		m.mu.Lock()
		if m.busy && ctx.Err() != nil {
			return "", fmt.Errorf("wait for another call on the message: %w", ctx.Err())
		}
	}
	switch {
	case !m.leased:
		return "", ErrNotLeased
	case m.settled == LeaseLost:
		return "", ErrLeaseLost
	case m.settled != Unsettled:
		return "", ErrSettled
	}
	m.busy = true
	return m.receipt, nil
}

func (m *Message) end(settled Settlement, change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if settled != Unsettled {
		m.settled = settled
	}
	if change != nil {
		change()
	}
	m.busy = false
	if m.free != nil {
		close(m.free)
		m.free = nil
	}
}

// doubted says what an earlier delete, whose outcome is unknown, would have made of the message.
func (m *Message) doubted() Settlement {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.doubt
}

func (m *Message) delete(ctx context.Context, how Settlement) error {
	if m.q == nil || m.q.cfg.Tracer == nil {
		return m.changed(how, m.remove(ctx, how))
	}
	kind := CallComplete
	if how == DeadLettered {
		kind = CallDeadLetter
	}
	return m.changed(how, m.q.traced(ctx, Call{Kind: kind, Message: m}, func(ctx context.Context, _ *Call) error { return m.remove(ctx, how) }))
}

func (m *Message) update(ctx context.Context, text string, visibility time.Duration, how Settlement) error {
	if m.q == nil || m.q.cfg.Tracer == nil {
		return m.changed(how, m.move(ctx, text, visibility, how))
	}
	kind := CallRenew
	if how == Abandoned {
		kind = CallAbandon
	}
	return m.changed(how, m.q.traced(ctx, Call{Kind: kind, Message: m}, func(ctx context.Context, _ *Call) error { return m.move(ctx, text, visibility, how) }))
}

// changed tells who watches the message what became of it.
func (m *Message) changed(how Settlement, err error) error {
	if err != nil {
		return err
	}
	if m.absences > 0 && (how == Completed || how == DeadLettered) {
		m.q.absent.forget(m.ID)
	}
	m.mu.Lock()
	watch := m.watch
	m.mu.Unlock()
	if watch != nil {
		watch(how)
	}
	return nil
}

func (m *Message) remove(ctx context.Context, how Settlement) error {
	receipt, err := m.begin(ctx)
	if err != nil {
		return err
	}
	ctx, trace, cancel := m.q.acct.idempotent(ctx)
	defer cancel()
	_, err = m.q.client.DeleteMessage(ctx, m.ID, receipt, nil)
	err = m.q.wrap(OpDelete, err)
	switch {
	case err == nil:
		m.end(how, nil)
		if how == Completed && m.away() && !m.keepsBody() {
			m.q.unstore(ctx, m.env, "body of a completed message stays in its store")
		}
	case (trace.ambiguous || m.doubted() != Unsettled) && hasCode(err, "MessageNotFound"):
		// An earlier try, whose response was lost, may have deleted it. Nobody can tell; if someone
		// else did, the message is done as well. Its body stays in the store, if it is there: whoever
		// that was may have copied the message to the poison queue.
		m.end(how, func() { m.unsure = true })
		return nil
	case errors.Is(err, ErrLeaseLost):
		m.end(LeaseLost, nil)
	case trace.ambiguous:
		m.end(Unsettled, func() { m.doubt = how })
	default:
		m.end(Unsettled, nil)
	}
	return err
}

// move changes when the message becomes visible, and writes the text; "" is what it has.
func (m *Message) move(ctx context.Context, text string, visibility time.Duration, how Settlement) error {
	receipt, err := m.begin(ctx)
	if err != nil {
		return err
	}
	if text == "" {
		text = m.wireText()
	}
	start := time.Now()
	retry := m.q.acct.unambiguous
	if how == Abandoned {
		retry = m.q.acct.idempotent // nobody uses the receipt afterwards
	}
	ctx, trace, cancel := retry(ctx)
	defer cancel()
	r, err := m.q.client.UpdateMessage(ctx, m.ID, receipt, text, &azqueue.UpdateMessageOptions{VisibilityTimeout: seconds(visibility)})
	err = m.q.wrap(OpUpdate, err)
	switch {
	case err == nil && val(r.PopReceipt) == "" && how == Unsettled:
		err = m.q.wrap(OpUpdate, errNoReceipt)
		m.end(Unsettled, nil)
	case err == nil:
		m.end(how, func() { m.receipt, m.until, m.text = val(r.PopReceipt), start.Add(visibility), text })
	case m.doubted() != Unsettled && hasCode(err, "MessageNotFound"):
		m.end(m.doubted(), func() { m.unsure = true })
		return ErrSettled
	case how == Abandoned && trace.ambiguous && errors.Is(err, ErrLeaseLost):
		m.end(how, nil)
		return nil
	case errors.Is(err, ErrLeaseLost):
		m.end(LeaseLost, nil)
	default:
		m.end(Unsettled, nil)
	}
	return err
}
