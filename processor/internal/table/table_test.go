package table_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/processor/internal/table"
	"github.com/qwatch/qwatch/processor/internal/table/tabletest"
)

const timeout = 10 * time.Second

func open(t *testing.T) (*tabletest.Service, *table.Table) {
	t.Helper()
	s := &tabletest.Service{}
	tab := table.New(s.Client("things"), timeout)
	if err := tab.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s, tab
}

func TestEntityComesBackAsItWas(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, tab := open(t)
		s.Skew = time.Hour
		at := time.Date(2026, 5, 4, 3, 2, 1, 123456700, time.UTC)
		time.Sleep(300 * time.Millisecond) // the Date is cut to seconds
		etag, err := tab.Insert(t.Context(), table.Entity{Partition: "p", Key: "k", Properties: map[string]any{
			"Text": "naïve \x00 'x'", "Number": int32(7), "Long": aztables.EDMInt64(1 << 40), "At": aztables.EDMDateTime(at), "Raw": aztables.EDMBinary("\x00\xff"),
		}})
		if err != nil {
			t.Fatal(err)
		}
		row, err := tab.Read(t.Context(), "p", "k")
		if err != nil {
			t.Fatal(err)
		}
		now := time.Now().Add(time.Hour)
		if row.Partition != "p" || row.Key != "k" || row.ETag != etag || !row.ReadAt.Equal(now.Truncate(time.Second)) || !row.Timestamp.Equal(now) {
			t.Errorf("row %+v, etag %s", row, etag)
		}
		if row.Text("Text") != "naïve \x00 'x'" || row.Int("Number") != 7 || row.Int("Long") != 1<<40 || !row.Time("At").Equal(at) {
			t.Errorf("properties %v", row.Properties)
		}
		if raw, ok := row.Properties["Raw"].(aztables.EDMBinary); !ok || string(raw) != "\x00\xff" {
			t.Errorf("binary property %v", row.Properties["Raw"])
		}
		if row.Text("None") != "" || row.Int("None") != 0 || !row.Time("None").IsZero() {
			t.Error("an absent property is not empty")
		}
	})
}

func TestConditionsAreToldApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, tab := open(t)
		ctx := t.Context()
		e := table.Entity{Partition: "p", Key: "k", Properties: map[string]any{"A": "1", "B": "1"}}
		first, err := tab.Insert(ctx, e)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tab.Insert(ctx, e); !table.Exists(err) || table.Passing(err) {
			t.Errorf("insert again: %v", err)
		}
		e.Properties = map[string]any{"A": "2"}
		second, err := tab.Merge(ctx, e, first)
		if err != nil {
			t.Fatal(err)
		}
		if row, err := tab.Read(ctx, "p", "k"); err != nil || row.Text("A") != "2" || row.Text("B") != "1" {
			t.Errorf("merged: %v, %v", row.Properties, err)
		}
		if _, err := tab.Merge(ctx, e, first); !table.Changed(err) {
			t.Errorf("merge an old version: %v", err)
		}
		if _, err := tab.Replace(ctx, e, second); err != nil {
			t.Error(err)
		}
		if row, err := tab.Read(ctx, "p", "k"); err != nil || row.Text("B") != "" {
			t.Errorf("replaced: %v, %v", row.Properties, err)
		}
		if err := tab.Delete(ctx, "p", "k", second); !table.Changed(err) {
			t.Errorf("delete an old version: %v", err)
		}
		if err := tab.Delete(ctx, "p", "k", table.Any); err != nil {
			t.Error(err)
		}
		if _, err := tab.Read(ctx, "p", "k"); !table.Missing(err) {
			t.Errorf("read what is gone: %v", err)
		}
		if err := tab.Create(ctx); err != nil {
			t.Errorf("create again: %v", err)
		}
	})
}

func TestTransactionIsAllOrNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, tab := open(t)
		add := func(key string) aztables.TransactionAction {
			a, err := table.Entity{Partition: "p", Key: key}.Action(aztables.TransactionTypeAdd, "")
			if err != nil {
				t.Fatal(err)
			}
			return a
		}
		if err := tab.Submit(t.Context(), []aztables.TransactionAction{add("a"), add("b")}); err != nil {
			t.Fatal(err)
		}
		err := tab.Submit(t.Context(), []aztables.TransactionAction{add("c"), add("b")})
		f, ok := errors.AsType[*table.Error](err)
		if !ok || f.Action != 1 || f.Status != http.StatusConflict || !table.Exists(err) || err.Error() != "action 1: 409 EntityAlreadyExists" {
			t.Errorf("second transaction: %+v", err)
		}
		var got []string
		for row, err := range tab.Query(t.Context(), table.Query{Filter: "PartitionKey eq 'p'", Select: "RowKey"}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, row.Key)
		}
		if diff := cmp.Diff([]string{"a", "b"}, got); diff != "" {
			t.Errorf("entities (-want +got):\n%s", diff)
		}
	})
}

func TestQueryReadsEveryPage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, tab := open(t)
		s.PageSize = 2
		want := []string{"a", "b", "c", "d", "e"}
		for _, key := range want {
			if _, err := tab.Insert(t.Context(), table.Entity{Partition: "p", Key: key}); err != nil {
				t.Fatal(err)
			}
		}
		var got []string
		for row, err := range tab.Query(t.Context(), table.Query{}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, row.Key)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("entities (-want +got):\n%s", diff)
		}
		s.Fail(tabletest.Fault{Operation: tabletest.Query, Skip: 1, Status: http.StatusForbidden, Code: "AuthenticationFailed"})
		var last error
		got = nil
		for row, err := range tab.Query(t.Context(), table.Query{}) {
			if last = err; err == nil {
				got = append(got, row.Key)
			}
		}
		if len(got) != 2 || last == nil {
			t.Errorf("a page that fails: %v after %v", last, got)
		}
	})
}

func TestFailures(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		fault   tabletest.Fault
		want    string
		passing bool
		tries   int
		within  time.Duration
	}{
		"a refusal is not tried again": {
			fault: tabletest.Fault{Status: http.StatusForbidden, Code: "AuthenticationFailed"},
			want:  "403 AuthenticationFailed", tries: 1,
		},
		"a busy service is tried three times": {
			fault: tabletest.Fault{Status: http.StatusServiceUnavailable, Code: "ServerBusy"},
			want:  "503 ServerBusy", passing: true, tries: 3, within: 2 * time.Second,
		},
		"a broken connection shows no address": {
			want: "unexpected EOF", passing: true, tries: 3, within: 2 * time.Second,
		},
		"a service that hangs is given up in time": {
			fault: tabletest.Fault{Hang: true},
			want:  "no answer in time", passing: true, tries: 2, within: timeout,
		},
		"a missing table says what to do": {
			fault: tabletest.Fault{Status: http.StatusNotFound, Code: "TableNotFound"},
			want:  "404 TableNotFound: create the table first", tries: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, tab := open(t)
				tt.fault.Operation = tabletest.Insert
				s.Fail(tt.fault)
				began := time.Now()
				_, err := tab.Insert(t.Context(), table.Entity{Partition: "p", Key: "k"})
				if err == nil || err.Error() != tt.want || table.Passing(err) != tt.passing || table.Missing(err) {
					t.Errorf("error %v, passing %t", err, table.Passing(err))
				}
				if n, took := s.Count(tabletest.Insert), time.Since(began); n != tt.tries || took > tt.within {
					t.Errorf("%d tries in %v", n, took)
				}
			})
		})
	}
}

func TestErrorsReachTheirCause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, tab := open(t)
		s.Fail(tabletest.Fault{Operation: tabletest.Read, Times: 3})
		if _, err := tab.Read(t.Context(), "p", "k"); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("broken connection: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := tab.Read(ctx, "p", "k"); !errors.Is(err, context.Canceled) || err.Error() != "context canceled" {
			t.Errorf("cancelled: %v", err)
		}
	})
}

func TestAnswerWithoutBodyIsNoPanic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, tab := open(t)
		s.Fail(tabletest.Fault{Operation: tabletest.Submit, Empty: true, Times: 1})
		a, err := table.Entity{Partition: "p", Key: "k"}.Action(aztables.TransactionTypeAdd, "")
		if err != nil {
			t.Fatal(err)
		}
		if err := tab.Submit(t.Context(), []aztables.TransactionAction{a}); err == nil || !strings.Contains(err.Error(), "no body") || !table.Passing(err) {
			t.Errorf("error %v", err)
		}
	})
}
