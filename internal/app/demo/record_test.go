package demo_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/qwatch/qwatch/internal/app/demo"
)

// recorded is a recording, by series, in order of time.
type recorded map[string][]float64

var line = regexp.MustCompile(`^([a-z_]+\{instance="qwatch:9780",job="qwatch".*\}) (\S+) (\d+)\.000$`)

// record returns what Record writes of a fleet, after a look at its form.
func record(t *testing.T, r demo.Recording) recorded {
	t.Helper()
	var b bytes.Buffer
	var begin int64
	synctest.Test(t, func(t *testing.T) {
		begin = time.Now().Unix()
		if err := demo.Record(t.Context(), &b, r); err != nil {
			t.Fatal(err)
		}
	})
	text, ended := strings.CutSuffix(b.String(), "\n# EOF\n")
	if !ended {
		t.Fatal("the recording does not end as it should")
	}
	all, at := recorded{}, map[string]int64{}
	for l := range strings.SplitSeq(text, "\n") {
		found := line.FindStringSubmatch(l)
		if found == nil {
			t.Fatalf("a line that is no sample of the target with its time: %q", l)
		}
		value, err := strconv.ParseFloat(found[2], 64)
		time, _ := strconv.ParseInt(found[3], 10, 64)
		if before := at[found[1]]; err != nil || (time-begin)%15 != 0 || before != 0 && time != before+15 && strings.HasPrefix(found[1], "up{") || time <= before {
			t.Fatalf("after %d: %q: %v", before, l, err)
		}
		at[found[1]] = time
		all[found[1]] = append(all[found[1]], value)
	}
	return all
}

// of returns a series by its name and labels.
func (r recorded) of(name, labels string) []float64 {
	if labels != "" {
		labels = "," + labels
	}
	return r[name+`{instance="qwatch:9780",job="qwatch"`+labels+`}`]
}

func TestARecordingHasTheTroublesWhenTheyAre(t *testing.T) {
	t.Parallel()
	const from, to = 30 * time.Second, 90 * time.Second
	r := record(t, demo.Recording{Duration: 2 * time.Minute, Troubles: func(_ string, since time.Duration) bool { return since >= from && since < to }})
	const scrapes, before, after = 8, 1, 5 // the one at the beginning of the trouble, and that at its end
	if start := r.of("process_start_time_seconds", ""); len(start) != scrapes || start[0] != float64(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Unix()) {
		t.Errorf("the process started at %v", start)
	}
	all := func(name, labels string) []float64 {
		values := r.of(name, labels)
		if len(values) != scrapes {
			t.Fatalf("%s{%s}: %v, and not one for each scrape", name, labels, values)
		}
		return values
	}
	for _, name := range []string{"orders", "emails", "reports", "payments", "shipping", "reminders"} {
		done := all("queue_messages_processed_total", fmt.Sprintf("account=%q,queue_name=%q", "demo", name))
		if done[scrapes-1] <= done[before] {
			t.Errorf("%s: processed %v", name, done)
		}
	}
	refused := all("queue_messages_dead_lettered_total", `account="demo",queue_dead_letter_reason="handler",queue_name="payments"`)
	mangled := all("queue_messages_dead_lettered_total", `account="demo",queue_dead_letter_reason="deserialization",queue_name="payments"`)
	if refused[before]+mangled[before] != 0 || refused[after]+mangled[after] == 0 {
		t.Errorf("payments refused %v, not read %v", refused, mangled)
	}
	failed := all("queue_messages_failed_total", `account="demo",queue_name="shipping"`)
	if trouble := failed[after] - failed[before]; trouble < 8 || failed[before] > trouble/2 || failed[scrapes-1]-failed[after+1] > trouble/2 {
		t.Errorf("failed attempts of shipping: %v", failed)
	}
	audit := all("queue_approximate_messages", `account="demo",queue_kind="main",queue_name="audit"`)
	if audit[before] > 2 || audit[after] < 20 || audit[scrapes-1] > 2 {
		t.Errorf("messages of audit, which has a consumer but in its trouble: %v", audit)
	}
}

func TestARecordingWithoutTroublesOfItsOwnIsTheDemo(t *testing.T) {
	t.Parallel()
	r := record(t, demo.Recording{Duration: 30 * time.Second})
	for labels, least := range map[string]float64{
		`account="demo",queue_kind="main",queue_name="audit"`:      180, // the demo's past
		`account="demo",queue_kind="poison",queue_name="payments"`: 5,
	} {
		if n := r.of("queue_approximate_messages", labels); len(n) != 2 || n[0] < least {
			t.Errorf("%s: %v messages, want %v and more", labels, n, least)
		}
	}
}

// full is a disk that is full.
type full struct{}

var errFull = errors.New("no space left")

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestARecordingThatCannotBeWrittenEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		if err := demo.Record(t.Context(), full{}, demo.Recording{Duration: time.Hour}); !errors.Is(err, errFull) {
			t.Errorf("error %v", err)
		}
		if took := time.Since(begin); took > time.Minute {
			t.Errorf("it went on for %v", took)
		}
	})
}

func TestARecordingThatIsStoppedEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		var b bytes.Buffer
		if err := demo.Record(ctx, &b, demo.Recording{Duration: time.Hour}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
	})
}
