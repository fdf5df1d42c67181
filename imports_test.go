package qwatch_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	module  = "github.com/qwatch/qwatch"
	azqueue = "github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue"
)

// layers is the direction of imports, highest first. A package may import what lies in a
// lower layer, the leaves, and its own tree (parent or children); nothing beside it, nothing above.
// A name stands for the package and everything below it, the longest name winning.
var layers = [][]string{
	{"cmd"},
	{"internal/doctor"},
	{"internal/app"},
	{"internal/web", "internal/client", "internal/scaler", "internal/forward", "internal/config", "internal/otlp", "internal/grafana", "telemetry"},
	{"internal/story", "internal/verify"},
	{"processor", "collector", "alerts", "dashboards", "internal/cluster"},
	{"internal/triage"},
	{"poison"},
	{"queue"},
	leaves,
}

// leaves import nothing of this module.
var leaves = []string{"health", "queue/queuetest", "internal/metric", "internal/plainjson"}

// support is what tests alone may import: it may use anything, package testing too.
var support = []string{"internal/conformance", "bench"}

// A goPackage is what `go list -json` says of one package.
type goPackage struct {
	ImportPath, Name                   string
	Imports, TestImports, XTestImports []string
}

// violations lists what breaks the rules of imports, one sentence each, sorted.
func violations(packages []goPackage) []string {
	var found []string
	report := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	for _, p := range packages {
		from, ours := within(p.ImportPath)
		if !ours || from == "" {
			continue
		}
		isSupport := place(from, support) != ""
		layer, name := layerOf(from)
		if layer < 0 && !isSupport {
			report("%s has no place in the layers: give it one", from)
			continue
		}
		for _, imported := range p.Imports {
			to, ours := within(imported)
			switch {
			case imported == "testing" && !isSupport:
				report("%s imports testing outside its tests", from)
			case isUnder(imported, azqueue) && name != "queue" && !isSupport:
				report("%s imports the Azure SDK's queue client: only queue may", from)
			case !ours || isSupport:
			case place(to, support) != "":
				report("%s imports %s, which only tests may", from, to)
			case !mayImport(from, to):
				report("%s imports %s: imports point the other way", from, to)
			}
		}
		for _, imported := range slices.Concat(p.TestImports, p.XTestImports) {
			if isUnder(imported, azqueue) && !isSupport && name != "queue" && name != "queue/queuetest" {
				report("%s's tests import the Azure SDK's queue client: test through package queue", from)
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func mayImport(from, to string) bool {
	fromLayer, fromName := layerOf(from)
	toLayer, toName := layerOf(to)
	if fromName == toName { // its own tree
		return !slices.Contains(leaves, fromName) || from == to
	}
	return toLayer > fromLayer
}

// layerOf returns the index in layers and the name there that the package falls under; -1 when none does.
func layerOf(pkg string) (layer int, name string) {
	layer = -1
	for i, names := range layers {
		if n := place(pkg, names); len(n) > len(name) {
			layer, name = i, n
		}
	}
	return layer, name
}

// place returns the longest of names that pkg is or lies below; "" when none.
func place(pkg string, names []string) string {
	var best string
	for _, n := range names {
		if isUnder(pkg, n) && len(n) > len(best) {
			best = n
		}
	}
	return best
}

// within returns the path inside this module, and whether the import is of this module.
func within(importPath string) (string, bool) {
	if importPath == module {
		return "", true
	}
	return strings.CutPrefix(importPath, module+"/")
}

func isUnder(path, parent string) bool {
	return path == parent || strings.HasPrefix(path, parent+"/")
}

func TestImportsPointOneWay(t *testing.T) {
	t.Parallel()
	packages := goList(t)
	if len(packages) < 2 {
		t.Fatalf("go list found %d packages: the rules were not checked", len(packages))
	}
	for _, v := range violations(packages) {
		t.Error(v)
	}
}

func TestImportRulesNoticeViolations(t *testing.T) {
	t.Parallel()
	pkg := func(path string, imports ...string) goPackage {
		p := goPackage{ImportPath: module + "/" + path}
		for _, i := range imports {
			if i == "testing" || strings.HasPrefix(i, azqueue) {
				p.Imports = append(p.Imports, i)
				continue
			}
			p.Imports = append(p.Imports, module+"/"+i)
		}
		return p
	}
	inTests := func(p goPackage) goPackage { // the same imports, in its external tests
		p.Imports, p.XTestImports = nil, p.Imports
		return p
	}
	for name, tt := range map[string]struct {
		packages []goPackage
		want     []string
	}{
		"the intended graph is clean": {packages: []goPackage{
			pkg("cmd/qwatch", "internal/app", "internal/config", "queue/queuetest", "queue"),
			pkg("internal/app", "internal/web", "internal/forward", "collector", "health", "internal/metric"),
			pkg("internal/web", "collector", "processor", "health"),
			pkg("internal/config", "processor", "queue"),
			pkg("processor/dedup", "processor"),
			pkg("processor", "poison", "queue", "internal/metric"),
			pkg("poison", "queue"),
			pkg("queue", azqueue+"/v2"),
			pkg("queue/blobstore", "queue"),
			pkg("queue/queuetest"),
			inTests(pkg("queue/queuetest", "internal/conformance", azqueue+"/v2")),
			pkg("internal/conformance", "queue", "queue/queuetest", azqueue+"/v2", "testing"),
			pkg("health"), pkg("internal/metric"),
		}},
		"a lower layer imports a higher one": {
			packages: []goPackage{pkg("queue", "poison"), pkg("poison", "processor"), pkg("processor", "internal/app")},
			want: []string{
				"poison imports processor: imports point the other way",
				"processor imports internal/app: imports point the other way",
				"queue imports poison: imports point the other way",
			},
		},
		"a package imports its neighbour": {
			packages: []goPackage{pkg("internal/web", "internal/config"), pkg("alerts/x", "dashboards")},
			want: []string{
				"alerts/x imports dashboards: imports point the other way",
				"internal/web imports internal/config: imports point the other way",
			},
		},
		"a leaf imports something of ours": {
			packages: []goPackage{pkg("health", "internal/metric"), pkg("queue/queuetest", "queue")},
			want: []string{
				"health imports internal/metric: imports point the other way",
				"queue/queuetest imports queue: imports point the other way",
			},
		},
		"another package imports the SDK's queue client": {
			packages: []goPackage{pkg("poison", azqueue+"/v2"), pkg("queue/queuetest", azqueue), inTests(pkg("collector", azqueue+"/v2/sas"))},
			want: []string{
				"collector's tests import the Azure SDK's queue client: test through package queue",
				"poison imports the Azure SDK's queue client: only queue may",
				"queue/queuetest imports the Azure SDK's queue client: only queue may",
			},
		},
		"testing or test support in the program": {
			packages: []goPackage{pkg("queue/queuetest", "testing"), pkg("cmd/qwatch", "internal/conformance")},
			want: []string{
				"cmd/qwatch imports internal/conformance, which only tests may",
				"queue/queuetest imports testing outside its tests",
			},
		},
		"a package nobody placed": {
			packages: []goPackage{pkg("internal/util"), pkg("queueing")},
			want: []string{
				"internal/util has no place in the layers: give it one",
				"queueing has no place in the layers: give it one",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, violations(tt.packages)); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
		})
	}
}

func goList(t *testing.T) []goPackage {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Name,Imports,TestImports,XTestImports", "./...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.Bytes())
	}
	var packages []goPackage
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		switch err := dec.Decode(&p); {
		case errors.Is(err, io.EOF):
			return packages
		case err != nil:
			t.Fatalf("read go list's answer: %v", err)
		}
		packages = append(packages, p)
	}
}
