package queue_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

func TestMetadataIsReplacedAsAWhole(t *testing.T) {
	each(t, queue.Config{}, func(f *fixture) {
		for _, want := range []map[string]string{{"team": "mail", "tier": "1"}, {"team": "shop"}, nil} {
			if err := f.q.SetMetadata(f.ctx, want); err != nil {
				t.Fatal(err)
			}
			p, err := f.q.Properties(f.ctx)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, p.Metadata); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
		if err := f.q.SetMetadata(f.ctx, map[string]string{"no-name": "x"}); queue.Classify(err) != queue.ResultOther {
			t.Errorf("error %v", err)
		}
		f.inject(queue.OpOther, queuetest.Fault{Status: 503, Times: 1}) // others may write before another try
		if err := f.q.SetMetadata(f.ctx, nil); queue.Classify(err) != queue.ResultThrottled {
			t.Errorf("error %v, want the failure of one try", err)
		}
	})
}

// Of several that find a queue missing one creates it, and tells.
func TestACreationIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		srv := queuetest.New(queuetest.Options{})
		acct, err := queue.NewAccount(queue.AccountConfig{
			Name: "acct", ConnectionString: queue.Secret(srv.ConnectionString()), Transport: srv,
			Logger: slog.New(slog.NewTextHandler(&logged, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		defer acct.Close()
		q, err := acct.Queue("orders", queue.Config{CreateIfMissing: true})
		if err != nil {
			t.Fatal(err)
		}
		srv.Inject(queuetest.Fault{Operation: queuetest.OpCreate, Delay: time.Second}) // all of them find it missing
		var sends sync.WaitGroup
		for range 8 {
			sends.Go(func() {
				if _, err := q.Send(t.Context(), "x", queue.SendOptions{}); err != nil {
					t.Error(err)
				}
			})
		}
		sends.Wait()
		if n := strings.Count(logged.String(), "queue created"); n != 1 {
			t.Errorf("told %d times:\n%s", n, &logged)
		}
		if n := srv.Len(queuetest.AccountName, "orders"); n != 8 {
			t.Errorf("%d messages, want 8", n)
		}
	})
}
