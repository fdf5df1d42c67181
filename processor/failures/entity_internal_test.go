package failures

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/qwatch/qwatch/processor/internal/table"
)

func FuzzBodiesFitAndComeBack(f *testing.F) {
	for _, seed := range []string{
		"", "naïve 😀", "\x00", "a\x1bb", "\xed\xa0\x80", "line\r\n\tline",
		strings.Repeat("x", 32<<10), strings.Repeat("😀", 16<<10) + "x", "x" + strings.Repeat("😀", 16<<10), strings.Repeat("\xff", 64<<10) + "x",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > MaxBody {
			return
		}
		p := map[string]any{}
		setBody(p, &Body{Data: data, Size: len(data)})
		for name, value := range p {
			switch v := value.(type) {
			case string:
				if n := len(utf16.Encode([]rune(v))); n > maxUnits {
					t.Errorf("%s has %d UTF-16 units", name, n)
				}
			case aztables.EDMBinary:
				if len(v) > maxBinary {
					t.Errorf("%s has %d bytes", name, len(v))
				}
			}
		}
		if got := bodyOf(table.Row{Properties: p}); !bytes.Equal(got.Data, data) || got.Size != len(data) {
			t.Errorf("%q came back as %q of %d", data, got.Data, got.Size)
		}
	})
}

func FuzzKeysAreAllowedAndDiffer(f *testing.F) {
	f.Add("orders", "orders!01")
	f.Add("a/b", "a=2Fb")
	f.Add(strings.Repeat("m", 200), strings.Repeat("m", 201))
	allowed := regexp.MustCompile(`^[A-Za-z0-9._=-]*$`)
	f.Fuzz(func(t *testing.T, a, b string) {
		ka, kb := escape(a), escape(b)
		if !allowed.MatchString(ka) || len(ka) > 1<<10 {
			t.Errorf("%q becomes %q", a, ka)
		}
		if (ka == kb) != (a == b) {
			t.Errorf("%q and %q become %q and %q", a, b, ka, kb)
		}
	})
}
