package failures_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/poison"
	"github.com/qwatch/qwatch/processor/failures"
	"github.com/qwatch/qwatch/processor/internal/table/tabletest"
)

func TestRecordComesBackAsItWas(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*failures.Failure){
		"with everything":        func(*failures.Failure) {},
		"with the least":         func(f *failures.Failure) { *f = failures.Failure{Queue: f.Queue, MessageID: f.MessageID} },
		"with an empty body":     func(f *failures.Failure) { f.Body = &failures.Body{Data: []byte{}} },
		"with a binary body":     func(f *failures.Failure) { f.Body = &failures.Body{Data: []byte("\x00\x01\xff"), Size: 3} },
		"with a control byte":    func(f *failures.Failure) { f.Body = &failures.Body{Data: []byte("a\x1bb"), Size: 3} },
		"with part of a body":    func(f *failures.Failure) { f.Body.Size = 1 << 20 },
		"with a long text":       func(f *failures.Failure) { f.Body = body(strings.Repeat("0123456789\n", 20_000)) },
		"with a long naïve text": func(f *failures.Failure) { f.Body = body("x" + strings.Repeat("ï😀", 40_000)) },
		"with a long binary":     func(f *failures.Failure) { f.Body = body(strings.Repeat("\xff\x00\x7f", 70_000)) },
		"with a strange id":      func(f *failures.Failure) { f.MessageID = `a/b\c#d?e'f"g!h=i%j ünï` },
		"with a very long id":    func(f *failures.Failure) { f.MessageID = strings.Repeat("m", 1000) },
		"with quotes": func(f *failures.Failure) {
			f.Reason, f.BusinessKey = `it's "quoted" <&>`, "o'brien/42"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stored(t, func(t *testing.T, srv *tabletest.Service, s *failures.TablesStore) {
				f := full()
				change(&f)
				for range 3 { // a repeated record is one
					if err := s.Record(t.Context(), f); err != nil {
						t.Fatal(err)
					}
				}
				same(t, f, load(t, s, f))
				if n := len(srv.Entities("failures")); n != 1+len(f.Attempts) {
					t.Errorf("%d entities", n)
				}
			})
		})
	}
}

func body(s string) *failures.Body { return &failures.Body{Data: []byte(s), Size: len(s)} }

func TestRecordIsBoundedWhateverItIsGiven(t *testing.T) {
	t.Parallel()
	stored(t, func(t *testing.T, srv *tabletest.Service, s *failures.TablesStore) {
		long := strings.Repeat(`<"\x00'&>`, 10_000)
		f := full()
		f.BusinessKey, f.Reason, f.Panic, f.Stack, f.TraceParent = long, long, long, long, long
		f.Body = body(strings.Repeat("ï", 200<<10))
		f.Causes, f.Attempts = nil, nil
		for i := range 60 {
			f.Causes = append(f.Causes, failures.Cause{Type: long, Message: long})
			f.Attempts = append(f.Attempts, failures.Attempt{Number: i + 1, Error: long, Category: long, Worker: long})
		}
		if err := s.Record(t.Context(), f); err != nil {
			t.Fatal(err)
		}
		got := load(t, s, f)
		if len(got.Causes) == 0 || len(got.Attempts) != 50 || len(got.Body.Data) > failures.MaxBody || got.Body.Size != 400<<10 || len(got.Stack) > 8<<10 {
			t.Errorf("%d causes, %d attempts, body of %d", len(got.Causes), len(got.Attempts), len(got.Body.Data))
		}
	})
}

// A crash between copy and delete has a message dead-lettered again, perhaps by a process that knows less.
func TestFirstRecordStaysAndIsCompleted(t *testing.T) {
	t.Parallel()
	stored(t, func(t *testing.T, srv *tabletest.Service, s *failures.TablesStore) {
		first, second := full(), full()
		first.TraceParent, first.Body = "", nil
		second.Category, second.Reason, second.DequeueCount = poison.CategoryMaxDequeue, "delivered 6 times", 6
		second.Causes, second.Panic, second.Stack = nil, "", ""
		second.DeadLetteredAt = noon.Add(time.Hour)
		second.Attempts = []failures.Attempt{{Number: 6, At: noon.Add(time.Hour), Error: "again", Worker: "host/2"}}
		for _, f := range []failures.Failure{first, second, second} {
			if err := s.Record(t.Context(), f); err != nil {
				t.Fatal(err)
			}
		}
		want := full()
		want.Attempts = append(want.Attempts, second.Attempts...)
		same(t, want, load(t, s, want))
	})
}

