package dedup_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/qwatch/qwatch/processor/dedup"
	"github.com/qwatch/qwatch/processor/internal/table/tabletest"
)

// effect is an action that adds an entity.
func effect(partition, row string) aztables.TransactionAction {
	b, _ := json.Marshal(map[string]string{"PartitionKey": partition, "RowKey": row})
	return aztables.TransactionAction{ActionType: aztables.TransactionTypeAdd, Entity: b}
}

var customer = dedup.Key{Scope: "acct/orders", Value: secret, Partition: "customer-42"}

func rows(srv *tabletest.Service) string {
	var all []string
	for _, e := range srv.Entities("dedup") {
		row := fmt.Sprint(e["RowKey"])
		if strings.HasPrefix(row, "qwatch-dedup!") {
			row = fmt.Sprint(e["State"])
		}
		all = append(all, fmt.Sprint(e["PartitionKey"], "/", row))
	}
	return strings.Join(all, " ")
}

func TestBatchIsCommittedWithTheKey(t *testing.T) {
	t.Parallel()
	tables(t, dedup.TablesOptions{}, func(t *testing.T, srv *tabletest.Service, s *dedup.TablesStore) {
		do := func(ctx context.Context) ([]byte, error) {
			b := dedup.Batch(ctx)
			if err := b.Add(effect(b.Partition(), "one"), effect("customer-42", "two")); err != nil {
				return nil, err
			}
			if got := rows(srv); got != "customer-42/claimed" {
				t.Errorf("before the commit: %s", got)
			}
			return []byte("receipt"), nil
		}
		if _, err := s.Once(t.Context(), customer, do); err != nil {
			t.Fatal(err)
		}
		if got := rows(srv); got != "customer-42/one customer-42/done customer-42/two" {
			t.Errorf("committed: %s", got)
		}
		if o, err := s.Once(t.Context(), customer, do); err != nil || !o.Hit || string(o.Result) != "receipt" {
			t.Errorf("again: %+v, %v", o, err)
		}
	})
}

func TestRefusedActionLeavesNothing(t *testing.T) {
	t.Parallel()
	tables(t, dedup.TablesOptions{}, func(t *testing.T, srv *tabletest.Service, s *dedup.TablesStore) {
		old := azcore.ETag(`W/"old"`)
		add(t, srv, "customer-42", "there")
		add(t, srv, "customer-42", "changed")
		for name, tt := range map[string]struct {
			action aztables.TransactionAction
			want   dedup.BatchError
		}{
			"an entity that exists": {effect("customer-42", "there"), dedup.BatchError{Index: 1, Status: http.StatusConflict, Code: "EntityAlreadyExists"}},
			"an entity that changed": {
				aztables.TransactionAction{ActionType: aztables.TransactionTypeUpdateReplace, IfMatch: &old, Entity: effect("customer-42", "changed").Entity},
				dedup.BatchError{Index: 1, Status: http.StatusPreconditionFailed, Code: "UpdateConditionNotSatisfied"},
			},
		} {
			_, err := s.Once(t.Context(), customer, func(ctx context.Context) ([]byte, error) {
				return nil, dedup.Batch(ctx).Add(effect("customer-42", "new"), tt.action)
			})
			if got, ok := errors.AsType[*dedup.BatchError](err); !ok || *got != tt.want {
				t.Errorf("%s: %v", name, err)
			}
			if got := rows(srv); got != "customer-42/changed customer-42/there" {
				t.Errorf("%s: %s", name, got)
			}
		}
	})
}

func TestBatchOfALostClaimIsNotApplied(t *testing.T) {
	t.Parallel()
	tables(t, dedup.TablesOptions{Lease: 10 * time.Second}, func(t *testing.T, srv *tabletest.Service, s *dedup.TablesStore) {
		srv.Fail(tabletest.Fault{Operation: tabletest.Merge, Status: http.StatusForbidden, Code: "AuthenticationFailed"})
		_, err := s.Once(t.Context(), customer, func(ctx context.Context) ([]byte, error) {
			<-ctx.Done()
			time.Sleep(5 * time.Second)
			if _, err := s.Once(context.WithoutCancel(ctx), customer, func(ctx context.Context) ([]byte, error) {
				return nil, dedup.Batch(ctx).Add(effect("customer-42", "second"))
			}); err != nil {
				t.Errorf("the second worker: %v", err)
			}
			return nil, dedup.Batch(ctx).Add(effect("customer-42", "first"))
		})
		if !errors.Is(err, dedup.ErrClaimLost) {
			t.Errorf("the first worker: %v", err)
		}
		if got := rows(srv); got != "customer-42/done customer-42/second" {
			t.Errorf("applied: %s", got)
		}
	})
}

func TestUnfitActionsAreRefusedBeforeTheCommit(t *testing.T) {
	t.Parallel()
	many := make([]aztables.TransactionAction, 100)
	for i := range many {
		many[i] = effect("customer-42", fmt.Sprint(i))
	}
	large := func(row string) aztables.TransactionAction {
		a := effect("customer-42", row)
		a.Entity = append(a.Entity, strings.Repeat(" ", 1<<20)...)
		return a
	}
	for name, tt := range map[string]struct {
		actions []aztables.TransactionAction
		want    string
	}{
		"not JSON":          {[]aztables.TransactionAction{{Entity: []byte("x")}}, "action 0: read its entity"},
		"no keys":           {[]aztables.TransactionAction{{Entity: []byte("{}")}}, "action 0: its entity has no PartitionKey or no RowKey"},
		"another partition": {[]aztables.TransactionAction{effect("customer-42", "a"), effect("customer-43", "b")}, "action 1: its entity is in another partition"},
		"the store's own":   {[]aztables.TransactionAction{effect("customer-42", "qwatch-dedup!x")}, "the store's own"},
		"one entity twice":  {[]aztables.TransactionAction{effect("customer-42", "a"), effect("customer-42", "a")}, "action 1: its entity has an action already"},
		"too many":          {many, "action 99: a transaction takes 99 actions"},
		"too large":         {[]aztables.TransactionAction{large("a"), large("b"), large("c")}, "action 2: with it the transaction passes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tables(t, dedup.TablesOptions{}, func(t *testing.T, srv *tabletest.Service, s *dedup.TablesStore) {
				_, err := s.Once(t.Context(), customer, func(ctx context.Context) ([]byte, error) {
					b := dedup.Batch(ctx)
					if err := b.Add(tt.actions...); err == nil || !strings.Contains(err.Error(), tt.want) {
						t.Errorf("error %v", err)
					}
					return nil, b.Add(effect("customer-42", "a")) // none of those before was added
				})
				if err != nil {
					t.Error(err)
				}
				if got := rows(srv); got != "customer-42/a customer-42/done" {
					t.Errorf("committed: %s", got)
				}
			})
		})
	}
}

func TestPartitionMustBeOne(t *testing.T) {
	t.Parallel()
	for name, partition := range map[string]string{
		"a slash": "a/b", "a quote": "o'brien", "a control character": "a\x01", "not UTF-8": "\xff", "too long": strings.Repeat("p", 513),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tables(t, dedup.TablesOptions{}, func(t *testing.T, srv *tabletest.Service, s *dedup.TablesStore) {
				if _, err := s.Once(t.Context(), dedup.Key{Value: "k", Partition: partition}, done); err == nil || !strings.Contains(err.Error(), "partition") {
					t.Errorf("error %v", err)
				}
				if n := srv.Count(tabletest.Insert); n != 0 {
					t.Errorf("%d requests", n)
				}
			})
		})
	}
}
