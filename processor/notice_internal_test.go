package processor

import (
	"slices"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// between is a span by minutes around noon.
func between(from, until int) span {
	return span{noon.Add(time.Duration(from) * time.Minute), noon.Add(time.Duration(until) * time.Minute)}
}

func TestTheLastOutageOfSeveralProcesses(t *testing.T) {
	for name, tt := range map[string]struct{ a, b, want span }{
		"of one":                    {between(-10, -5), span{}, between(-10, -5)},
		"that overlap":              {between(-10, -5), between(-7, -2), between(-10, -2)},
		"one in the other":          {between(-10, -1), between(-7, -2), between(-10, -1)},
		"with a small gap":          {between(-10, -6), between(-5, -2), between(-10, -2)},
		"far apart":                 {between(-60, -50), between(-5, -2), between(-5, -2)},
		"the later known from less": {between(-3, -2), between(-10, -2), between(-10, -2)},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tt.a.with(tt.b, 2*time.Minute); got != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
			if got := tt.b.with(tt.a, 2*time.Minute); got != tt.want {
				t.Errorf("the other way round: %v, want %v", got, tt.want)
			}
			if got := parseSpan(tt.want.String(), noon); got != tt.want {
				t.Errorf("read back: %v, want %v", got, tt.want)
			}
		})
	}
}

func TestRowsOfFailuresOfSeveralProcesses(t *testing.T) {
	row := func(from, until int, marks ...string) failing { return failing{between(from, until), marks} }
	for name, tt := range map[string]struct {
		a, b       failing
		want       string
		suspicious bool
	}{
		"of two and one":     {row(-5, -1, "a", "b"), row(-4, 0, "c"), between(-5, 0).String() + "/a,b,c", true},
		"of the same":        {row(-5, -1, "a", "b"), row(-4, 0, "b"), between(-5, 0).String() + "/a,b", false},
		"of many":            {row(-5, -1, "a", "b", "c"), row(-4, 0, "d"), between(-5, 0).String() + "/a,b,d", true},
		"one like an outage": {row(-5, -1, "outage"), row(-4, 0, "b"), between(-5, 0).String() + "/b,outage", true},
		"far apart":          {row(-60, -50, "a", "b", "c"), row(-4, 0, "b"), between(-4, 0).String() + "/b", false},
	} {
		t.Run(name, func(t *testing.T) {
			got := tt.a.with(tt.b, 2*time.Minute)
			if got.span != parseFailing(tt.want, noon).span || got.suspicious() != tt.suspicious || name != "of many" && got.String() != tt.want {
				t.Errorf("%v, suspicious %v, want %v, %v", got, got.suspicious(), tt.want, tt.suspicious)
			}
			if again := parseFailing(got.String(), noon); again.String() != got.String() {
				t.Errorf("read back: %v, want %v", again, got)
			}
		})
	}
}

// Whatever is in the metadata, what is taken for word of an outage may have been one, and does not grow.
func FuzzNotices(f *testing.F) {
	for _, s := range []string{"", "/", "//", between(-1, 0).String(), between(-1, 0).String() + "/a,b,outage", between(0, 9).String() + "/", strings.Repeat("/", 200)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if got := parseSpan(s, noon); !got.none() && (got.until.Before(got.from) || got.until.After(noon.Add(noticeAhead))) {
			t.Errorf("%q is taken for %v", s, got)
		}
		got := parseFailing(s, noon)
		if len(got.marks) > tripMessages+1 || !slices.IsSorted(got.marks) || got.none() && got.suspicious() {
			t.Errorf("%q is taken for %v", s, got)
		}
		if again := parseFailing(got.String(), noon); !got.none() && len(got.String()) <= maxNotice && (!again.from.Equal(got.from) || again.suspicious() != got.suspicious()) {
			t.Errorf("%q is taken for %v, and that for %v", s, got, again)
		}
	})
}