func TestManyCopiesAtOnceMakeOneRecord(t *testing.T) {
	t.Parallel()
	stored(t, func(t *testing.T, srv *tabletest.Service, s *failures.TablesStore) {
		srv.Fail(tabletest.Fault{Operation: tabletest.Submit, Delay: time.Second, Commit: true, Times: 3}) // answers lost meanwhile
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				f := full()
				if i%2 == 0 {
					f.Body = nil
				}
				if err := s.Record(t.Context(), f); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		same(t, full(), load(t, s, full()))
		if n := len(srv.Entities("failures")); n != 2 {
			t.Errorf("%d entities", n)
		}
	})
}

func TestAttemptsOfEveryProcessAreKept(t *testing.T) {
	t.Parallel()
	stored(t, func(t *testing.T, srv *tabletest.Service, s *failures.TablesStore) {
		other, err := failures.Tables(srv.Client("failures"), failures.TablesOptions{})
		if err != nil {
			t.Fatal(err)
		}
		f := full()
		f.Attempts = nil
		var want []failures.Attempt
		for n := 1; n <= 12; n++ {
			a := failures.Attempt{Number: n, At: noon.Add(time.Duration(n) * time.Minute), Error: "no", Worker: fmt.Sprint("host/", n%2)}
			want = append(want, a)
			for range 2 { // an answer that was lost
				if err := []*failures.TablesStore{s, other}[n%2].Attempted(t.Context(), f.Queue, f.MessageID, a); err != nil {
					t.Fatal(err)
				}
			}
		}
		same(t, failures.Failure{Queue: f.Queue, MessageID: f.MessageID, Attempts: want}, load(t, s, f)) // still being retried
		if err := s.Record(t.Context(), f); err != nil {
			t.Fatal(err)
		}
		f.Attempts = want
		same(t, f, load(t, s, f))
	})
}

func TestAttemptsWithoutEndAreBounded(t *testing.T) {
	t.Parallel()
	stored(t, func(t *testing.T, srv *tabletest.Service, s *failures.TablesStore) {
		for n := 1; n <= 200; n++ {
			if err := s.Attempted(t.Context(), "orders", "m", failures.Attempt{Number: n, Error: "no"}); err != nil {
				t.Fatal(err)
			}
		}
		f, err := s.Load(t.Context(), "orders", "m")
		if err != nil {
			t.Fatal(err)
		}
		var got []int
		for _, a := range f.Attempts {
			got = append(got, a.Number)
		}
		var want []int
		for n := 1; n <= 200; n++ {
			if n <= 10 || n > 160 {
				want = append(want, n)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("attempts kept (-want +got):\n%s", diff)
		}
	})
}

func TestRecoveredMessageLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, poisoned := range map[string]bool{"that was retried": false, "that was dead-lettered before": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stored(t, func(t *testing.T, srv *tabletest.Service, s *failures.TablesStore) {
				f := full()
				neighbour := f.MessageID + "0"
				for _, id := range []string{f.MessageID, neighbour} {
					if err := s.Attempted(t.Context(), f.Queue, id, f.Attempts[0]); err != nil {
						t.Fatal(err)
					}
				}
				if poisoned {
					if err := s.Record(t.Context(), f); err != nil {
						t.Fatal(err)
					}
				}
				for range 2 {
					if err := s.Recovered(t.Context(), f.Queue, f.MessageID); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := s.Load(t.Context(), f.Queue, f.MessageID); errors.Is(err, failures.ErrNotFound) == poisoned {
					t.Errorf("load: %v", err)
				}
				if _, err := s.Load(t.Context(), f.Queue, neighbour); err != nil {
					t.Errorf("a neighbour: %v", err)
				}
			})
		})
	}
}

