package queue_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/queue"
)

func TestNamedMetadataKeepsTheCaseOfNames(t *testing.T) {
	each(t, queue.Config{}, func(f *fixture) {
		for _, want := range []map[string]string{{"ownerTeam": "mail & more", "CostCenter": "A 17", "qwatch_tier": "1"}, {}} {
			if err := f.q.SetMetadata(f.ctx, want); err != nil {
				t.Fatal(err)
			}
			got, err := f.q.NamedMetadata(f.ctx)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
		if err := f.q.Delete(f.ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := f.q.NamedMetadata(f.ctx); !errors.Is(err, queue.ErrQueueNotFound) {
			t.Errorf("error %v of a queue that is not there", err)
		}
	})
}
