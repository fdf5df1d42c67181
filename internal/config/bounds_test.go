package config_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/qwatch/qwatch/internal/config"
	"github.com/qwatch/qwatch/queue"
)

func TestFilesThatCannotBeReadSayWhy(t *testing.T) {
	_, _, err := config.Load("testdata/absent.yaml", env)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v is not fs.ErrNotExist", err)
	}
	if got, want := fmt.Sprint(err), "testdata/absent.yaml: there is no such file; name the configuration with -c"; got != want {
		t.Errorf("error = %q, want %q", got, want)
	}
	var all *config.Errors
	if _, _, err = config.Load(t.TempDir(), env); !errors.As(err, &all) || !strings.Contains(err.Error(), "cannot be read: is a directory") {
		t.Errorf("loading a directory: %v", err)
	}
}

func TestTheProcessEnvironmentIsTheDefault(t *testing.T) {
	t.Setenv("QWATCH_TEST_TEAM", "from the process")
	cfg, _, err := config.Parse("qwatch.yaml", []byte(account+"    queues: [{name: orders, team: \"${QWATCH_TEST_TEAM}\"}]\n"), nil)
	if err != nil || cfg.Accounts[0].Queues[0].Team != "from the process" {
		t.Errorf("config %v, error %v", cfg, err)
	}
}

func TestRelativePathsStartFromTheFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "qwatch.yaml")
	text := "accounts:\n  - {name: orders, connectionStringFile: secrets/orders, queues: [{name: orders}]}\nserver: {tokensFile: /etc/tokens}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, _, err := config.Load(path, env)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := cfg.Accounts[0].ConnectionStringFile, filepath.Join(dir, "secrets/orders"); got != want {
		t.Errorf("connectionStringFile = %q, want %q", got, want)
	}
	if got := cfg.Server.TokensFile; got != "/etc/tokens" {
		t.Errorf("tokensFile = %q", got)
	}
}

func TestHostileInputIsBounded(t *testing.T) {
	var bomb strings.Builder
	bomb.WriteString(account + "    queues: &q0 [" + strings.Repeat("{name: orders},", 1000) + "]\n")
	for i := range 3000 {
		fmt.Fprintf(&bomb, "  - {name: a%d, connectionString: UseDevelopmentStorage=true, queues: *q0}\n", i)
	}
	var merges strings.Builder
	merges.WriteString("accounts: &m0 {name: x}\n")
	for i := range 40 {
		merges.WriteString(fmt.Sprintf("k%d: &m%d {<<: [*m%d, *m%d, *m%d]}\n", i, i+1, i, i, i))
	}
	wide := "x: &x [" + strings.Repeat("a,", 10000) + "]\naccounts:\n  - name: a\n    discovery: {include: *x}\n" + strings.Repeat("  - {discovery: {include: *x}}\n", 200)
	tests := map[string]struct{ text, want string }{
		"globs repeated by aliases":         {wide, "values once its aliases are followed"},
		"a list repeated by aliases":        {bomb.String(), "names too many queues: more than 50000 in all; use discovery"},
		"a merge of merges of merges":       {merges.String(), "qwatch.yaml:1: accounts: must be a list"},
		"a mapping that merges itself":      {"server: &a\n  listen: ':1'\n  <<: *a\naccounts: []\n", "merges (<<) more than 10"},
		"a very deep list":                  {"accounts: " + strings.Repeat("[", 9000) + strings.Repeat("]", 9000), "must be a mapping"},
		"a list too deep for the parser":    {"accounts: " + strings.Repeat("[", 20000), "not valid YAML"},
		"a file of over 16 MiB":             {"# " + strings.Repeat("x", config.MaxBytes), "larger than 16 MiB"},
		"a large file broken at its end":    {strings.Repeat("# "+strings.Repeat("x", 97)+"\n", 20000) + "accounts: \"", "a quote opened here is not closed"},
		"more faults than anyone will read": {account + "    queues:\n" + strings.Repeat("      - {name: X}\n", 3000), "and 2000 more faults"},
		"too many queues for the defaults":  {account + "    queues: [" + strings.Repeat("{name: orders},", 30000) + "]\ndefaults: [" + strings.Repeat("{match: x},", 1000) + "]\n", "names too many queues for so many defaults"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, _, err := config.Parse("qwatch.yaml", []byte(tt.text), env)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				text := fmt.Sprint(err)
				t.Errorf("error = %.500s, want one with %q", text, tt.want)
			}
		})
	}
}

