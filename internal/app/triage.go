package app

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/qwatch/qwatch/internal/triage"
	"github.com/qwatch/qwatch/internal/web"
	"github.com/qwatch/qwatch/poison"
	"github.com/qwatch/qwatch/processor/failures"
	"github.com/qwatch/qwatch/queue"
)

// Triage returns the queue called "account/queue", as Find does, for those who look after its messages
// and its poison. The error lists the names there are.
func (f *Fleet) Triage(name string) (triage.Queue, error) {
	q, err := f.Find(name)
	if err != nil {
		return triage.Queue{}, err
	}
	t := triage.Queue{Queue: q.Queue, History: historyOf(q)}
	if q.Poison() != nil {
		return t, nil
	}
	if of := f.PoisonOf(q); len(of) > 0 {
		t.NoPoison = fmt.Errorf("%s is the poison queue of %s; name that", q, of[0])
	} else {
		t.NoPoison = fmt.Errorf("%s has no poison queue: the configuration says noPoison", q)
	}
	return t, nil
}

// triaging is what operators may do with messages through the API.
func (s *service) triaging() *web.Storage {
	return &web.Storage{
		Work: &s.work,
		Queue: func(account, queue string) (triage.Queue, error) {
			return s.state().fleet.Triage(fullName(account, queue))
		},
		Accounts: func(name string) ([]*queue.Account, error) { return s.state().fleet.AccountsNamed(name) },
		Replayed: func(ctx context.Context, account, queue string, m poison.Replayed) {
			s.consumers.Replayed(account, queue)
			s.state().fleet.Replayed(ctx, fullName(account, queue), m, s.log)
		},
	}
}

// Accounts returns the accounts, in the order of the file.
func (f *Fleet) Accounts() []*queue.Account { return slices.Clone(f.accounts) }

// AccountsNamed returns the account of that name, or all of them for "". The error lists the names there are.
func (f *Fleet) AccountsNamed(name string) ([]*queue.Account, error) {
	if name == "" {
		return f.Accounts(), nil
	}
	a, err := f.Account(name)
	if err != nil {
		return nil, err
	}
	return []*queue.Account{a}, nil
}

// linkTimeout bounds the note of a replay, which the next one waits for.
const linkTimeout = 5 * time.Second

// Replayed notes in the queue's failure records, where it has any, which message a replayed one was before. What
// cannot be written is logged: it keeps nobody from going on.
func (f *Fleet) Replayed(ctx context.Context, name string, m poison.Replayed, log *slog.Logger) {
	q, err := f.Find(name)
	if err != nil || q.Config.Consumer == nil || q.Config.Consumer.FailureRecords == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), linkTimeout)
	defer cancel()
	store, err := failureStore(q, q.Config.Consumer.FailureRecords)
	if linker, ok := store.(failures.Linker); ok && err == nil {
		err = linker.Replayed(ctx, q.Name(), m.Entry.MessageID, m.MessageID, q.Account().Now())
	}
	if err != nil {
		log.WarnContext(ctx, "replay not noted in the failure records", "account", q.Config.Account, "queue", q.Name(), "message_id", m.Entry.MessageID, "error", err)
	}
}
