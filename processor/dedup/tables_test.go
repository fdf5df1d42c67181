package dedup_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/processor/dedup"
	"github.com/qwatch/qwatch/processor/internal/table/tabletest"
)

// tables runs a test on a double of the table service, in fake time.
func tables(t *testing.T, opts dedup.TablesOptions, test func(t *testing.T, srv *tabletest.Service, s *dedup.TablesStore)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		srv := &tabletest.Service{}
		s, err := dedup.Tables(srv.Client("dedup"), opts)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Create(t.Context()); err != nil {
			t.Fatal(err)
		}
		test(t, srv, s)
	})
}

var key = dedup.Key{Scope: "acct/orders", Value: secret}

// done is work that leaves a result.
func done(context.Context) ([]byte, error) { return []byte("receipt"), nil }

// takes is work that needs a while, unless it is cancelled.
func takes(d time.Duration) func(context.Context) ([]byte, error) {
	return func(ctx context.Context) ([]byte, error) {
		select {
		case <-time.After(d):
			return nil, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// dies leaves a claim behind, as a worker does that is killed.
func dies(t *testing.T, srv *tabletest.Service, s *dedup.TablesStore) {
	t.Helper()
	srv.Fail(tabletest.Fault{Operation: tabletest.Delete})
	if _, err := s.Once(t.Context(), key, func(context.Context) ([]byte, error) { return nil, errBroken }); !errors.Is(err, errBroken) {
		t.Fatalf("first worker: %v", err)
	}
	srv.Heal()
	if n := len(srv.Entities("dedup")); n != 1 {
		t.Fatalf("%d claims left behind", n)
	}
}

// claimed returns how long the key is said to be in other hands.
func claimed(t *testing.T, s *dedup.TablesStore) time.Duration {
	t.Helper()
	_, err := s.Once(t.Context(), key, func(context.Context) ([]byte, error) {
		t.Error("the work was done while another worker had the key in hand")
		return nil, nil
	})
	c, ok := errors.AsType[*dedup.ClaimedError](err)
	if !ok {
		t.Fatalf("not claimed: %v", err)
	}
	return c.For
}

// state is what the only entity of the table says.
func state(t *testing.T, srv *tabletest.Service) string {
	t.Helper()
	all := srv.Entities("dedup")
	if len(all) != 1 {
		t.Fatalf("%d entities", len(all))
	}
	s, _ := all[0]["State"].(string)
	return s
}

func TestTablesRememberWhatIsDone(t *testing.T) {
	t.Parallel()
	tables(t, dedup.TablesOptions{}, func(t *testing.T, srv *tabletest.Service, s *dedup.TablesStore) {
		first, err := s.Once(t.Context(), key, done)
		if err != nil || first.Hit {
			t.Fatalf("first: %+v, %v", first, err)
		}
		second, err := s.Once(t.Context(), key, func(context.Context) ([]byte, error) {
			t.Error("the work was done twice")
			return nil, nil
		})
		if err != nil || !second.Hit || string(second.Result) != "receipt" {
			t.Errorf("second: %+v, %v", second, err)
		}
		e := srv.Entities("dedup")[0]
		if e["BusinessKey"] != secret || e["Scope"] != "acct/orders" || strings.Contains(fmt.Sprint(e["RowKey"], e["PartitionKey"]), secret) {
			t.Errorf("entity %v", e)
		}
		// 1 insert + 1 replace for the work; 1 insert + 1 read for the hit.
		if n := srv.Count(tabletest.Insert) + srv.Count(tabletest.Replace) + srv.Count(tabletest.Read); n != 4 {
			t.Errorf("%d requests", n)
		}
	})
}

func TestDeadWorkerBlocksItsKeyForItsLease(t *testing.T) {
	t.Parallel()
	for name, skew := range map[string]time.Duration{"clocks agree": 0, "local clock behind": 3 * time.Hour, "local clock ahead": -3 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				srv := &tabletest.Service{Skew: skew}
				s, err := dedup.Tables(srv.Client("dedup"), dedup.TablesOptions{Lease: 20 * time.Second})
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Create(t.Context()); err != nil {
					t.Fatal(err)
				}
				dies(t, srv, s)
				if left := claimed(t, s); left < 19*time.Second || left > 21*time.Second {
					t.Errorf("at first the claim has %v left", left)
				}
				time.Sleep(15 * time.Second)
				if left := claimed(t, s); left < 4*time.Second || left > 6*time.Second {
					t.Errorf("after 15s the claim has %v left", left)
				}
				time.Sleep(6 * time.Second)
				if o, err := s.Once(t.Context(), key, done); err != nil || o.Hit {
					t.Errorf("after the lease: %+v, %v", o, err)
				}
				if got := state(t, srv); got != "done" {
					t.Errorf("state %q", got)
				}
			})
		})
	}
}