func TestWarnings(t *testing.T) {
	var many strings.Builder
	many.WriteString(account + "    queues:\n")
	for i := range 2000 {
		fmt.Fprintf(&many, "      - name: queue-%d\n", i)
	}
	tests := map[string]struct{ text, want string }{
		"polls that do not fit the request limit": {many.String(), `qwatch.yaml:1: watch.interval: 1m cannot be kept for account "orders": one round of its 2000 queues takes 8000 requests, which is 1m20s at 100 a second, and so each queue is polled every 1m20s; lengthen interval or raise requestsPerSecond`},
		"counts alone take half the requests":     {many.String() + "defaults: [{match: '*', countsOnly: true}]\n", ""},
		"queues without poison take half":         {many.String() + "defaults: [{match: '*', noPoison: true}]\n", ""},
		"an account with nothing to watch":        {account, "qwatch.yaml:2: accounts[0]: has neither queues nor discovery, so that nothing is watched; add one of them"},
		"a default that matches nothing":          {account + "    queues: [{name: orders}]\ndefaults: [{match: 'ordres*', tier: 1}]\n", "qwatch.yaml:5: defaults[0].match: matches none of the configured queues; mend the glob or remove the default"},
		"a default that may match what is found":  {account + "    discovery: {}\ndefaults: [{match: '*-dev', tier: 3}, {match: 'orders/*', tier: 2}]\n", ""},
		"a default for an account without discovery": {
			account + "    discovery: {}\n  - {name: other, connectionString: UseDevelopmentStorage=true, queues: [{name: one}]}\ndefaults: [{match: 'other/two', tier: 3}]\n",
			"qwatch.yaml:6: defaults[0].match: matches none of the configured queues; mend the glob or remove the default",
		},
		"a default for consumers that are not there": {account + "    queues: [{name: orders}]\ndefaults: [{match: '*', consumer: {concurrency: 4}}]\n", "qwatch.yaml:5: defaults[0].consumer: has no effect: none of the queues that match has a consumer, and a default does not give one; write consumer: {} at the queue"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, warnings := parse(t, tt.text)
			var got []string
			for _, w := range warnings {
				got = append(got, w.String())
			}
			if s := strings.Join(got, "\n"); s != tt.want {
				t.Errorf("warnings:\n%s\nwant:\n%s", s, tt.want)
			}
		})
	}
}

func TestQueueNamesAreJudgedAsTheClientDoes(t *testing.T) {
	names := []string{"abc", "a-b-c", "0-0", "ab", "", "a--b", "-ab", "ab-", "aB-c", "a_b", "a.b", "äöü", strings.Repeat("a", 56), strings.Repeat("a", 63), strings.Repeat("a", 64), "a b", "a\nb"}
	for _, name := range names {
		text := account + "    queues: [{poisonQueue: other, name: \"" + strings.ReplaceAll(name, "\n", "\\n") + "\"}]\n"
		_, _, err := config.Parse("qwatch.yaml", []byte(text), env)
		if want := queue.CheckName(name); (err == nil) != (want == nil) {
			t.Errorf("name %q: configuration says %v, the client %v", name, err, want)
		}
	}
}

func TestPrintingAConfigurationShowsNoSecret(t *testing.T) {
	cfg, _, err := config.Load("testdata/good/full.yaml", env)
	if err != nil {
		t.Fatal(err)
	}
	noSecret(t, "fmt", fmt.Sprintf("%v %+v %s %v %+v %#v", cfg, cfg, cfg, cfg.Accounts[2], cfg.Accounts[1], cfg.Accounts[0].Queues[0].Consumer.Handler.HTTP))
}

func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/bad/*.yaml", "testdata/good/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	const hidden = "h1dd3n-value"
	fill := func(string) (string, bool) { return hidden, true }
	f.Fuzz(func(t *testing.T, data []byte) {
		cfg, _, err := config.Parse("qwatch.yaml", data, fill)
		if err != nil {
			var all *config.Errors
			if !errors.As(err, &all) {
				t.Fatalf("error is a %T", err)
			}
			for line := range strings.SplitSeq(err.Error(), "\n") {
				if !located.MatchString(line) {
					t.Errorf("no file and line in %q", line)
				}
			}
			if strings.Contains(err.Error(), hidden) && !strings.Contains(string(data), hidden) {
				t.Errorf("the error shows a value of the environment: %v", err)
			}
			return
		}
		shown, err := cfg.YAML()
		if err != nil {
			t.Fatal(err)
		}
		again, _, err := config.Parse("qwatch.yaml", shown, fill)
		if err != nil {
			t.Fatalf("what YAML shows cannot be read again: %v\n%s", err, shown)
		}
		if twice, err := again.YAML(); err != nil || string(twice) != string(shown) {
			t.Fatalf("reading what YAML shows changes it: %v\n%s\n%s", err, shown, twice)
		}
	})
}
