package dashboards_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/dashboards"
)

var update = flag.Bool("update", false, "write the golden files again")

func generate(t *testing.T, c dashboards.Config) []dashboards.Dashboard {
	t.Helper()
	all, err := dashboards.Generate(c)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func files(t *testing.T, c dashboards.Config, f dashboards.Format, o dashboards.Output) []dashboards.File {
	t.Helper()
	made, err := dashboards.Files(generate(t, c), f, o)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func TestGolden(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		config dashboards.Config
		format dashboards.Format
		output dashboards.Output
	}{
		"classic":      {dashboards.Config{}, dashboards.FormatClassic, dashboards.Output{}},
		"resource":     {dashboards.Config{}, dashboards.FormatResource, dashboards.Output{}},
		"configmap":    {dashboards.Config{}, dashboards.FormatConfigMap, dashboards.Output{Namespace: "monitoring", Labels: map[string]string{"release": "kps"}}},
		"provisioning": {dashboards.Config{}, dashboards.FormatProvisioning, dashboards.Output{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := filepath.Join("testdata", "golden", name)
			made := withoutClassic(t, files(t, tt.config, tt.format, tt.output), tt.format)
			if *update {
				if err := os.RemoveAll(folder); err != nil {
					t.Fatal(err)
				}
			}
			for _, f := range made {
				file := filepath.Join(folder, filepath.FromSlash(f.Name))
				if *update {
					if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
						t.Fatal(err)
					}
					if err := os.WriteFile(file, f.Data, 0o600); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(string(want), string(f.Data)); diff != "" {
					t.Errorf("%s (-golden +generated; -update writes it again):\n%s", file, diff)
				}
			}
			if diff := cmp.Diff(tree(t, folder), names(made)); diff != "" {
				t.Errorf("files (-golden +generated):\n%s", diff)
			}
		})
	}
}

// withoutClassic leaves out the classic dashboards that other formats hold, once they are seen to be the very same.
func withoutClassic(t *testing.T, made []dashboards.File, format dashboards.Format) []dashboards.File {
	t.Helper()
	if format != dashboards.FormatConfigMap && format != dashboards.FormatProvisioning {
		return made
	}
	var rest []dashboards.File
	held := 0
	for _, f := range made {
		text := string(f.Data)
		for _, c := range files(t, dashboards.Config{}, dashboards.FormatClassic, dashboards.Output{}) {
			if !strings.HasSuffix(f.Name, c.Name) && !strings.Contains(text, c.Name+": |") {
				continue
			}
			held++
			indented := strings.ReplaceAll("\n"+strings.TrimSuffix(string(c.Data), "\n"), "\n", "\n    ")
			text = strings.Replace(text, indented, " (classic)", 1)
			text = strings.Replace(text, string(c.Data), "(classic)", 1)
		}
		rest = append(rest, dashboards.File{Name: f.Name, Data: []byte(text)})
	}
	if held != 5 {
		t.Errorf("%s holds %d classic dashboards", format, held)
	}
	return rest
}

// tree lists the files below a folder, names those generated; both sorted.
func tree(t *testing.T, folder string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			path, err = filepath.Rel(folder, path)
			all = append(all, filepath.ToSlash(path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	return all
}

func names(made []dashboards.File) []string {
	all := make([]string, len(made))
	for i, f := range made {
		all[i] = f.Name
	}
	slices.Sort(all)
	return all
}

func TestTheSameConfigGivesTheSameBytes(t *testing.T) {
	t.Parallel()
	for _, f := range dashboards.Formats() {
		first := files(t, dashboards.Config{}, f, dashboards.Output{})
		for range 5 { // maps are walked in another order each time
			for i, again := range files(t, dashboards.Config{}, f, dashboards.Output{}) {
				if again.Name != first[i].Name || !bytes.Equal(again.Data, first[i].Data) {
					t.Fatalf("%s: %s differs from %s, made before", f, again.Name, first[i].Name)
				}
			}
		}
	}
}

// TestPanelsKeepTheirIDs holds what links and alerts name: an id is never given to another panel.
func TestPanelsKeepTheirIDs(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	seen := map[int]string{}
	for _, d := range generate(t, dashboards.Config{}) {
		fmt.Fprintf(&b, "%s\n", d.UID)
		lines := []string{}
		for _, p := range parse(t, d).panels() {
			if other, taken := seen[p.ID]; taken {
				t.Errorf("%q and %q both have the id %d", other, p.Title, p.ID)
			}
			seen[p.ID] = p.Title
			lines = append(lines, fmt.Sprintf("  %d %s\n", p.ID, p.Title))
		}
		slices.Sort(lines)
		b.WriteString(strings.Join(lines, ""))
	}
	file := filepath.Join("testdata", "panels.txt")
	if *update {
		if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("panels (-golden +generated):\n%s", diff)
	}
}

func TestConfigMapsAreSmallEnough(t *testing.T) {
	t.Parallel()
	// `kubectl apply` keeps the whole of it in an annotation, for which there are 256 KiB.
	for _, f := range files(t, dashboards.Config{}, dashboards.FormatConfigMap, dashboards.Output{}) {
		if len(f.Data) >= 256<<10 {
			t.Errorf("%s has %d bytes", f.Name, len(f.Data))
		}
	}
}

func TestBadConfigurationSaysWhatAndHow(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		config dashboards.Config
		output dashboards.Output
		format dashboards.Format
		want   []string
	}{
		"addresses that are none": {
			config: dashboards.Config{PageURL: "qwatch:9780", RunbookURL: "javascript:alert(1)"}, format: dashboards.FormatClassic,
			want: []string{`PageURL "qwatch:9780" is not an absolute http or https URL`, `RunbookURL "javascript:alert(1)" is not`},
		},
		"names that Kubernetes refuses": {
			output: dashboards.Output{Namespace: "My Space", Labels: map[string]string{"a b": "c", "release": "-"}, FolderAnnotation: "/x"},
			format: dashboards.FormatConfigMap,
			want:   []string{`namespace "My Space"`, `folder annotation "/x"`, `label "a b"`, `label release="-"`},
		},
		"a uid that Grafana refuses, a relative path": {
			output: dashboards.Output{FolderUID: "a/b", Path: "dashboards"}, format: dashboards.FormatProvisioning,
			want: []string{`folder uid "a/b"`, `provisioning path "dashboards" is not absolute`},
		},
		"a format that there is not": {format: "png", want: []string{`there is no format "png"`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all, err := dashboards.Generate(tt.config)
			if err == nil {
				_, err = dashboards.Files(all, tt.format, tt.output)
			}
			for _, want := range tt.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", fmt.Sprint(err), want)
				}
			}
		})
	}
}

