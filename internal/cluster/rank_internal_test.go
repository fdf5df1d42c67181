package cluster

import "strings"

import "testing"

// Replicas of different versions run side by side: who owns what must never change.
func TestRanksStay(t *testing.T) {
	t.Parallel()
	var got strings.Builder
	for _, q := range []string{"orders", "orders-poison", "invoices", "a", "zzz", "billing-2026", "x-poison", "mail"} {
		i, ok := shardOf("acct", q, []int{0, 1, 2, 5})
		if !ok {
			t.Fatal("nobody owns it")
		}
		got.WriteString(string(rune('0' + i)))
	}
	if want := "55020052"; got.String() != want {
		t.Errorf("the owners are %s, and were %s", got.String(), want)
	}
	if _, ok := shardOf("acct", "orders", nil); ok {
		t.Error("one of nobody owns it")
	}
}
