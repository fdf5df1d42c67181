package main

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// build writes the layout, and returns the digest of its index.
func (o options) build(ctx context.Context) (string, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range o.platforms {
		platform, err := v1.ParsePlatform(p)
		if err != nil {
			return "", err
		}
		image, err := o.image(ctx, platform)
		if err != nil {
			return "", fmt.Errorf("image for %s: %w", p, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: platform}})
	}
	if err := os.RemoveAll(o.out); err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(o.out), 0o755); err != nil {
		return "", err
	}
	at, err := layout.Write(o.out, empty.Index)
	if err != nil {
		return "", fmt.Errorf("write %s: %w", o.out, err)
	}
	name := layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": o.version})
	if err := at.AppendIndex(index, name); err != nil {
		return "", fmt.Errorf("write %s: %w", o.out, err)
	}
	digest, err := index.Digest()
	return digest.String(), err
}

// image is the image of one platform.
func (o options) image(ctx context.Context, p *v1.Platform) (v1.Image, error) {
	binary, err := o.compile(ctx, p)
	if err != nil {
		return nil, err
	}
	bom, err := billOfMaterials(binary, o.version)
	if err != nil {
		return nil, err
	}
	// The binary changes most often, and comes last.
	var layers []mutate.Addendum
	for _, files := range [][]file{
		{{name: "usr/share/sbom/qwatch.cdx.json", mode: 0o444, data: bom}},
		{{name: "qwatch", mode: 0o555, data: binary}},
	} {
		l, err := layer(files, o.created)
		if err != nil {
			return nil, err
		}
		layers = append(layers, mutate.Addendum{Layer: l, History: v1.History{
			Created: v1.Time{Time: o.created}, CreatedBy: "tools/image", Comment: "/" + files[0].name,
		}})
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if image, err = mutate.Append(image, layers...); err != nil {
		return nil, err
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Variant = p.OS, p.Architecture, p.Variant
	file.Created = v1.Time{Time: o.created}
	file.Config = o.config()
	return mutate.ConfigFile(image, file)
}

// config is how a container of the image runs. The Dockerfile says the same.
func (o options) config() v1.Config {
	labels := map[string]string{
		"org.opencontainers.image.title":       "qwatch",
		"org.opencontainers.image.description": "Watch, consume and look after Azure Storage queues",
		"org.opencontainers.image.source":      "https://github.com/qwatch/qwatch",
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.version":     o.version,
	}
	if o.revision != "" {
		labels["org.opencontainers.image.revision"] = o.revision
	}
	return v1.Config{
		User:         "65532:65532",
		Env:          []string{"QWATCH_CONFIG=/etc/qwatch/qwatch.yaml"},
		Entrypoint:   []string{"/qwatch"},
		Cmd:          []string{"run"},
		ExposedPorts: map[string]struct{}{"9780/tcp": {}, "9781/tcp": {}, "9782/tcp": {}},
		Healthcheck: &v1.HealthConfig{
			Test: []string{"CMD", "/qwatch", "healthcheck"}, Interval: 30 * time.Second, Timeout: 5 * time.Second,
			StartPeriod: 30 * time.Second, Retries: 3,
		},
		Labels: labels,
	}
}

// compile builds the program. What the environment says about Go's flags and targets does not count.
func (o options) compile(ctx context.Context, p *v1.Platform) ([]byte, error) {
	dir, err := os.MkdirTemp("", "qwatch-image-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	out := filepath.Join(dir, "qwatch")
	flags := "-s -w -buildid= -X main.version=" + o.version
	if o.revision != "" {
		flags += " -X main.commit=" + o.revision
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", flags, "-o", out, "./cmd/qwatch")
	cmd.Dir = o.module
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off", "GOEXPERIMENT=", "GOFIPS140=off",
		"GOOS="+p.OS, "GOARCH="+p.Architecture, "GOAMD64=v1", "GOARM64=v8.0")
	if said, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build: %w\n%s", err, bytes.TrimSpace(said))
	}
	return os.ReadFile(out)
}

// file is a file of the image; its name has no leading slash.
type file struct {
	name string
	mode int64
	data []byte
}

// layer is a layer with the files and the folders they lie in, all owned by root and of one time.
func layer(files []file, at time.Time) (v1.Layer, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	made := map[string]bool{}
	for _, f := range files {
		parts := strings.Split(f.name, "/")
		for i := 1; i < len(parts); i++ {
			dir := strings.Join(parts[:i], "/") + "/"
			if made[dir] {
				continue
			}
			made[dir] = true
			if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755, ModTime: at, Format: tar.FormatUSTAR}); err != nil {
				return nil, err
			}
		}
		h := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode, Size: int64(len(f.data)), ModTime: at, Format: tar.FormatUSTAR}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer))
}
