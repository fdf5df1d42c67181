package main

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// billOfMaterials lists the modules that a Go binary was linked from, as the binary itself records them (what
// `go version -m` prints): a CycloneDX document in JSON, the same for the same binary.
func billOfMaterials(binary []byte, version string) ([]byte, error) {
	info, err := buildinfo.Read(bytes.NewReader(binary))
	if err != nil {
		return nil, fmt.Errorf("read what the binary was built from: %w", err)
	}
	purl := func(path, version string) string { return "pkg:golang/" + path + "@" + version }
	main := cdx.Component{
		Type: cdx.ComponentTypeApplication, Name: info.Main.Path, Version: version,
		BOMRef: purl(info.Main.Path, version), PackageURL: purl(info.Main.Path, version),
		Licenses: &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}},
	}
	toolchain := strings.TrimPrefix(info.GoVersion, "go")
	components := []cdx.Component{{
		Type: cdx.ComponentTypeLibrary, Name: "std", Version: toolchain, Description: "Go's standard library and runtime",
		BOMRef: purl("std", toolchain), PackageURL: purl("std", toolchain),
	}}
	uses := []string{components[0].BOMRef}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		c := cdx.Component{
			Type: cdx.ComponentTypeLibrary, Name: m.Path, Version: m.Version,
			BOMRef: purl(m.Path, m.Version), PackageURL: purl(m.Path, m.Version) + "?type=module",
		}
		if m.Sum != "" {
			c.Properties = &[]cdx.Property{{Name: "go:sum", Value: m.Sum}}
		}
		components, uses = append(components, c), append(uses, c.BOMRef)
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Component: &main, Properties: settings(info)}
	bom.Components = &components
	bom.Dependencies = &[]cdx.Dependency{{Ref: main.BOMRef, Dependencies: &uses}}
	var b bytes.Buffer
	if err := cdx.NewBOMEncoder(&b, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		return nil, fmt.Errorf("write the bill of materials: %w", err)
	}
	return b.Bytes(), nil
}

// settings are how it was built.
func settings(info *buildinfo.BuildInfo) *[]cdx.Property {
	var out []cdx.Property
	for _, s := range info.Settings {
		if s.Key == "-ldflags" {
			continue // the version, which is told already
		}
		out = append(out, cdx.Property{Name: "go:build:" + s.Key, Value: s.Value})
	}
	return &out
}
