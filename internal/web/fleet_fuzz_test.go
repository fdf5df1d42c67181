package web

import (
	"net/url"
	"testing"

	"github.com/qwatch/qwatch/internal/story"
)

// Whatever the query of a request for the fleet says: it is refused, or picks rows within its bounds, each of which
// is one of the fleet's, and all that match are counted.
func FuzzFleetQuery(f *testing.F) {
	for _, seed := range []string{
		"", "q=a+b&status=stalled&account=acct&sort=messages&desc=1&offset=1&limit=2", "sort=nosuch", "limit=-1", "limit=99999999999999999999",
		"offset=1000000&limit=1000000", "desc=maybe", "q=%ff%00%e2%80%ae<script>", "q=" + string(make([]byte, 300)), "limit=0", "limit=1&limit=2", "sort=loss&desc=true",
		"%zz", "a;b", "offset=0x10&limit=1e3", "limit=+5", "limit=%D9%A3",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := url.ParseQuery(text)
		if err != nil {
			return
		}
		q, err := parseFleetQuery(v)
		if err != nil {
			if s := err.Error(); len(s) > 300 {
				t.Errorf("a refusal of %d bytes", len(s))
			}
			return
		}
		if q.Limit < 0 || q.Limit > maxRows || q.Offset < 0 || q.Offset > 1_000_000 || len(q.Text) > maxFilter {
			t.Fatalf("out of bounds: %+v", q)
		}
		names := map[story.Name]bool{}
		var rows []story.Row
		for i, queue := range []string{"orders", "Ünï<script>", "billing\u202e", ""} {
			r := story.Row{Name: story.Name{Account: "acct", Queue: queue}, Status: []string{"stalled", "ok"}[i%2], Messages: story.Number{Known: i > 0, Value: int64(i)}, LossSeconds: float64(i)}
			names[r.Name] = true
			rows = append(rows, r)
		}
		picked, matched := q.pick(rows)
		if len(picked) > q.Limit || len(picked) > matched || matched > len(names) || q.Offset == 0 && len(picked) != min(matched, q.Limit) {
			t.Errorf("%d rows of %d that match, for %+v", len(picked), matched, q)
		}
		for _, r := range picked {
			if !names[r.Name] {
				t.Errorf("row %v twice, or from nowhere", r.Name)
			}
			delete(names, r.Name)
		}
	})
}
