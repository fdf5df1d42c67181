package queue_test

import (
	"testing"

	"github.com/qwatch/qwatch/queue"
)

// account is one whose configuration is good.
func account(t testing.TB, cfg queue.AccountConfig) *queue.Account {
	t.Helper()
	a, err := queue.NewAccount(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// created makes the queue "orders" of an account.
func created(t testing.TB, a *queue.Account, cfg queue.Config) *queue.Queue {
	t.Helper()
	q, err := a.Queue("orders", cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	return q
}
