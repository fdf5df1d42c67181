package queue

import (
	"errors"
	"strings"
	"testing"
)

func TestDecodeByEncoding(t *testing.T) {
	tests := map[string]struct {
		enc        Encoding
		text, body string
		unreadable bool
	}{
		"none leaves Base64 alone":           {EncodingNone, "aGVsbG8=", "aGVsbG8=", false},
		"base64 decodes":                     {EncodingBase64, "aGVsbG8=", "hello", false},
		"base64 refuses plain JSON":          {EncodingBase64, `{"a":1}`, "", true},
		"base64 refuses bad padding":         {EncodingBase64, "aGVsbG8", "", true},
		"base64 of nothing":                  {EncodingBase64, "", "", false},
		"auto decodes Base64 of JSON":        {EncodingAuto, "eyJhIjoxfQ==", `{"a":1}`, false},
		"auto leaves JSON alone":             {EncodingAuto, `{"a":1}`, `{"a":1}`, false},
		"auto leaves a number alone":         {EncodingAuto, "12345678", "12345678", false},
		"auto leaves a word alone":           {EncodingAuto, "test", "test", false},
		"auto leaves a JSON word alone":      {EncodingAuto, "true", "true", false},
		"auto leaves what decodes to binary": {EncodingAuto, "AAECAw==", "AAECAw==", false},
		"auto of nothing":                    {EncodingAuto, "", "", false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			b, err := tc.enc.decode(tc.text)
			if errors.Is(err, ErrUnreadable) != tc.unreadable || string(b) != tc.body {
				t.Errorf("%q, %v", b, err)
			}
			if err != nil && strings.Contains(err.Error(), tc.text) {
				t.Error("the error quotes the body")
			}
		})
	}
}

func TestTextTheWireCannotCarry(t *testing.T) {
	for text, want := range map[string]string{
		"a\x01b": "character U+0001 at byte 1", "ab\xff": "byte 2 of the text is not UTF-8", "\uFFFE": "character U+FFFE at byte 0",
		"\uFFFD ok": "", "tab\tcr\r\nlf": "", "\U0010FFFF": "",
	} {
		err := checkXML(text)
		if got := ""; err != nil {
			got = err.Error()
			if want == "" || !strings.Contains(got, want) {
				t.Errorf("%q: %v, want %q", text, got, want)
			}
		} else if want != "" {
			t.Errorf("%q passes, want %q", text, want)
		}
	}
}
