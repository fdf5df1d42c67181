package dedup_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/processor/dedup"
	"github.com/qwatch/qwatch/processor/internal/table/tabletest"
	"github.com/qwatch/qwatch/queue"
)

// BenchmarkHandle measures what a store costs a message beside the bare handler: our own part of it, for
// the doubles answer at once.
func BenchmarkHandle(b *testing.B) {
	nothing := processor.HandlerFunc(func(context.Context, *processor.Message) error { return nil })
	stores := map[string]func(b *testing.B) dedup.Store{
		"memory": func(*testing.B) dedup.Store { return &dedup.Memory{} },
		"sql": func(b *testing.B) dedup.Store {
			db := (&fakeDB{}).open()
			b.Cleanup(func() { _ = db.Close() })
			s, err := dedup.SQL(db, dedup.SQLOptions{Dialect: dedup.PostgreSQL})
			if err != nil {
				b.Fatal(err)
			}
			return s
		},
		"tables": func(b *testing.B) dedup.Store {
			s, err := dedup.Tables((&tabletest.Service{}).Client("dedup"), dedup.TablesOptions{})
			if err != nil {
				b.Fatal(err)
			}
			if err := s.Create(b.Context()); err != nil {
				b.Fatal(err)
			}
			return s
		},
	}
	run := func(b *testing.B, h processor.Handler, key func(i int) string) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			m := &processor.Message{Message: &queue.Message{ID: "m", DequeueCount: 1, Headers: map[string]string{"operation": key(i)}}}
			if err := h.Handle(b.Context(), m); err != nil {
				b.Fatal(err)
			}
		}
	}
	first := func(i int) string { return fmt.Sprint("operation-", i) }
	same := func(int) string { return "operation" }
	b.Run("bare", func(b *testing.B) { run(b, nothing, first) })
	for name, open := range stores {
		once := func(b *testing.B) processor.Handler {
			return dedup.Middleware(open(b), dedup.Header("operation"), dedup.Options{})(nothing)
		}
		b.Run(name+"/first", func(b *testing.B) { run(b, once(b), first) })
		b.Run(name+"/hit", func(b *testing.B) { run(b, once(b), same) })
	}
}
