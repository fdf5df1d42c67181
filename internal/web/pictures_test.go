package web_test

import (
	"image/png"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// pictures are the states of the page that the documentation shows, each in light and in dark. The browser's scenarios
// in test/browser take them.
func pictures() []string {
	return []string{
		"fleet", "sort", "filter", "queue", "triage", "rehearsal", "progress", "replay", "refusal", "phone", "phone-table", "phone-queue", "phone-replay",
		"night", "fleet-10000",
	}
}

const (
	pictureBytes = 120 << 10
	docs         = "../../docs"
)

// The list of pictures, the files, the page of the documentation, and what the browser's scenarios take are one.
func TestTheDocumentationShowsThePage(t *testing.T) {
	t.Parallel()
	want := map[string]bool{}
	for _, name := range pictures() {
		for _, scheme := range []string{"light", "dark"} {
			want[name+"-"+scheme+".png"] = true
		}
	}
	text, err := os.ReadFile(filepath.Join(docs, "page.md"))
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	for _, m := range regexp.MustCompile(`!\[([^\]]*)\]\(images/([^)]+)\)`).FindAllStringSubmatch(string(text), -1) {
		if shown[m[2]] {
			t.Errorf("%s is shown twice", m[2])
		}
		shown[m[2]] = true
		if len(m[1]) < 10 {
			t.Errorf("%s is not described: %q", m[2], m[1])
		}
		if !want[m[2]] {
			t.Errorf("the documentation shows %s, which is no picture of the list", m[2])
		}
	}
	for name := range want {
		if !shown[name] {
			t.Errorf("docs/page.md does not show %s", name)
		}
		f, err := os.Open(filepath.Join(docs, "images", name))
		if err != nil {
			t.Error(err)
			continue
		}
		picture, err := png.DecodeConfig(f)
		_ = f.Close() // it was only read
		if err != nil || picture.Width < 300 || picture.Height < 300 {
			t.Errorf("%s is no picture of a page: %+v, %v", name, picture, err)
		}
	}
	files, err := os.ReadDir(filepath.Join(docs, "images"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case !want[f.Name()]:
			t.Errorf("docs/images/%s is no picture of the list", f.Name())
		case info.Size() > pictureBytes:
			t.Errorf("docs/images/%s has %d bytes, want %d at most", f.Name(), info.Size(), pictureBytes)
		}
	}
	var taken []string
	scenarios := os.DirFS("../../test/browser")
	err = fs.WalkDir(scenarios, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path == "browser.js" {
			return err
		}
		b, err := fs.ReadFile(scenarios, path)
		if err != nil {
			return err
		}
		// A state of the demo with a view, or a picture by name; names may come from a list.
		for _, m := range regexp.MustCompile(`state\(\w+, "([a-z-]+)", \{|shot\(page, "([a-z0-9-]+)-" \+ scheme|\["(phone[a-z-]*)", "`).FindAllStringSubmatch(string(b), -1) {
			taken = append(taken, strings.Join(m[1:], ""))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	list := pictures()
	slices.Sort(list)
	slices.Sort(taken)
	if !slices.Equal(list, taken) {
		t.Errorf("the scenarios take %q, the list has %q", taken, list)
	}
}