func TestFailedWorkGivesTheKeyBackAtOnce(t *testing.T) {
	t.Parallel()
	for name, work := range map[string]func(context.Context) ([]byte, error){
		"an error": func(context.Context) ([]byte, error) { return nil, errBroken },
		"a panic":  func(context.Context) ([]byte, error) { panic("the widget exploded") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tables(t, dedup.TablesOptions{}, func(t *testing.T, srv *tabletest.Service, s *dedup.TablesStore) {
				func() {
					defer func() { _ = recover() }()
					if _, err := s.Once(t.Context(), key, work); err != errBroken {
						t.Errorf("error %v", err)
					}
				}()
				if n := len(srv.Entities("dedup")); n != 0 {
					t.Errorf("%d entities left", n)
				}
			})
		})
	}
}

func TestLostAnswersAreResolved(t *testing.T) {
	t.Parallel()
	for _, op := range []string{tabletest.Insert, tabletest.Replace, tabletest.Submit, tabletest.Delete} {
		for name, times := range map[string]int{"once": 1, "three times": 3} {
			if op == tabletest.Insert && times == 3 {
				continue // the call fails: nothing but the lease can tell
			}
			t.Run(op+" "+name, func(t *testing.T) {
				t.Parallel()
				tables(t, dedup.TablesOptions{}, func(t *testing.T, srv *tabletest.Service, s *dedup.TablesStore) {
					srv.Fail(tabletest.Fault{Operation: op, Commit: true, Times: times})
					work := 0
					do := func(ctx context.Context) ([]byte, error) {
						switch work++; op {
						case tabletest.Submit:
							return nil, dedup.Batch(ctx).Add(effect(dedup.Batch(ctx).Partition(), "effect"))
						case tabletest.Delete:
							return nil, errBroken
						}
						return nil, nil
					}
					_, err := s.Once(t.Context(), key, do)
					left := 1
					switch op {
					case tabletest.Submit:
						left = 2
					case tabletest.Delete:
						if left = 0; err == errBroken {
							err = nil
						}
					}
					if err != nil || work != 1 || len(srv.Entities("dedup")) != left {
						t.Errorf("work %d times, %v, entities %v", work, err, srv.Entities("dedup"))
					}
				})
			})
		}
	}
}

func TestTakingOverIsAnswerableToo(t *testing.T) {
	t.Parallel()
	tables(t, dedup.TablesOptions{}, func(t *testing.T, srv *tabletest.Service, s *dedup.TablesStore) {
		dies(t, srv, s)
		time.Sleep(2 * time.Minute)
		srv.Fail(tabletest.Fault{Operation: tabletest.Replace, Commit: true, Times: 1})
		if _, err := s.Once(t.Context(), key, done); err != nil {
			t.Error(err)
		}
	})
}

func TestOneOfManyDoesTheWork(t *testing.T) {
	t.Parallel()
	tables(t, dedup.TablesOptions{}, func(t *testing.T, srv *tabletest.Service, s *dedup.TablesStore) {
		dies(t, srv, s) // so that they race to take over as well
		time.Sleep(2 * time.Minute)
		var work, other counter
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				_, err := s.Once(t.Context(), key, func(ctx context.Context) ([]byte, error) {
					work.add()
					return takes(time.Second)(ctx)
				})
				if _, ok := errors.AsType[*dedup.ClaimedError](err); ok {
					other.add()
				} else if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		work.is(t, 1)
		other.is(t, 19)
	})
}

