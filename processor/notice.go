package processor

import (
	"hash/fnv"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The names in a queue's metadata under which processors tell each other of outages of what handlers call.
// Times are the service's, in RFC 3339; anything else found there is passed over.
const (
	// MetadataOutage is when the last outage began and until when it is known to have lasted: "from/until".
	MetadataOutage = "qwatch_outage"
	// MetadataFailing is a row of failures that may turn out to be one: "from/until/marks", with a mark for each
	// of up to three messages, and the mark "outage" if the last failure looked like one.
	MetadataFailing = "qwatch_failing"
)

const (
	noticeAhead = 5 * time.Minute // a notice that ends later than so is nonsense
	maxNotice   = 120             // bytes
	markOutage  = "outage"
)

// span is a time by the service's clock. The zero value is none.
type span struct{ from, until time.Time }

func (s span) none() bool { return s.until.IsZero() }

func (s span) String() string {
	return s.from.UTC().Format(time.RFC3339) + "/" + s.until.UTC().Format(time.RFC3339)
}

// parseSpan reads a span that may have been: others can write there.
func parseSpan(s string, now time.Time) span {
	a, b, _ := strings.Cut(s, "/")
	from, err := time.Parse(time.RFC3339, a)
	until, err2 := time.Parse(time.RFC3339, b)
	if len(s) > maxNotice || err != nil || err2 != nil || until.Before(from) || until.After(now.Add(noticeAhead)) {
		return span{}
	}
	return span{from, until}
}

// with joins what two processes know: one span if there is no more than the gap between the two, else the later one.
func (s span) with(o span, gap time.Duration) span {
	if s.until.Before(o.until) {
		s, o = o, s
	}
	if s.meets(o, gap) && o.from.Before(s.from) {
		s.from = o.from
	}
	return s
}

func (s span) meets(o span, gap time.Duration) bool {
	return !s.none() && !o.none() && !o.until.Add(gap).Before(s.from) && !s.until.Add(gap).Before(o.from)
}

// failing is a row of failures in several processes.
type failing struct {
	span
	marks []string // in order, without doubles
}

func (f failing) String() string { return f.span.String() + "/" + strings.Join(f.marks, ",") }

func parseFailing(s string, now time.Time) failing {
	i := strings.LastIndexByte(s, '/')
	if i < 0 || len(s) > maxNotice {
		return failing{}
	}
	f := failing{span: parseSpan(s[:i], now)}
	if f.none() {
		return failing{}
	}
	for m := range strings.SplitSeq(s[i+1:], ",") {
		if n, err := strconv.ParseUint(m, 36, 64); m == markOutage || err == nil && n <= math.MaxUint32 {
			f.mark(m)
		}
	}
	return f
}

// mark adds marks, of messages up to as many as an outage takes.
func (f *failing) mark(marks ...string) {
	for _, m := range marks {
		n := len(f.marks)
		if f.looksLikeOne() {
			n--
		}
		if m != "" && !slices.Contains(f.marks, m) && (m == markOutage || n < tripMessages) {
			f.marks = append(f.marks, m)
		}
	}
	slices.Sort(f.marks)
}

func (f failing) looksLikeOne() bool { return slices.Contains(f.marks, markOutage) }

// suspicious says what breaker.suspicious says of one process's row.
func (f failing) suspicious() bool {
	return !f.none() && (f.looksLikeOne() || len(f.marks) >= tripMessages)
}

// with joins two rows; the later one if they are far apart.
func (f failing) with(o failing, gap time.Duration) failing {
	if f.until.Before(o.until) {
		f, o = o, f
	}
	if !f.meets(o.span, gap) {
		return f
	}
	joined := failing{span: f.span.with(o.span, gap), marks: slices.Clone(f.marks)}
	joined.mark(o.marks...)
	return joined
}

// markOf is a message's mark.
func markOf(id string) string {
	h := fnv.New32a()
	h.Write([]byte(id))
	return strconv.FormatUint(uint64(h.Sum32()), 36)
}
