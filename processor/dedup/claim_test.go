package dedup_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/qwatch/qwatch/processor/dedup"
	"github.com/qwatch/qwatch/processor/internal/table/tabletest"
)

func TestClaimIsRenewedWhileTheHandlerRuns(t *testing.T) {
	t.Parallel()
	tables(t, dedup.TablesOptions{Lease: 20 * time.Second}, func(t *testing.T, srv *tabletest.Service, s *dedup.TablesStore) {
		var wg sync.WaitGroup
		wg.Go(func() {
			if o, err := s.Once(t.Context(), key, takes(10*time.Minute)); err != nil || o.Hit {
				t.Errorf("long work: %+v, %v", o, err)
			}
		})
		for range 9 {
			time.Sleep(time.Minute)
			if left := claimed(t, s); left <= 9*time.Second || left > 21*time.Second {
				t.Errorf("the claim has %v left", left)
			}
		}
		wg.Wait()
		if n := srv.Count(tabletest.Merge); n < 55 || n > 60 {
			t.Errorf("%d renewals in ten minutes", n)
		}
		if got := state(t, srv); got != "done" {
			t.Errorf("state %q", got)
		}
	})
}

func TestRenewalStandsFailuresWithinTheLease(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]tabletest.Fault{
		"the service is busy":  {Status: http.StatusServiceUnavailable, Code: "ServerBusy", Times: 6},
		"connections break":    {Times: 6},
		"an answer is lost":    {Commit: true, Times: 1},
		"all answers are lost": {Commit: true, Times: 4},
		"a request hangs":      {Hang: true, Times: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tables(t, dedup.TablesOptions{Lease: 30 * time.Second}, func(t *testing.T, srv *tabletest.Service, s *dedup.TablesStore) {
				f.Operation = tabletest.Merge
				srv.Fail(f)
				if _, err := s.Once(t.Context(), key, takes(2*time.Minute)); err != nil {
					t.Error(err)
				}
				if got := state(t, srv); got != "done" {
					t.Errorf("state %q", got)
				}
			})
		})
	}
}

func TestLostClaimCancelsTheHandler(t *testing.T) {
	t.Parallel()
	const lease = 20 * time.Second
	for name, tt := range map[string]struct {
		opts  dedup.TablesOptions
		fault tabletest.Fault
		after time.Duration // when the handler is cancelled
	}{
		"renewals fail": {
			fault: tabletest.Fault{Operation: tabletest.Merge, Status: http.StatusInternalServerError, Code: "InternalError"},
			after: lease,
		},
		"renewals are refused": {
			fault: tabletest.Fault{Operation: tabletest.Merge, Status: http.StatusForbidden, Code: "AuthenticationFailed"},
			after: lease,
		},
		"the claim is gone": {
			fault: tabletest.Fault{Operation: tabletest.Merge, Status: http.StatusNotFound, Code: "ResourceNotFound"},
			after: lease / 2,
		},
		"the longest renewal is over": {
			opts:  dedup.TablesOptions{MaxRenewal: 45 * time.Second},
			after: 60 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.opts.Lease = lease
			tables(t, tt.opts, func(t *testing.T, srv *tabletest.Service, s *dedup.TablesStore) {
				if tt.fault.Operation != "" {
					srv.Fail(tt.fault)
				}
				began := time.Now()
				_, err := s.Once(t.Context(), key, takes(time.Hour))
				if !errors.Is(err, dedup.ErrClaimLost) {
					t.Errorf("error %v", err)
				}
				if took := time.Since(began); took < tt.after || took > tt.after+2*time.Second {
					t.Errorf("cancelled after %v, want %v", took, tt.after)
				}
			})
		})
	}
}

// A worker that goes on although its claim is lost must not record over the one that took the key.
func TestWorkOfALostClaimIsNotRecorded(t *testing.T) {
	t.Parallel()
	tables(t, dedup.TablesOptions{Lease: 10 * time.Second}, func(t *testing.T, srv *tabletest.Service, s *dedup.TablesStore) {
		srv.Fail(tabletest.Fault{Operation: tabletest.Merge, Status: http.StatusForbidden, Code: "AuthenticationFailed"})
		_, err := s.Once(t.Context(), key, func(ctx context.Context) ([]byte, error) {
			<-ctx.Done() // and stubbornly succeeds
			time.Sleep(5 * time.Second)
			if o, err := s.Once(context.WithoutCancel(ctx), key, done); err != nil || o.Hit {
				t.Errorf("the second worker: %+v, %v", o, err)
			}
			return []byte("late"), nil
		})
		if !errors.Is(err, dedup.ErrClaimLost) {
			t.Errorf("the first worker: %v", err)
		}
		if o, err := s.Once(t.Context(), key, done); err != nil || !o.Hit || string(o.Result) != "receipt" {
			t.Errorf("afterwards: %+v, %v", o, err)
		}
	})
}
