package conformance

import (
	"encoding/base64"
	"fmt"
)

var textCases = map[string]func(*env){
	"text that XML can hold comes back the same": func(e *env) {
		e.create()
		for name, text := range map[string]string{
			"markup":                        `<a href="x">&amp; 'b'</a>`,
			"an entity":                     "&lt;pre-escaped&gt; &#x41; &nbsp;",
			"the end of a CDATA section":    "]]>",
			"a CDATA section":               "<![CDATA[x]]>",
			"a comment":                     "<!-- x -->",
			"a processing instruction":      `<?xml version="1.0"?>`,
			"a closing tag":                 "</MessageText></QueueMessage>",
			"quotes":                        `"double" 'single' ` + "`back`",
			"JSON":                          `{"a":1,"b":"<x>","c":null,"d":"\u0001"}`,
			"Base64":                        base64.StdEncoding.EncodeToString([]byte{0, 1, 2, 255}),
			"spaces around":                 "  lead and trail  ",
			"spaces inside":                 "a  b   c",
			"a tab":                         "a\tb",
			"line feeds":                    "\nline1\nline2\n\n",
			"characters beyond Latin":       "Grüße, 世界, مرحبا",
			"an emoji":                      "😀👩‍💻",
			"line and next-line separators": "a\u0085b\u2028c\u2029d",
			"a replacement character":       "\uFFFD",
			"a private-use character":       "\uE000",
			"a byte order mark inside":      "a\uFEFFb",
			"a delete character":            "a\u007fb",
			"percent and plus":              "100%25+1 %zz",
			"nothing but a space":           " ",
			"nothing but a line feed":       "\n",
		} {
			e.expect(name+" comes back", fmt.Sprintf("%q", e.roundTrip(text)), fmt.Sprintf("%q", text))
		}
	},
	"an empty text is a message": func(e *env) {
		e.create()
		e.expect("an empty text comes back", fmt.Sprintf("%q", e.roundTrip("")), `""`)
	},
	"a carriage return comes back": func(e *env) {
		e.create()
		e.expect("a carriage return and line feed comes back", fmt.Sprintf("%q", e.roundTrip("a\r\nb\rc")), `"a\r\nb\rc"`)
	},
	"a raw carriage return is a line feed": func(e *env) {
		e.create()
		e.expect("send a raw carriage return", e.messages("POST", "", document("a\r\nb\rc")), "201")
		e.expect("a raw carriage return comes back", fmt.Sprintf("%q", text(e.one(1).MessageText)), `"a\nb\nc"`)
	},
	"other forms of the document are right": func(e *env) {
		e.create()
		for name, c := range map[string]struct{ body, want string }{
			"an XML declaration":         {`<?xml version="1.0" encoding="utf-8"?>` + document("x"), "x"},
			"a byte order mark":          {"\ufeff" + document("x"), "x"},
			"white space between":        {"<QueueMessage>\n  <MessageText>x</MessageText>\n</QueueMessage>\n", "x"},
			"a CDATA section as markup":  {document("<![CDATA[<x>&amp;]]>"), "<x>&amp;"},
			"decimal references":         {document("&#120;&#233;"), "xé"},
			"hexadecimal references":     {document("&#x78;&#x1F600;"), "x😀"},
			"attributes":                 {`<QueueMessage xmlns:i="x"><MessageText i:a="b">x</MessageText></QueueMessage>`, "x"},
			"a raw quote and apostrophe": {document(`"'`), `"'`},
		} {
			e.expect("send "+name, e.messages("POST", "", c.body), "201")
			all := e.receive(1, 30)
			if len(all) != 1 {
				e.Errorf("%s: received %d messages", name, len(all))
				continue
			}
			e.expect(name+", received", fmt.Sprintf("%q", text(all[0].MessageText)), fmt.Sprintf("%q", c.want))
		}
	},
	"a document that is not well-formed is refused": func(e *env) {
		e.create()
		for name, body := range map[string]string{
			"no XML":                      "not xml",
			"no end tags":                 "<QueueMessage><MessageText>unclosed",
			"crossed tags":                "<QueueMessage><MessageText>x</QueueMessage></MessageText>",
			"a raw ampersand":             document("a & b"),
			"an unknown entity":           document("&nope;"),
			"another root":                "<Message><MessageText>x</MessageText></Message>",
			"no text element":             "<QueueMessage></QueueMessage>",
			"an element in the text":      document("a<b>c</b>"),
			"a reference to a control":    document("a&#x1;b"),
			"a reference to a surrogate":  document("a&#xD800;b"),
			"something after the root":    document("x") + "<more/>",
			"an empty body":               "",
			"half a tag":                  "<QueueMessage><MessageText>x</MessageText></QueueMess",
			"a document type declaration": `<!DOCTYPE x [<!ENTITY a "b">]>` + document("&a;"),
		} {
			e.expect("send "+name, e.messages("POST", "", body), "400 InvalidXmlDocument")
		}
		e.expect("messages after refused documents", e.count(), 0)
	},
	"a character XML forbids is refused": func(e *env) {
		e.create()
		e.expect("send a raw control character", e.messages("POST", "", document("a\x01b")), "400 InvalidXmlDocument")
		e.expect("receive after a raw control character", e.messages("GET", "", ""), "200")
	},
	"a byte that is not UTF-8 is refused": func(e *env) {
		e.create()
		e.expect("send a byte that is not UTF-8", e.messages("POST", "", document("a\xffb")), "400 InvalidXmlDocument")
	},
	"a noncharacter is refused": func(e *env) {
		e.create()
		e.expect("send U+FFFE", e.messages("POST", "", document("a\uFFFEb")), "400 InvalidXmlDocument")
	},
}

// roundTrip sends, receives and deletes one text.
func (e *env) roundTrip(t string) string {
	e.Helper()
	e.send(t)
	m := e.one(30)
	_, err := e.q.DeleteMessage(e.ctx, *m.MessageID, *m.PopReceipt, nil)
	e.must(err)
	return text(m.MessageText)
}
