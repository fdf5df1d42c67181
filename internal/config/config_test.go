package config_test

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/internal/config"
)

var update = flag.Bool("update", false, "write the golden files")

const secret = "s3cr3t-c2VjcmV0LXZhbHVl"

var environment = map[string]string{
	"ORDERS_CONNECTION_STRING": "DefaultEndpointsProtocol=https;AccountName=orders;AccountKey=" + secret,
	"SECRET":                   secret,
	"WORD":                     "s3cr3tword",
	"NUMBER":                   "16",
	"EMPTY":                    "",
	"TEAM":                     "legacy team",
	"HANDLER_URL":              "https://user:" + secret + "@handlers.example/orders?code=" + secret,
}

func env(name string) (string, bool) {
	v, ok := environment[name]
	return v, ok
}

// secrets are values of the environment that must never be seen, and those pasted into bad files.
var secrets = []string{secret, "s3cr3tword", "hunter2", "c2VjcmV0"}

func noSecret(t *testing.T, what, text string) {
	t.Helper()
	for _, s := range secrets {
		if strings.Contains(text, s) {
			t.Errorf("%s shows the secret %q:\n%s", what, s, text)
		}
	}
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// located is how every line of an error begins.
var located = regexp.MustCompile(`^qwatch\.yaml:\d+: `)

func TestBrokenFilesSayWhatIsWrongAndWhere(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 80 {
		t.Fatalf("found %d broken files, want the whole table", len(files))
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			cfg, _, err := config.Parse("qwatch.yaml", data, env)
			if err == nil || cfg != nil {
				t.Fatalf("the broken file was taken: %v", cfg)
			}
			var all *config.Errors
			if !errors.As(err, &all) || len(all.Faults) == 0 {
				t.Fatalf("error is a %T without faults, want *config.Errors", err)
			}
			for line := range strings.SplitSeq(err.Error(), "\n") {
				if !located.MatchString(line) {
					t.Errorf("no file and line in %q", line)
				}
			}
			noSecret(t, "the error", err.Error())
			golden(t, strings.TrimSuffix(file, ".yaml")+".golden", err.Error()+"\n")
		})
	}
}

func TestGoodFilesAreShownInFull(t *testing.T) {
	files, err := filepath.Glob("testdata/good/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no good files: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			cfg, warnings, err := config.Load(file, env)
			if err != nil {
				t.Fatal(err)
			}
			shown, err := cfg.YAML()
			if err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			out.WriteString("# effective\n" + string(shown) + "# warnings\n")
			for _, w := range warnings {
				out.WriteString(w.String() + "\n")
			}
			noSecret(t, "the effective configuration", out.String())
			golden(t, strings.TrimSuffix(file, ".yaml")+".golden", out.String())

			again, _, err := config.Parse(file, shown, env)
			if err != nil {
				t.Fatalf("what YAML shows cannot be read again: %v", err)
			}
			twice, err := again.YAML()
			if err != nil {
				t.Fatal(err)
			}
			// Relative paths start from the file's directory once more.
			dir := filepath.Dir(file) + "/"
			if diff := cmp.Diff(string(shown), strings.ReplaceAll(string(twice), dir+dir, dir)); diff != "" {
				t.Errorf("reading what YAML shows changes it (-first +second):\n%s", diff)
			}
		})
	}
}
