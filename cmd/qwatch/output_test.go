package main

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/poison"
	"github.com/qwatch/qwatch/queue"
)

var attacks = []string{
	"", "plain text, ÄÖ 漢字 🎉", "\x1b[31m", "\x1b]0;title\a", "\x9b31m", "\u009b31m", "\u202eevil\u2066", "a\nb\tc\rd\be\x7f",
	"\xff\xfe\x00", "\U000e0001", "\u2028line\u2029", "\\x1b is written so already", "\ufeff",
}

func FuzzCleanIsInert(f *testing.F) {
	for _, s := range attacks {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := clean(s)
		if !utf8.ValidString(got) {
			t.Errorf("clean(%q) = %q is not UTF-8", s, got)
		}
		for _, r := range got {
			if !harmless(r) {
				t.Errorf("clean(%q) = %q holds %U", s, got, r)
			}
		}
		if again := clean(got); again != got {
			t.Errorf("clean(%q) = %q, and again %q", s, got, again)
		}
	})
}

func FuzzInertJSONIsTheSameValue(f *testing.F) {
	for _, s := range attacks {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(map[string]string{s: s}); err != nil {
			t.Fatal(err)
		}
		got := inertJSON(b.Bytes())
		for _, r := range string(got) {
			if r != '\n' && !harmless(r) {
				t.Errorf("inertJSON of %q holds %U", s, r)
			}
		}
		var want, have any
		if err := json.Unmarshal(b.Bytes(), &want); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(got, &have); err != nil {
			t.Fatalf("inertJSON of %q is not JSON: %v: %s", s, err, got)
		}
		if !reflect.DeepEqual(want, have) {
			t.Errorf("inertJSON changed %q to %s", s, got)
		}
	})
}

func TestTablesAreAlignedAndInert(t *testing.T) {
	t.Parallel()
	tab := newTable("nothing", "NAME", ">N", "LAST")
	tab.add("short", 7, "x")
	tab.add("evil\x1b[2J", 12345, cell{"späť", bad})
	var plainText, coloured strings.Builder
	if err := tab.write(&plainText, false); err != nil {
		t.Fatal(err)
	}
	want := "NAME             N  LAST\nshort            7  x\nevil\\x1b[2J  12345  späť\n"
	if diff := cmp.Diff(want, plainText.String()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
	if err := tab.write(&coloured, true); err != nil {
		t.Fatal(err)
	}
	want = "\x1b[2mNAME\x1b[0m             \x1b[2mN\x1b[0m  \x1b[2mLAST\x1b[0m\nshort            7  x\nevil\\x1b[2J  12345  \x1b[31mspäť\x1b[0m\n"
	if diff := cmp.Diff(want, coloured.String()); diff != "" {
		t.Errorf("coloured table (-want +got):\n%s", diff)
	}
	var none strings.Builder
	if err := newTable("nothing is there", "NAME").write(&none, false); err != nil || none.String() != "nothing is there\n" {
		t.Errorf("an empty table: %q, %v", none.String(), err)
	}
}

func TestAPoisonRecordIsShownInFull(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	e := poisonEntry{Entry: poison.Entry{
		MessageID: "one", PoisonMessageID: "two", Copies: 1, Category: poison.CategoryHandler, Reason: "no\x1b[2J", Queue: "orders",
		BusinessKey: "order-7", DequeueCount: 2, InsertedAt: at, DeadLetteredAt: &at, SizeBytes: 3,
		Attempts: []queue.Attempt{
			{Number: 1, At: at.Add(-time.Hour), Category: "timeout", Error: "no answer", Worker: "pod-1"},
			{Number: 2, At: at},
		},
	}}
	var got strings.Builder
	e.describe(&got)
	want := `message id         one
poison message id  two
copies             1
category           handler
reason             no\x1b[2J
queue              orders
business key       order-7
deliveries         2
attempt 1          2026-07-01T11:00:00Z  timeout  no answer  pod-1
attempt 2          2026-07-01T12:00:00Z
dead-lettered      2026-07-01T12:00:00Z
copy inserted      2026-07-01T12:00:00Z
copy expires       never
bytes              3
headers            -
`
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("poison show (-want +got):\n%s", diff)
	}
}
