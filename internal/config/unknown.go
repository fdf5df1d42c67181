package config

import (
	"reflect"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

var keyName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,40}$`)

// printable is a key that may stand in an error: one that is a name, and so is no secret pasted amiss.
func printable(key string) string {
	if keyName.MatchString(key) {
		return key
	}
	return "(key)"
}

// unknown reports a key that means nothing here, with the one that was probably meant.
func (d *decoder) unknown(key *yaml.Node, t reflect.Type, at place) {
	name := key.Value
	known := d.fields(t)
	at = at.field(printable(name))
	if isNull(key) || !keyName.MatchString(name) {
		d.fault(key, at, "is not a setting; the settings here are %s", names(known))
		return
	}
	if best := nearest(name, known); best != "" {
		d.fault(key, at, "is not a setting; did you mean %q?", best)
		return
	}
	for _, f := range known {
		ft := t.FieldByIndex(f.index).Type
		for ft.Kind() == reflect.Pointer || ft.Kind() == reflect.Slice {
			ft = ft.Elem()
		}
		if ft.Kind() != reflect.Struct {
			continue
		}
		if _, ok := find(d.fields(ft), name); ok {
			d.fault(key, at, "is not a setting here; it belongs under %q", f.name)
			return
		}
	}
	d.fault(key, at, "is not a setting; the settings here are %s", names(known))
}

func names(fs []field) string {
	list := make([]string, len(fs))
	for i, f := range fs {
		list[i] = f.name
	}
	return strings.Join(list, ", ")
}

// nearest returns the known key a mistyped one resembles; empty when none does.
func nearest(name string, known []field) string {
	squash := func(s string) string {
		return strings.ToLower(strings.NewReplacer("_", "", "-", "", ".", "").Replace(s))
	}
	best, least := "", 1+min(2, len(name)/3)
	for _, f := range known {
		if n := distance(squash(name), squash(f.name)); n < least {
			best, least = f.name, n
		}
	}
	return best
}

// distance is Levenshtein's, with a swap of neighbours counting once.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
