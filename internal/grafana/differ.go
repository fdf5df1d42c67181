package grafana

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
)

// differences says where got is not as wanted, by path. What got has beyond is not counted, for Grafana
// adds fields of its own; in lists, it is.
func differences(want, got any) []string {
	var found []string
	compare("", want, got, &found)
	return found
}

func compare(path string, want, got any, found *[]string) {
	switch want := want.(type) {
	case map[string]any:
		got, ok := got.(map[string]any)
		if !ok {
			*found = append(*found, path)
			return
		}
		for _, key := range slices.Sorted(maps.Keys(want)) {
			value, there := got[key]
			if !there && isNothing(want[key]) {
				continue // left out is the same
			}
			compare(strings.TrimPrefix(path+"."+key, "."), want[key], value, found)
		}
	case []any:
		got, ok := got.([]any)
		if !ok || len(got) != len(want) {
			*found = append(*found, path)
			return
		}
		for i := range want {
			compare(fmt.Sprintf("%s[%d]", path, i), want[i], got[i], found)
		}
	default:
		if !reflect.DeepEqual(want, got) && !sameDuration(path, want, got) {
			*found = append(*found, path)
		}
	}
}

// isNothing says that v is what a missing field is taken as.
func isNothing(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case bool:
		return !v
	case float64:
		return v == 0
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	default:
		return false
	}
}

// sameDuration knows that 60m is 1h, where durations are.
func sameDuration(path string, want, got any) bool {
	if !strings.HasSuffix(path, ".for") && !strings.HasSuffix(path, ".keep_firing_for") {
		return false
	}
	a, _ := want.(string)
	b, _ := got.(string)
	x, err := model.ParseDuration(a)
	if err != nil {
		return false
	}
	y, err := model.ParseDuration(b)
	return err == nil && x == y
}

// changedPanels are the titles of panels that differ, and the names of other parts of the dashboard that do.
func changedPanels(want, got map[string]any) []string {
	before := map[string]any{}
	for _, p := range list(got["panels"]) {
		before[panelKey(p)] = p
	}
	var changed []string
	for _, p := range list(want["panels"]) {
		key := panelKey(p)
		was, there := before[key]
		delete(before, key)
		switch {
		case !there:
			changed = append(changed, "adds "+panelName(p))
		case len(differences(p, was)) > 0:
			changed = append(changed, "changes "+panelName(p))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(before)) {
		changed = append(changed, "removes "+panelName(before[key]))
	}
	rest := maps.Clone(want)
	delete(rest, "panels")
	tops := map[string]bool{}
	for _, path := range differences(rest, got) {
		top, _, _ := strings.Cut(path, ".")
		top, _, _ = strings.Cut(top, "[")
		tops[top] = true
	}
	for _, top := range slices.Sorted(maps.Keys(tops)) {
		changed = append(changed, "changes "+top)
	}
	return changed
}

func list(v any) []any {
	l, _ := v.([]any)
	return l
}

func panelKey(p any) string {
	m, _ := p.(map[string]any)
	return fmt.Sprint(m["type"] == "row", " ", m["id"])
}

func panelName(p any) string {
	m, _ := p.(map[string]any)
	if m["type"] == "row" {
		return fmt.Sprintf("row %q", m["title"])
	}
	return fmt.Sprintf("panel %q", m["title"])
}