func TestFailuresAreListed(t *testing.T) {
	t.Parallel()
	stored(t, func(t *testing.T, srv *tabletest.Service, s *failures.TablesStore) {
		srv.PageSize = 3
		for i, queue := range []string{"orders", "refunds"} {
			for n := range 4 {
				f := full()
				f.Queue, f.MessageID, f.DeadLetteredAt = queue, fmt.Sprint("m", n), noon.Add(time.Duration(i*4+n)*time.Hour)
				if err := s.Record(t.Context(), f); err != nil {
					t.Fatal(err)
				}
			}
		}
		for name, tt := range map[string]struct {
			opts failures.ListOptions
			want string
		}{
			"all":             {failures.ListOptions{}, "orders/m0 orders/m1 orders/m2 orders/m3 refunds/m0 refunds/m1 refunds/m2 refunds/m3"},
			"of a queue":      {failures.ListOptions{Queue: "refunds", Bodies: true}, "refunds/m0 refunds/m1 refunds/m2 refunds/m3"},
			"since":           {failures.ListOptions{Since: noon.Add(6 * time.Hour)}, "refunds/m2 refunds/m3"},
			"of no such name": {failures.ListOptions{Queue: "none"}, ""},
		} {
			var got []string
			for _, f := range collect(t, s.List(t.Context(), tt.opts)) {
				got = append(got, f.Queue+"/"+f.MessageID)
				want := full()
				want.Queue, want.MessageID, want.DeadLetteredAt, want.Attempts = f.Queue, f.MessageID, f.DeadLetteredAt, nil
				if !tt.opts.Bodies {
					want.Body = nil
				}
				same(t, want, f)
			}
			if s := strings.Join(got, " "); s != tt.want {
				t.Errorf("%s: %s", name, s)
			}
		}
	})
}

func TestDeletedAndPurgedFailuresAreGone(t *testing.T) {
	t.Parallel()
	stored(t, func(t *testing.T, srv *tabletest.Service, s *failures.TablesStore) {
		record := func(id string) {
			f := full()
			f.MessageID = id
			if err := s.Record(t.Context(), f); err != nil {
				t.Fatal(err)
			}
		}
		record("deleted")
		record("old")
		for range 2 {
			if err := s.Delete(t.Context(), "orders", "deleted"); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(48 * time.Hour)
		record("new")
		if n, err := s.Purge(t.Context(), 24*time.Hour); err != nil || n != 2 {
			t.Errorf("purged %d rows, %v", n, err)
		}
		if all := collect(t, s.List(t.Context(), failures.ListOptions{})); len(all) != 1 || all[0].MessageID != "new" {
			t.Errorf("left %v", all)
		}
		if _, err := s.Purge(t.Context(), 0); err == nil {
			t.Error("purged everything")
		}
	})
}

func TestStoreErrorsSayWhat(t *testing.T) {
	t.Parallel()
	stored(t, func(t *testing.T, srv *tabletest.Service, s *failures.TablesStore) {
		srv.Fail(tabletest.Fault{Status: http.StatusForbidden, Code: "AuthorizationFailure"})
		f := full()
		ctx := t.Context()
		_, loaded := s.Load(ctx, "orders", "m")
		_, purged := s.Purge(ctx, time.Hour)
		var listed error
		for _, listed = range s.List(ctx, failures.ListOptions{}) {
		}
		for want, err := range map[string]error{
			"record attempt 3 at message m of orders: 403 AuthorizationFailure":                     s.Attempted(ctx, "orders", "m", f.Attempts[0]),
			"record the failure of message " + f.MessageID + " of orders: 403 AuthorizationFailure": s.Record(ctx, f),
			"forget the attempts at message m of orders: 403 AuthorizationFailure":                  s.Recovered(ctx, "orders", "m"),
			"load the failure of message m of orders: 403 AuthorizationFailure":                     loaded,
			"list failures: 403 AuthorizationFailure":                                               listed,
			"delete the failure of message m of orders: 403 AuthorizationFailure":                   s.Delete(ctx, "orders", "m"),
			"purge failures: 403 AuthorizationFailure":                                              purged,
			"create the failure table: 403 AuthorizationFailure":                                    s.Create(ctx),
		} {
			if err == nil || err.Error() != want {
				t.Errorf("error %v, want %s", err, want)
			}
		}
	})
	if _, err := failures.Tables(nil, failures.TablesOptions{Timeout: -1}); err == nil || err.Error() != "failure store in Azure Tables: there is no client\ntimeout -1ns is negative: every call has a deadline" {
		t.Errorf("options: %v", err)
	}
}
