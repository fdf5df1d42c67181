package plainjson_test

import (
	"strings"
	"testing"

	"github.com/qwatch/qwatch/internal/plainjson"
)

func TestUnambiguous(t *testing.T) {
	for name, tt := range map[string]struct{ text, says string }{
		"plain":                           {`{"a":1,"b":{"x":[1,"\ud83d\ude00"]}}`, ""},
		"escapes":                         {`{"a":"\\ud800 \n"}`, ""},
		"a name twice":                    {`{"a":1,"a":2}`, `"a" more than once`},
		"a name twice, in another case":   {`{"a":1,"A":2}`, `"a" more than once`},
		"a name twice, of another letter": {`{"ids":1,"idſ":2}`, `"ids" more than once`},
		"a name twice, once escaped":      {`{"a":1,"\u0061":2}`, `"a" more than once`},
		"half a surrogate pair":           {`{"a":"\ud800"}`, "surrogate"},
		"a list":                          {`[]`, "not a JSON object"},
		"nothing":                         {``, "not a JSON object"},
	} {
		err := plainjson.Unambiguous([]byte(tt.text))
		if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: error %v, want %q", name, err, tt.says)
		}
	}
}