func TestNoFolderGoesToTheTop(t *testing.T) {
	t.Parallel()
	for _, format := range dashboards.Formats() {
		for _, f := range files(t, dashboards.Config{}, format, dashboards.Output{Folder: "-"}) {
			for _, word := range []string{"grafana_folder", "grafana.app/folder", `"kind": "Folder"`, "folderUid: qwatch"} {
				if bytes.Contains(f.Data, []byte(word)) {
					t.Errorf("%s has %s", f.Name, word)
				}
			}
		}
	}
}

// The shapes below are what the tests read of classic JSON.
type grafanaDashboard struct {
	UID, Title, Description string
	Editable                *bool
	Links                   []grafanaLink
	Panels                  []grafanaPanel
	Templating              struct{ List []grafanaVariable }
	Annotations             struct{ List []struct{ Expr string } }
}

type grafanaLink struct {
	Title, URL, Tooltip   string
	IncludeVars, KeepTime bool
}

type grafanaVariable struct {
	Name, Type, AllValue string
	Multi, IncludeAll    bool
	Refresh              int
}

type grafanaPanel struct {
	ID                       int
	Type, Title, Description string
	Datasource               map[string]string
	GridPos                  struct{ X, Y, W, H int }
	Panels                   []any
	Targets                  []struct {
		RefID, Expr, LegendFormat, Format string
		Instant, Range                    bool
		Datasource                        map[string]string
	}
	FieldConfig struct {
		Defaults  map[string]any
		Overrides []struct {
			Matcher    struct{ ID, Options string }
			Properties []struct {
				ID    string
				Value any
			}
		}
	}
	Options map[string]any
}

func parse(t *testing.T, d dashboards.Dashboard) grafanaDashboard {
	t.Helper()
	text, err := d.Classic()
	if err != nil {
		t.Fatal(err)
	}
	var g grafanaDashboard
	if err := json.Unmarshal(text, &g); err != nil {
		t.Fatal(err)
	}
	return g
}

// panels are the panels without the rows.
func (g grafanaDashboard) panels() []grafanaPanel {
	return slices.DeleteFunc(slices.Clone(g.Panels), func(p grafanaPanel) bool { return p.Type == "row" })
}
