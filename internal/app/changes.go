package app

import (
	"reflect"
	"slices"
	"strings"

	"github.com/qwatch/qwatch/internal/config"
	"github.com/qwatch/qwatch/internal/web"
)

// changes tells what a reload changed.
func changes(before, next *state) web.Reloaded {
	accounts := func(st *state) (all []named) {
		for i, a := range st.config.Accounts {
			plain := a
			plain.Pos, plain.Queues = config.Pos{}, nil
			all = append(all, named{a.Name, []any{plain, st.fleet.accounts[i]}})
		}
		return all
	}
	queues := func(st *state) (all []named) {
		for _, q := range st.fleet.Queues {
			plain := q.Config
			plain.Pos = config.Pos{}
			all = append(all, named{q.String(), []any{plain, q.Queue}})
		}
		return all
	}
	consumers := func(st *state) (all []named) {
		for _, c := range st.consumers {
			all = append(all, named{c.name, []any{c}})
		}
		return all
	}
	var settings []string
	differing(&settings, "watch", reflect.ValueOf(before.config.Watch), reflect.ValueOf(next.config.Watch))
	restart := sharingDiffers(before.config.Watch, next.config.Watch)
	settings = slices.DeleteFunc(settings, func(s string) bool {
		return slices.ContainsFunc(restart, func(r string) bool { return strings.HasPrefix(r, s) })
	})
	if !reflect.DeepEqual(before.config.Defaults, next.config.Defaults) {
		settings = append(settings, "defaults")
	}
	return web.Reloaded{
		Settings:  settings,
		Accounts:  compare(accounts(before), accounts(next)),
		Queues:    compare(queues(before), queues(next)),
		Consumers: compare(consumers(before), consumers(next)),
	}
}

// named is something with a name. It stays the same while its parts do: pointers by what they point at, but those
// to what is in use by themselves.
type named struct {
	name  string
	parts []any
}

func compare(before, next []named) (d web.Difference) {
	old := make(map[string]named, len(before))
	for _, n := range before {
		old[n.name] = n
	}
	for _, n := range next {
		o, ok := old[n.name]
		delete(old, n.name)
		switch {
		case !ok:
			d.Added = append(d.Added, n.name)
		case !same(o.parts, n.parts):
			d.Changed = append(d.Changed, n.name)
		}
	}
	for _, n := range before {
		if _, ok := old[n.name]; ok {
			d.Removed = append(d.Removed, n.name)
		}
	}
	return d
}

func same(a, b []any) bool {
	for i := range a {
		if reflect.ValueOf(a[i]).Kind() == reflect.Pointer {
			if a[i] != b[i] {
				return false
			}
			continue
		}
		if !reflect.DeepEqual(a[i], b[i]) {
			return false
		}
	}
	return true
}

// takesRestart ends what needsRestart tells of a setting.
const takesRestart = ": restart qwatch to apply it; until then it is as it was"

// needsRestart tells of the settings of the next configuration that are not those the process runs with and that
// only a restart applies. A section that a reload applies is to be taken out here.
func needsRestart(running, next *config.Config) []string {
	var paths []string
	differing(&paths, "scaling", reflect.ValueOf(running.Scaling), reflect.ValueOf(next.Scaling))
	differing(&paths, "server", reflect.ValueOf(running.Server), reflect.ValueOf(next.Server))
	paths = append(paths, sharingDiffers(running.Watch, next.Watch)...)
	if !reflect.DeepEqual(running.Telemetry, next.Telemetry) {
		paths = append(paths, "telemetry")
	}
	all := make([]string, 0, len(paths))
	for _, p := range paths {
		all = append(all, next.At(p)+takesRestart)
	}
	return all
}

// differing collects the settings of a section that differ.
func differing(paths *[]string, at string, a, b reflect.Value) {
	for i := range a.NumField() {
		name, _, _ := strings.Cut(a.Type().Field(i).Tag.Get("yaml"), ",")
		if name != "" && name != "-" && !reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()) {
			*paths = append(*paths, at+"."+name)
		}
	}
}
