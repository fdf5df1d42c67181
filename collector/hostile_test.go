package collector_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/qwatch/qwatch/collector"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// What bodies hold is nothing to a poll: neither what cannot be read nor what inflates.
func TestHostileBodies(t *testing.T) {
	// Not parallel: it measures what is allocated.
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	zeros := make([]byte, 1<<20)
	for range 32 {
		if _, err := z.Write(zeros); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{
		"a gzip bomb":        `{"$azqs-envelope":1,"encoding":"gzip","body64":"` + base64.StdEncoding.EncodeToString(bomb.Bytes()) + `"}`,
		"a future envelope":  `{"$azqs-envelope":99,"body":{}}`,
		"a broken envelope":  `{"$azqs-envelope":1,"body":`,
		"not base64 at all":  "\t%%%",
		"characters of XML":  "<&]]>\"'",
		"nothing whatsoever": "",
	}
	for name, text := range texts {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStorage(t, queuetest.Options{})
				q, err := s.acct.Queue("orders", queue.Config{Encoding: queue.EncodingBase64, NoPoison: true})
				if err != nil {
					t.Fatal(err)
				}
				if err := q.Create(t.Context()); err != nil {
					t.Fatal(err)
				}
				plain := open(t, s.acct, "orders", queue.Config{})
				for range 32 {
					if _, err := plain.SendText(t.Context(), text, queue.SendOptions{}); err != nil {
						t.Fatal(err)
					}
				}
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				c := run(t, collector.Config{Targets: targets(q)})
				time.Sleep(time.Second)
				runtime.ReadMemStats(&after)
				if used := after.TotalAlloc - before.TotalAlloc; used > 128<<20 { // inflating them all would take a gigabyte
					t.Errorf("a poll allocated %d MiB", used>>20)
				}
				expect(t, "main", about(t, c, "orders", "main"), map[string]float64{up: 1, messages: 32, peeked: 32})
			})
		})
	}
}
