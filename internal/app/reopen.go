package app

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/qwatch/qwatch/internal/config"
	"github.com/qwatch/qwatch/queue"
)

// reopenFleet is OpenFleet, but takes what stays from the fleet before: accounts that are signed in to as
// before, and their queues whose essence is the same. Nothing of that fleet is changed or closed.
func reopenFleet(cfg *config.Config, o FleetOptions, before *Fleet) (*Fleet, error) {
	r := reopener{
		FleetOptions: o, before: before, accounts: map[string]int{}, queues: map[string]FleetQueue{},
		fleet: &Fleet{config: cfg, keys: map[string]keySum{}},
	}
	if before.config != nil {
		for i, a := range before.config.Accounts {
			r.accounts[a.Name] = i
		}
	}
	for _, q := range before.Queues {
		r.queues[q.String()] = q
	}
	var errs []error
	for i, a := range cfg.Accounts {
		acct, err := r.account(a)
		if err != nil {
			errs = append(errs, placed(cfg, fmt.Sprintf("accounts[%d]", i), err)...)
			for j, qc := range a.Queues { // what can be told without the account
				if _, err := keyring(qc.Encryption); err != nil {
					errs = append(errs, placed(cfg, fmt.Sprintf("accounts[%d].queues[%d]", i, j), err)...)
				}
			}
			continue
		}
		r.fleet.accounts = append(r.fleet.accounts, acct)
		for j, qc := range a.Queues {
			q, err := r.queue(acct, qc)
			if err != nil {
				errs = append(errs, placed(cfg, fmt.Sprintf("accounts[%d].queues[%d]", i, j), err)...)
				continue
			}
			r.fleet.Queues = append(r.fleet.Queues, q)
		}
	}
	if len(errs) > 0 {
		r.fleet.closeBut(before)
		return nil, &ConfigError{errors.Join(errs...)}
	}
	return r.fleet, nil
}

// reopener opens a fleet in place of another one.
type reopener struct {
	FleetOptions
	before, fleet *Fleet
	accounts      map[string]int // places in the fleet before
	queues        map[string]FleetQueue
}

// account returns the account that is signed in to in that way, or signs in.
func (r *reopener) account(a config.Account) (*queue.Account, error) {
	if i, ok := r.accounts[a.Name]; ok && reflect.DeepEqual(signIn(r.before.config.Accounts[i]), signIn(a)) {
		return r.before.accounts[i], nil
	}
	return queue.NewAccount(accountConfig(a, r.FleetOptions))
}

// queue returns the queue that was opened with the same essence, or opens it.
func (r *reopener) queue(acct *queue.Account, qc config.Queue) (FleetQueue, error) {
	q := FleetQueue{Config: qc}
	sum, known := sumKeys(qc.Encryption)
	r.fleet.keys[q.String()] = sum
	old, ok := r.queues[q.String()]
	if ok && known && old.Account() == acct && sum == r.before.keys[q.String()] && reflect.DeepEqual(essence(old.Config), essence(qc)) {
		q.Queue = old.Queue
		return q, nil
	}
	var err error
	q.Queue, err = openQueue(acct, qc, r.FleetOptions)
	return q, err
}

// signIn is what of an account's settings makes its client what it is.
func signIn(a config.Account) config.Account {
	a.Pos, a.Queues, a.Discovery = config.Pos{}, nil, nil
	return a
}

// essence is what of a queue's settings makes the queue and its consumer what they are: while that stays, both do.
// What is taken out here is about watching alone, or read anew where it is used.
func essence(q config.Queue) config.Queue {
	q.Pos, q.FromDefaults, q.SharedPoison = config.Pos{}, config.Inherited{}, false
	q.Team, q.Tier, q.MonitorOnly, q.CountsOnly = "", 0, false, false
	if q.Objective != nil {
		q.Objective = &config.Objective{TimeInQueue: q.Objective.TimeInQueue}
	}
	return q
}

// keySum tells whether the keys in files are the same as before.
type keySum [sha256.Size]byte

// sumKeys returns the sum of a queue's keys; false when they cannot be read, which opening the queue tells.
func sumKeys(e *config.Encryption) (sum keySum, ok bool) {
	if e == nil {
		return sum, true
	}
	h := sha256.New()
	for _, k := range slices.Concat([]config.Key{e.Key}, e.OlderKeys) {
		key, err := decodeKey(k.KeyFile)
		if err != nil {
			return sum, false
		}
		fmt.Fprintf(h, "%d:%s", len(key), key)
	}
	h.Sum(sum[:0])
	return sum, true
}

// closeBut releases the connections of the accounts that the other fleet has not.
func (f *Fleet) closeBut(other *Fleet) {
	for _, a := range f.accounts {
		if other == nil || !slices.Contains(other.accounts, a) {
			a.Close()
		}
	}
}
