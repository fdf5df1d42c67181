package web

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const goodTokens = `
- {name: ann, role: operator, token: correct-horse-battery}
- name: grafana
  role: reader
  token: 1234567890123456
`

func TestTokensFileIsStrictAndItsFaultsShowNoToken(t *testing.T) {
	t.Parallel()
	const secret = "hunter2hunter2hunter2"
	for name, tt := range map[string]struct{ text, fault string }{
		"two tokens":               {goodTokens, ""},
		"none on purpose":          {"[]", ""},
		"an empty file":            {"# later\n", "it is empty: write a list of name, role and token ([] for none)"},
		"not YAML":                 {"- {name: ann\n- token: " + secret + "\n", "line 1: it is not YAML"},
		"an alias to nothing":      {"- {name: ann, role: operator, token: *" + secret + "}\n", "it is not YAML"},
		"an alias":                 {"- {name: &n ann, role: operator, token: *n}\n", "line 1: token: want text"},
		"two documents":            {"[]\n---\n[]\n", "there is more than one document in it"},
		"a mapping":                {"ann: " + secret + "\n", "line 1: want a list of name, role and token"},
		"a list of secrets":        {"- " + secret + "\n", "line 1: want name, role and token"},
		"an unknown key":           {"- {name: ann, " + secret + ": operator}\n", "line 1: unknown key: there are name, role and token"},
		"a key twice":              {"- name: ann\n  name: bob\n", "line 2: name is there twice"},
		"no name":                  {"- {role: operator, token: " + secret + "}\n", "line 1: name: want 1 to 64 letters, digits and . _ @ -"},
		"a name that breaks a log": {"- {name: \"a\\nb\", role: operator, token: " + secret + "}\n", "line 1: name: want 1 to 64 letters, digits and . _ @ -"},
		"a name as the token":      {"- {name: " + secret + ", role: operator, token: " + secret + "}\n", "line 1: name and token are the same"},
		"no role":                  {"- {name: ann, token: " + secret + "}\n", "line 1: role: want reader or operator"},
		"another role":             {"- {name: ann, role: " + secret + ", token: x}\n", "line 1: role: want reader or operator"},
		"a short token":            {"- {name: ann, role: operator, token: fifteen-letters}\n", "line 1: token: want 16 to 512 characters"},
		"a long token":             {"- {name: ann, role: operator, token: " + strings.Repeat("x", 513) + "}\n", "line 1: token: want 16 to 512 characters"},
		"a token with a space":     {"- {name: ann, role: operator, token: " + secret + " x}\n", "line 1: token: want printable ASCII characters without spaces"},
		"no token":                 {"- {name: ann, role: operator, token: }\n", "line 1: token: want text"},
		"binary":                   {"- {name: ann, role: operator, token: !!binary aHVudGVyMmh1bnRlcjI=}\n", "line 1: token: want text"},
		"a name twice": {
			"- {name: ann, role: operator, token: " + secret + "}\n- {name: ann, role: reader, token: " + secret + "2}\n",
			`line 2: there is another token named "ann"`,
		},
		"a token twice": {
			"- {name: ann, role: operator, token: " + secret + "}\n- {name: bob, role: reader, token: " + secret + "}\n",
			`line 2: the token of "bob" is another's too`,
		},
		"all faults at once": {"- {name: ann}\n- {name: bob}\n", "line 1: role: want reader or operator\nline 2: role: want reader or operator"},
		"too many":           {strings.Repeat("- x\n", 1001), "there are more than 1000 tokens"},
		"too large":          {strings.Repeat("#", 1<<20+1), "it is larger than 1048576 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := parseTokens([]byte(tt.text))
			got := ""
			if err != nil {
				got = err.Error()
			}
			if got != tt.fault {
				t.Errorf("fault %q, want %q", got, tt.fault)
			}
			if strings.Contains(got, secret) {
				t.Errorf("the fault shows a token: %s", got)
			}
		})
	}
}

func FuzzParseTokens(f *testing.F) {
	for _, seed := range []string{goodTokens, "[]", "- {name: a, role: reader, token: *x}", "- - -", "---\n...\n", "- {<<: {name: a}}", "%YAML 1.2\n---\n[]"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		list, err := parseTokens(text)
		if err != nil {
			return
		}
		for _, c := range list {
			if c.name == "" || c.role != RoleReader && c.role != RoleOperator {
				t.Errorf("a token %q with role %q was taken", c.name, c.role)
			}
		}
	})
}

func TestTokensAreReadAgainAndABrokenFileChangesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "tokens.yaml")
		write := func(text string) {
			t.Helper()
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var logs bytes.Buffer
		if _, err := OpenTokens(path, nil); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("a file that is not there: %v", err)
		}
		write(goodTokens)
		tokens, err := OpenTokens(path, slog.New(slog.NewTextHandler(&logs, nil)))
		if err != nil {
			t.Fatal(err)
		}
		want := func(secret, name string) {
			t.Helper()
			if c, ok := tokens.find(secret); c.name != name || ok != (name != "") {
				t.Errorf("find: %q %v, want %q", c.name, ok, name)
			}
		}
		want("correct-horse-battery", "ann")
		want("1234567890123456", "grafana")
		want("correct-horse-batterz", "")
		want("", "")

		write("- {name: bob, role: operator, token: another-good-token}\n")
		want("correct-horse-battery", "ann") // not looked at again within the second
		time.Sleep(time.Second)
		want("correct-horse-battery", "")
		want("another-good-token", "bob")

		// Replaced by another file of the same size and age, as mounted secrets may be.
		old, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		next := path + ".next"
		if err := os.WriteFile(next, []byte("- {name: bob, role: operator, token: another-good-tokem}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.Chtimes(next, old.ModTime(), old.ModTime()), os.Rename(next, path)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		want("another-good-token", "")
		want("another-good-tokem", "bob")
		write("- {name: bob, role: operator, token: another-good-token}\n\n")
		time.Sleep(time.Second)
		want("another-good-token", "bob")

		write("- {name: eve, role: operator, token: short}\n")
		for range 3 {
			time.Sleep(time.Second)
			want("another-good-token", "bob")
		}
		if n := strings.Count(logs.String(), "tokens file not read again"); n != 1 {
			t.Errorf("the broken file was told %d times, want once:\n%s", n, &logs)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		want("another-good-token", "bob")
		write("[]")
		time.Sleep(time.Second)
		want("another-good-token", "")
		for _, secret := range []string{"correct-horse", "another-good", "short"} {
			if strings.Contains(logs.String(), secret) {
				t.Errorf("the log shows a token:\n%s", &logs)
			}
		}
	})
}
