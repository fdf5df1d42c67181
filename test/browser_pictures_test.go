package test_test

import (
	"bytes"
	"cmp"
	"image"
	"image/color"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// pictureColours is how many colours a picture keeps: a page has few, and the shades of its letters' edges
// are told apart by nobody.
const pictureColours = 128

// squeeze makes the pictures in a folder small, for they travel with every clone.
func squeeze(t *testing.T, folder string) {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(folder, "*.png"))
	if err != nil || len(all) == 0 {
		t.Fatalf("there are no pictures in %s: %v", folder, err)
	}
	for _, name := range all {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		full, err := png.Decode(bytes.NewReader(text))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, done := full.(*image.Paletted); done {
			continue
		}
		var out bytes.Buffer
		if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, fewer(full)); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// fewer draws a picture with pictureColours colours, each pixel with the nearest.
func fewer(m image.Image) *image.Paletted {
	b := m.Bounds()
	counts := map[color.RGBA]int{}
	at := func(x, y int) color.RGBA {
		r, g, b, _ := m.At(x, y).RGBA()
		return color.RGBA{uint8(r >> 8), uint8(g >> 8), uint8(b >> 8), 255}
	}
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			counts[at(x, y)]++
		}
	}
	palette := paletteOf(counts)
	nearest := make(map[color.RGBA]uint8, len(counts))
	for c := range counts {
		nearest[c] = uint8(palette.Index(c))
	}
	out := image.NewPaletted(b, palette)
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			out.SetColorIndex(x, y, nearest[at(x, y)])
		}
	}
	return out
}

// paletteOf halves the widest box of colours until there are enough boxes. The colours of large areas stay as they are.
func paletteOf(counts map[color.RGBA]int) color.Palette {
	by := func(c color.RGBA, axis int) int { return int([3]uint8{c.R, c.G, c.B}[axis]) }
	order := func(a, b color.RGBA) int {
		return cmp.Or(cmp.Compare(a.R, b.R), cmp.Compare(a.G, b.G), cmp.Compare(a.B, b.B))
	}
	all := slices.SortedFunc(maps.Keys(counts), func(a, b color.RGBA) int { return cmp.Or(cmp.Compare(counts[b], counts[a]), order(a, b)) })
	var palette color.Palette
	kept := min(pictureColours/2, len(all))
	for _, c := range all[:kept] {
		palette = append(palette, c)
	}
	boxes := [][]color.RGBA{all[kept:]}
	for len(boxes[0]) > 0 && len(boxes) < pictureColours-kept {
		widest, axis, width := -1, 0, 0
		for i, box := range boxes {
			for a := range 3 {
				least, most := 255, 0
				for _, c := range box {
					least, most = min(least, by(c, a)), max(most, by(c, a))
				}
				if most-least > width {
					widest, axis, width = i, a, most-least
				}
			}
		}
		if widest < 0 {
			break
		}
		box := boxes[widest]
		slices.SortFunc(box, func(a, b color.RGBA) int { return cmp.Or(cmp.Compare(by(a, axis), by(b, axis)), order(a, b)) })
		boxes[widest] = box[:len(box)/2]
		boxes = append(boxes, box[len(box)/2:])
	}
	for _, box := range boxes {
		r, g, b, n := 0, 0, 0, 0
		for _, c := range box {
			w := counts[c]
			r, g, b, n = r+int(c.R)*w, g+int(c.G)*w, b+int(c.B)*w, n+w
		}
		if n > 0 {
			palette = append(palette, color.RGBA{uint8(r / n), uint8(g / n), uint8(b / n), 255})
		}
	}
	return palette
}
