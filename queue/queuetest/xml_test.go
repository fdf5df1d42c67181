package queuetest

import (
	"bytes"
	"encoding/xml"
	"testing"
	"time"
	"unicode/utf8"
)

// FuzzParseMessage checks that no document makes the parser panic, that what it accepts
// is text XML can hold, that writing it and reading it again changes nothing, and that
// the fast path agrees with encoding/xml.
func FuzzParseMessage(f *testing.F) {
	for _, s := range []string{
		"", "x", openText + closeText, openText + "x" + closeText, openText + "a &lt; &amp;&gt;&quot;&apos;&#34;&#39;&#xA;&#xD;&#x9;" + closeText,
		openText + "é😀" + closeText, openText + "&#xD800;" + closeText, openText + "<![CDATA[&#xD800;]]>" + closeText,
		openText + "]]>" + closeText, openText + "a\r\nb" + closeText, openText + "&" + closeText, openText + "&#;" + closeText,
		openText + "\x00" + closeText, openText + "\xff" + closeText, openText + "\uffff" + closeText,
		`<?xml version="1.0" encoding="utf-16"?>` + openText + closeText, "<QueueMessage/>", openText + closeText + "<a/>",
		"\ufeff" + openText + closeText, "<!DOCTYPE a>" + openText + closeText,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		text, ok := parseMessage(b)
		if !ok {
			return
		}
		if !utf8.ValidString(text) {
			t.Fatalf("%q is not UTF-8", text)
		}
		for _, r := range text {
			if r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0xFFFE || r == 0xFFFF {
				t.Fatalf("%q holds %U", text, r)
			}
		}
		if slow, ok := parseDocument(bytes.TrimPrefix(b, []byte("\ufeff"))); !ok || slow != text {
			t.Fatalf("fast path read %q, encoding/xml %q, %v", text, slow, ok)
		}
		out := append(appendText([]byte(openText), text), closeText...)
		if again, ok := parseMessage(out); !ok || again != text {
			t.Fatalf("%q came back as %q, %v", text, again, ok)
		}
		var v struct{ MessageText string }
		if err := xml.Unmarshal(out, &v); err != nil || v.MessageText != text {
			t.Fatalf("%q was read as %q: %v", text, v.MessageText, err)
		}
	})
}

func TestTimesAreWrittenLikeHTTPs(t *testing.T) {
	for _, at := range []string{"2000-01-01T00:00:00Z", "2024-02-29T23:59:59Z", "2026-12-31T09:05:01Z", "9999-12-31T23:59:59Z"} {
		want, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(appendTime(nil, want.Unix())); got != want.Format("Mon, 02 Jan 2006 15:04:05 GMT") {
			t.Errorf("%s is written %s", at, got)
		}
	}
}
