package config_test

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/internal/config"
)

// keys lists the paths of every YAML key below a type.
func keys(t reflect.Type, path string) []string {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		if t.Kind() == reflect.Slice {
			path += "[]"
		}
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	var list []string
	for f := range t.Fields() {
		name, flags, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case flags == "inline":
			list = append(list, keys(f.Type, path)...)
		case name != "" && name != "-":
			at := strings.TrimPrefix(path+"."+name, ".")
			list = append(list, at)
			list = append(list, keys(f.Type, at)...)
		}
	}
	return list
}

func TestTheReferenceHasEveryKeyAndNoOther(t *testing.T) {
	data, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-zA-Z0-9.\\[\\]]+)` \\|").FindAllStringSubmatch(string(data), -1) {
		documented = append(documented, m[1])
	}
	slices.Sort(documented)
	var want []string
	for _, k := range keys(reflect.TypeFor[config.Config](), "") {
		top := !strings.Contains(k, ".")
		setting := strings.HasPrefix(k, "defaults[].") && k != "defaults[].match" // told once, at the queues
		if !top && !setting {
			want = append(want, k)
		}
	}
	slices.Sort(want)
	if len(want) < 60 {
		t.Fatalf("found only %d keys", len(want))
	}
	if diff := cmp.Diff(want, documented); diff != "" {
		t.Errorf("keys in docs/configuration.md (-want +got):\n%s", diff)
	}
}

func TestTheReferencesExampleIsGood(t *testing.T) {
	data, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), "```yaml\n")
	example, _, _ := strings.Cut(rest, "```")
	_, warnings, err := config.Parse("qwatch.yaml", []byte(example), env)
	if err != nil || len(warnings) > 0 {
		t.Errorf("warnings %v, error:\n%v", warnings, err)
	}
}