func TestUnreachableTableIsAnErrorWithoutKeyAndAddress(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		fault tabletest.Fault
		want  string
	}{
		"claim":  {tabletest.Fault{Operation: tabletest.Insert}, "claim a business key in the idempotency table: unexpected EOF"},
		"record": {tabletest.Fault{Operation: tabletest.Replace, Status: 503, Code: "ServerBusy"}, "record a business key as done in the idempotency table: 503 ServerBusy"},
		"refused": {
			tabletest.Fault{Operation: tabletest.Replace, Status: 403, Code: "AuthorizationPermissionMismatch"},
			"record a business key as done in the idempotency table: 403 AuthorizationPermissionMismatch",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tables(t, dedup.TablesOptions{}, func(t *testing.T, srv *tabletest.Service, s *dedup.TablesStore) {
				srv.Fail(tt.fault)
				if _, err := s.Once(t.Context(), key, done); err == nil || err.Error() != tt.want {
					t.Errorf("error %v, want %s", err, tt.want)
				}
			})
		})
	}
}

func TestPurgeRemovesWhatIsOld(t *testing.T) {
	t.Parallel()
	tables(t, dedup.TablesOptions{}, func(t *testing.T, srv *tabletest.Service, s *dedup.TablesStore) {
		srv.PageSize = 100
		once := func(partition string, n int) {
			for i := range n {
				k := dedup.Key{Scope: "s", Value: fmt.Sprint(partition, i), Partition: partition}
				if _, err := s.Once(t.Context(), k, done); err != nil {
					t.Fatal(err)
				}
			}
		}
		dies(t, srv, s)
		add(t, srv, "customers", "42")
		once("a", 250)
		once("b", 3)
		time.Sleep(8 * 24 * time.Hour)
		once("c", 2)
		n, err := s.Purge(t.Context(), 7*24*time.Hour)
		if err != nil || n != 254 {
			t.Errorf("purged %d, %v", n, err)
		}
		left := map[any]int{}
		for _, e := range srv.Entities("dedup") {
			left[e["PartitionKey"]]++
		}
		if diff := cmp.Diff(map[any]int{"c": 2, "customers": 1}, left); diff != "" {
			t.Errorf("left (-want +got):\n%s", diff)
		}
		if n, err := s.Purge(t.Context(), time.Minute); err == nil {
			t.Errorf("purged %d that may be in hand", n)
		}
	})
}

// add puts an entity of somebody else's into the table.
func add(t *testing.T, srv *tabletest.Service, partition, row string) {
	t.Helper()
	if _, err := srv.Client("dedup").AddEntity(t.Context(), effect(partition, row).Entity, nil); err != nil {
		t.Fatal(err)
	}
}

func TestTablesOptionsAreChecked(t *testing.T) {
	t.Parallel()
	client := (&tabletest.Service{}).Client("dedup")
	for name, tt := range map[string]struct {
		client *aztables.Client
		opts   dedup.TablesOptions
		want   []string
	}{
		"the zero value":    {client: client},
		"a lease too short": {client: client, opts: dedup.TablesOptions{Lease: time.Millisecond}, want: []string{"lease 1ms is outside 1s to 7 days"}},
		"everything wrong": {opts: dedup.TablesOptions{Lease: 8 * 24 * time.Hour, MaxRenewal: -1, Timeout: -1}, want: []string{
			"there is no client", "lease 192h0m0s is outside 1s to 7 days", "longest renewal -1ns is negative", "timeout -1ns is negative: every call has a deadline",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			if _, err := dedup.Tables(tt.client, tt.opts); err != nil {
				got = strings.Split(strings.TrimPrefix(err.Error(), "idempotency in Azure Tables: "), "\n")
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
	want := dedup.TablesOptions{Lease: time.Minute, MaxRenewal: 24 * time.Hour, Timeout: 10 * time.Second}
	if diff := cmp.Diff(want, dedup.TablesOptions{}.WithDefaults()); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
}
