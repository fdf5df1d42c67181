package poison_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/qwatch/qwatch/poison"
	"github.com/qwatch/qwatch/queue"
)

// D3: a line holds the exact text, and is read as what was written.
func TestLineHoldsTheExactText(t *testing.T) {
	for _, text := range []string{"x", "", "a\r\nb \u2028\u202e<&>", strings.Repeat("é", queue.MaxTextBytes/2), `{"$azqs-envelope":9,"body":1}`, "\u0085\ufffd"} {
		each(t, queue.Config{}, func(f *fixture) {
			if err := f.q.Poison().Create(f.ctx); err != nil {
				t.Fatal(err)
			}
			if _, err := f.q.Poison().SendText(f.ctx, text, queue.SendOptions{}); err != nil {
				t.Fatal(err)
			}
			l := f.list()
			line, err := l.Entries[0].Line()
			if err != nil || bytes.Count(line, []byte("\n")) != 1 {
				t.Fatalf("line %q, %v", line, err)
			}
			x, err := poison.ParseLine(line)
			if err != nil || x.Text == nil || *x.Text != text || x.MessageID != l.Entries[0].MessageID {
				t.Errorf("read %+v, %v", x, err)
			}
			if err := f.q.Poison().Clear(f.ctx); err != nil {
				t.Fatal(err)
			}
			if err := poison.Import(f.ctx, f.q, x); err != nil {
				t.Fatal(err)
			}
			if got := f.poisoned(); len(got) != 1 || got[0].Text != text || got[0].ExpiresAt.Year() != 9999 {
				t.Errorf("imported %+v", got)
			}
		})
	}
}

func FuzzParseLine(f *testing.F) {
	for _, seed := range []string{
		`{"format":"qwatch-poison/1","queue":"orders","text":"x"}`, `{"format":"qwatch-poison/1"}`, `{"format":"qwatch-poison/2","text":"x"}`,
		`{"format":"qwatch-poison/1","text":"\u0000"}`, `{"format":"qwatch-poison/1","text":7}`, `[]`, ``, `{}{}`, `null`, "{\"format\":\"qwatch-poison/1\",\"text\":\"\xff\"}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		x, err := poison.ParseLine(line)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n") {
				t.Errorf("error of several lines: %q", err)
			}
			return
		}
		if x.Text == nil || queue.CheckText(*x.Text) != nil || x.Format != poison.ExportFormat {
			t.Errorf("took %q for %+v", line, x)
		}
	})
}

// What readers of JSON read in different ways is not imported as something else.
func TestLinesThatAreRefused(t *testing.T) {
	line := func(rest string) string { return `{"format":"qwatch-poison/1","queue":"orders",` + rest + `}` }
	for name, tc := range map[string]struct{ line, says string }{
		"bytes that are not UTF-8":         {line("\"text\":\"a\xff\""), "it is not UTF-8"},
		"half of a pair, high":             {line(`"text":"a\ud83d"`), "half a surrogate pair"},
		"half of a pair, before a letter":  {line(`"text":"\uD83Dabcdefgh"`), "half a surrogate pair"},
		"half of a pair, low":              {line(`"text":"\ude00"`), "half a surrogate pair"},
		"two high halves":                  {line(`"text":"\ud83d\ud83d\ude00"`), "half a surrogate pair"},
		"a half behind a backslash":        {line(`"text":"\\\ud83d"`), "half a surrogate pair"},
		"two texts":                        {line(`"text":"a","text":"b"`), `"text" more than once`},
		"two texts in different case":      {line(`"text":"a","Text":"b"`), `"text" more than once`},
		"two queues":                       {line(`"text":"a","queue":"bills"`), `"queue" more than once`},
		"a whole pair":                     {line(`"text":"\ud83d\ude00"`), ""},
		"what looks like half of a pair":   {line(`"text":"\\ud83d"`), ""},
		"a text within, and its own":       {line(`"text":"a","headers":{"text":"b"}`), ""},
		"the character for what is broken": {line(`"text":"\ufffd` + "\ufffd" + `"`), ""},
	} {
		switch _, err := poison.ParseLine([]byte(tc.line)); {
		case tc.says == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)):
			t.Errorf("%s: error %v, want %q", name, err, tc.says)
		}
	}
}
