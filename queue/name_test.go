package queue_test

import (
	"strings"
	"testing"

	"github.com/qwatch/qwatch/queue"
)

func TestCheckName(t *testing.T) {
	long := strings.Repeat("a", 63)
	for name, want := range map[string]string{
		"orders":      "",
		"abc":         "",
		"0a0":         "",
		"a-b-c":       "",
		long:          "",
		"":            "queue name is empty: give 3 to 63 lower-case letters, digits and hyphens",
		"ab":          `queue name "ab" has 2 characters: the service takes 3 to 63`,
		long + "b":    `queue name "` + long + `b" has 64 characters: the service takes 3 to 63`,
		"Orders":      `queue name "Orders" has upper-case letters: the service takes lower case only, as in "orders"`,
		"my_queue":    `queue name "my_queue" has the character '_': the service takes lower-case letters, digits and hyphens`,
		"orders/msg":  `queue name "orders/msg" has the character '/': the service takes lower-case letters, digits and hyphens`,
		"größe":       `queue name "größe" has the character 'ö': the service takes lower-case letters, digits and hyphens`,
		"a b":         `queue name "a b" has the character ' ': the service takes lower-case letters, digits and hyphens`,
		"-abc":        `queue name "-abc" begins or ends with a hyphen: it must begin and end with a letter or digit`,
		"abc-":        `queue name "abc-" begins or ends with a hyphen: it must begin and end with a letter or digit`,
		"a--b":        `queue name "a--b" has two hyphens in a row: the service takes single ones`,
		"a\x00b":      `queue name "a\x00b" has the character '\x00': the service takes lower-case letters, digits and hyphens`,
		"bad\xffutf8": `queue name "bad\xffutf8" has the character '�': the service takes lower-case letters, digits and hyphens`,
	} {
		err := queue.CheckName(name)
		if got := message(err); got != want {
			t.Errorf("CheckName(%.70q)\n got %s\nwant %s", name, got, want)
		}
	}
	if err := queue.CheckName(strings.Repeat("x", 1<<20)); len(err.Error()) > 300 {
		t.Errorf("a name of 1 MiB gives a message of %d bytes", len(err.Error()))
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
