package demo_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/qwatch/qwatch/internal/app/demo"
)

// recordFlags are what TestRecord records, for the tests that show a recording to a real Prometheus.
var recordFlags = declareRecordFlags()

type recordOptions struct {
	file     string
	long     time.Duration
	troubles []trouble
}

func declareRecordFlags() *recordOptions {
	o := &recordOptions{}
	flag.StringVar(&o.file, "record", "", "write a recording of the demo's fleet to this `file`")
	flag.DurationVar(&o.long, "for", 15*time.Second, "how long it is")
	flag.Func("trouble", "`queue from to`: the queue has its trouble between these times, instead of all the demo's troubles all the time", func(text string) error {
		t, err := parseTrouble(text)
		o.troubles = append(o.troubles, t)
		return err
	})
	return o
}

// trouble is when a queue has its trouble.
type trouble struct {
	queue    string
	from, to time.Duration
}

func parseTrouble(text string) (t trouble, err error) {
	var from, to string
	if _, err = fmt.Sscan(text, &t.queue, &from, &to); err != nil {
		return t, err
	}
	if t.from, err = time.ParseDuration(from); err != nil {
		return t, err
	}
	t.to, err = time.ParseDuration(to)
	return t, err
}

// TestRecord records what its flags ask for; without them a single scrape.
func TestRecord(t *testing.T) {
	f, r := recordFlags, demo.Recording{Duration: recordFlags.long}
	file := f.file
	if file == "" {
		file = filepath.Join(t.TempDir(), "samples")
	}
	if len(f.troubles) > 0 {
		r.Troubles = func(queue string, since time.Duration) bool {
			for _, t := range f.troubles {
				if t.queue == queue && since >= t.from && since < t.to {
					return true
				}
			}
			return false
		}
	}
	to, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		if err := demo.Record(t.Context(), to, r); err != nil {
			t.Fatal(err)
		}
	})
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil || bytes.Count(text, []byte("\nup{")) != int(f.long/(15*time.Second)) || !bytes.HasSuffix(text, []byte("\n# EOF\n")) {
		t.Errorf("the recording is not whole: %v", err)
	}
}
