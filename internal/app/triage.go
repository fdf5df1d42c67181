package app

import (
	"fmt"
	"slices"

	"github.com/qwatch/qwatch/internal/triage"
	"github.com/qwatch/qwatch/internal/web"
	"github.com/qwatch/qwatch/poison"
	"github.com/qwatch/qwatch/queue"
)

// Triage returns the queue called "account/queue", as Find does, for those who look after its messages
// and its poison. The error lists the names there are.
func (f *Fleet) Triage(name string) (triage.Queue, error) {
	q, err := f.Find(name)
	if err != nil {
		return triage.Queue{}, err
	}
	t := triage.Queue{Queue: q.Queue}
	switch of := f.PoisonOf(q); {
	case q.Poison() != nil:
		t.Shared = len(f.PoisonOf(FleetQueue{Queue: q.Poison(), Config: q.Config})) > 1
	case len(of) > 0:
		t.NoPoison = fmt.Errorf("%s is the poison queue of %s; name that", q, of[0])
	default:
		t.NoPoison = fmt.Errorf("%s has no poison queue: the configuration says noPoison", q)
	}
	return t, nil
}

// triaging is what operators may do with messages through the API.
func (s *service) triaging() *web.Storage {
	return &web.Storage{
		Queue: func(account, queue string) (triage.Queue, error) { return s.state().fleet.Triage(fullName(account, queue)) },
		Replayed: func(account, queue string, _ poison.Replayed) {
			s.consumers.Replayed(account, queue)
		},
	}
}

// Accounts returns the accounts, in the order of the file.
func (f *Fleet) Accounts() []*queue.Account { return slices.Clone(f.accounts) }
