package queue

import (
	"encoding/xml"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestScanMessages(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	const one = `<QueueMessage><MessageId>i</MessageId><InsertionTime>Fri, 02 Jan 2026 03:04:05 GMT</InsertionTime><ExpirationTime>Fri, 02 Jan 2026 03:04:05 GMT</ExpirationTime>` +
		`<PopReceipt>AgA+/w==</PopReceipt><TimeNextVisible>Fri, 02 Jan 2026 03:04:05 GMT</TimeNextVisible><DequeueCount>3</DequeueCount><MessageText>TEXT</MessageText></QueueMessage>`
	list := func(text string) string {
		return "\uFEFF<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<QueueMessagesList>" + strings.ReplaceAll(one, "TEXT", text) + "</QueueMessagesList>"
	}
	tests := map[string]struct {
		xml  string
		text string
		none bool
	}{
		"plain text":              {xml: list("hello"), text: "hello"},
		"entities and references": {xml: list("&lt;a b=&quot;c&quot;&gt; &amp;amp; &apos; &#65;&#x1F600;&#xD;&#xA;"), text: "<a b=\"c\"> &amp; ' A😀\r\n"},
		"a raw CRLF stays":        {xml: list("a\r\nb"), text: "a\r\nb"},
		"spaces stay":             {xml: list("  a  "), text: "  a  "},
		"CDATA":                   {xml: list("<![CDATA[a<b]]>"), text: "a<b"},
		"a comment":               {xml: strings.Replace(list("x"), "<QueueMessage>", "<!-- c --><QueueMessage>", 1), text: "x"},
		"an unknown element":      {xml: strings.Replace(list("x"), "<MessageId>", "<Later>1</Later><MessageId>", 1), text: "x"},
		"white space between":     {xml: strings.ReplaceAll(list("x"), "><", ">\n  <"), text: "x"},
		"no text":                 {xml: strings.Replace(list("x"), "<MessageText>x</MessageText>", "<MessageText />", 1), text: ""},
		"an empty list":           {xml: `<?xml version="1.0" encoding="utf-8"?><QueueMessagesList />`, none: true},
		"an empty list in full":   {xml: `<QueueMessagesList></QueueMessagesList>`, none: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := scanMessages(tc.xml)
			if err != nil {
				t.Fatal(err)
			}
			want := []listed{{id: "i", receipt: "AgA+/w==", text: tc.text, inserted: at, expires: at, nextVisible: at, dequeueCount: 3}}
			if tc.none {
				want = nil
			}
			if d := cmp.Diff(want, got, cmp.AllowUnexported(listed{})); d != "" && len(want)+len(got) > 0 {
				t.Error(d)
			}
		})
	}
	for name, text := range map[string]string{
		"a page of HTML": "<html><body>proxy</body></html>", "nothing": "", "cut short": list("x")[:200],
		"a date that is none": strings.Replace(list("x"), "Fri,", "Foo,", 1), "a message without an id": strings.Replace(list("x"), "<MessageId>i</MessageId>", "", 1),
		"a count below zero":   strings.Replace(list("x"), ">3<", ">-3<", 1),
		"a count that is none": strings.Replace(list("x"), ">3<", ">three<", 1),
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := scanMessages(text); err == nil {
				t.Errorf("read %d messages from it", len(got))
			}
		})
	}
}

// The scanner and encoding/xml agree wherever both read a document.
func FuzzScanMessages(f *testing.F) {
	f.Add("hello", "id", 1)
	f.Add("&lt;&#65;&", "\r\n", -1)
	f.Add("<![CDATA[x]]>", "</MessageId>", 0)
	f.Fuzz(func(t *testing.T, text, id string, n int) {
		var b strings.Builder
		b.WriteString("<QueueMessagesList><QueueMessage><MessageId>" + id + "</MessageId><MessageText>")
		if n > 0 {
			if err := xml.EscapeText(&b, []byte(text)); err != nil {
				t.Fatal(err)
			}
		} else {
			b.WriteString(text)
		}
		b.WriteString("</MessageText></QueueMessage></QueueMessagesList>")
		got, ok := scanList(b.String())
		if !ok {
			return
		}
		var doc struct {
			Messages []struct {
				MessageID   string `xml:"MessageId"`
				MessageText string
			} `xml:"QueueMessage"`
		}
		if xml.Unmarshal([]byte(b.String()), &doc) != nil {
			return // the scanner is the more lenient one
		}
		if len(doc.Messages) != len(got) {
			t.Fatalf("scanned %d, decoded %d", len(got), len(doc.Messages))
		}
		lines := strings.NewReplacer("\r\n", "\n", "\r", "\n") // what Go's decoder does, and the scanner must not
		for i, m := range doc.Messages {
			if lines.Replace(got[i].text) != lines.Replace(m.MessageText) || lines.Replace(got[i].id) != lines.Replace(m.MessageID) {
				t.Fatalf("scanned %q, decoded %q", got[i].text, m.MessageText)
			}
		}
	})
}
