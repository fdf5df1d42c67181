//go:build drill

package test_test

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/test/peer"
)

// An ociImage is one platform of an image, unpacked.
type ociImage struct {
	root   string // where its files are
	config struct {
		Architecture, OS string
		Config           ociConfig
	}
	layers []string // digests
}

type ociConfig struct {
	User            string
	Env, Entrypoint []string
	Cmd             []string
	ExposedPorts    map[string]struct{}
	Labels          map[string]string
	Healthcheck     struct{ Test []string }
}

// O6: the image is built without a container engine, twice the same, and runs unpacked: from scratch, not as root.
func TestDrillImage(t *testing.T) {
	first, digest := buildImage(t, "..")
	amd, arm := unpack(t, first, "amd64"), unpack(t, first, "arm64")

	t.Run("two builds, in different places, give the same digest", func(t *testing.T) {
		if _, again := buildImage(t, copyOfSource(t)); again != digest {
			t.Errorf("digests %s and %s", digest, again)
		}
	})
	t.Run("the Dockerfile says the same", func(t *testing.T) { dockerfileAgrees(t, amd.config.Config) })
	for _, i := range []ociImage{amd, arm} {
		t.Run(i.config.Architecture, func(t *testing.T) {
			isStatic(t, i)
			listsItsModules(t, i)
			if i.config.Config.User != "65532:65532" {
				t.Errorf("user %q", i.config.Config.User)
			}
		})
	}
	t.Run("it runs, and its health check succeeds", func(t *testing.T) { runImage(t, amd) })
}

// buildImage runs the image tool on a source tree.
func buildImage(t *testing.T, source string) (layout, digest string) {
	t.Helper()
	source, err := filepath.Abs(source)
	if err != nil {
		t.Fatal(err)
	}
	layout = filepath.Join(t.TempDir(), "image")
	cmd := exec.Command("go", "run", "./image", "-o", layout, "-version", "v0.0.0-test", "-revision", "0123abc", source)
	cmd.Dir = filepath.Join(source, "tools")
	out, err := cmd.Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			err = fmt.Errorf("%w\n%s", err, exit.Stderr)
		}
		t.Fatalf("build the image: %v", err)
	}
	return layout, strings.TrimSpace(string(out))
}

// copyOfSource copies what git knows of the tree, to where its path differs.
func copyOfSource(t *testing.T) string {
	t.Helper()
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = ".."
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "somewhere", "else")
	for name := range strings.SplitSeq(strings.Trim(string(out), "\x00"), "\x00") {
		data, err := os.ReadFile(filepath.Join("..", name))
		if errors.Is(err, os.ErrNotExist) {
			continue // deleted, and not committed
		}
		if err == nil {
			err = os.MkdirAll(filepath.Dir(filepath.Join(to, name)), 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(to, name), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return to
}

type descriptor struct {
	MediaType, Digest string
	Platform          struct{ Architecture string }
}

// unpack reads one platform of a layout as a container runtime would, digests checked.
func unpack(t *testing.T, layout, architecture string) ociImage {
	t.Helper()
	var index, platforms struct{ Manifests []descriptor }
	read(t, filepath.Join(layout, "index.json"), "", &index)
	if len(index.Manifests) != 1 {
		t.Fatalf("%d entries in the layout's index", len(index.Manifests))
	}
	blob := func(digest string) string {
		return filepath.Join(layout, "blobs", strings.Replace(digest, ":", "/", 1))
	}
	read(t, blob(index.Manifests[0].Digest), index.Manifests[0].Digest, &platforms)
	i := slices.IndexFunc(platforms.Manifests, func(d descriptor) bool { return d.Platform.Architecture == architecture })
	if i < 0 {
		t.Fatalf("no image for %s in %+v", architecture, platforms)
	}
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	read(t, blob(platforms.Manifests[i].Digest), platforms.Manifests[i].Digest, &manifest)
	image := ociImage{root: t.TempDir()}
	read(t, blob(manifest.Config.Digest), manifest.Config.Digest, &image.config)
	for _, l := range manifest.Layers {
		if l.MediaType != "application/vnd.oci.image.layer.v1.tar+gzip" {
			t.Errorf("a layer is %s", l.MediaType)
		}
		image.layers = append(image.layers, l.Digest)
		checkDigest(t, blob(l.Digest), l.Digest)
		untar(t, blob(l.Digest), image.root)
	}
	return image
}

func read(t *testing.T, file, digest string, into any) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if digest != "" {
		checkDigest(t, file, digest)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

func checkDigest(t *testing.T, file, digest string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	if got := "sha256:" + hex.EncodeToString(sum[:]); got != digest {
		t.Fatalf("%s has the digest %s", digest, got)
	}
}

func untar(t *testing.T, file, to string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Gid != 0 || h.Mode&0o022 != 0 {
			t.Errorf("%s is %d:%d %o: nobody but root may write it", h.Name, h.Uid, h.Gid, h.Mode)
		}
		if h.Typeflag == tar.TypeDir {
			if err := os.MkdirAll(filepath.Join(to, h.Name), 0o755); err != nil {
				t.Fatal(err)
			}
			continue
		}
		data, err := io.ReadAll(r)
		if err == nil {
			err = os.WriteFile(filepath.Join(to, h.Name), data, os.FileMode(h.Mode))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// isStatic checks that a binary needs no file to start.
func isStatic(t *testing.T, i ociImage) {
	t.Helper()
	f, err := elf.Open(filepath.Join(i.root, "qwatch"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	want := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[i.config.Architecture]
	if f.Machine != want {
		t.Errorf("machine %v, want %v", f.Machine, want)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("it is linked dynamically: %v", p.Type)
		}
	}
}

// listsItsModules compares the bill of materials with what `go version -m` says of the binary.
func listsItsModules(t *testing.T, i ociImage) {
	t.Helper()
	out, err := exec.Command("go", "version", "-m", filepath.Join(i.root, "qwatch")).Output()
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, m := range regexp.MustCompile(`(?m)^\tdep\t(\S+)\t(\S+)`).FindAllStringSubmatch(string(out), -1) {
		want = append(want, m[1]+"@"+m[2])
	}
	var bom struct {
		BomFormat, SpecVersion string
		Components             []struct{ Name, Version, Purl string }
	}
	read(t, filepath.Join(i.root, "usr/share/sbom/qwatch.cdx.json"), "", &bom)
	var got []string
	for _, c := range bom.Components {
		if c.Name == "std" {
			continue
		}
		got = append(got, c.Name+"@"+c.Version)
		if !strings.HasPrefix(c.Purl, "pkg:golang/"+c.Name+"@"+c.Version) {
			t.Errorf("%s has the purl %s", c.Name, c.Purl)
		}
	}
	if bom.BomFormat != "CycloneDX" || len(want) < 20 {
		t.Errorf("format %q %s, %d modules", bom.BomFormat, bom.SpecVersion, len(want))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("modules (-binary +bill):\n%s", diff)
	}
}

// dockerfileAgrees compares what the Dockerfile sets with the image's configuration.
func dockerfileAgrees(t *testing.T, c ociConfig) {
	t.Helper()
	data, err := os.ReadFile("../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	_, final, ok := strings.Cut(string(data), "\nFROM scratch\n")
	if !ok {
		t.Fatal("the Dockerfile's last stage is not from scratch")
	}
	list := func(s []string) string { return `["` + strings.Join(s, `", "`) + `"]` }
	var ports []string
	for p := range c.ExposedPorts {
		ports = append(ports, strings.TrimSuffix(p, "/tcp"))
	}
	slices.Sort(ports)
	for _, line := range []string{
		"USER " + c.User, "ENV " + c.Env[0], "ENTRYPOINT " + list(c.Entrypoint), "CMD " + list(c.Cmd),
		"EXPOSE " + strings.Join(ports, " "), " CMD " + list(c.Healthcheck.Test[1:]),
	} {
		if !strings.Contains(final, line+"\n") {
			t.Errorf("the Dockerfile lacks %q", line)
		}
	}
	for name, value := range c.Labels {
		if strings.HasSuffix(name, "version") || strings.HasSuffix(name, "revision") {
			value = "$"
		}
		if !strings.Contains(final, name+`="`+value) {
			t.Errorf("the Dockerfile lacks the label %s=%q", name, value)
		}
	}
}

// runImage runs the image's program with its own files as the root directory, as its own user.
func runImage(t *testing.T, i ociImage) {
	t.Helper()
	azurite := peer.Azurite(t)
	if err := os.MkdirAll(filepath.Join(i.root, "etc/qwatch"), 0o755); err != nil {
		t.Fatal(err)
	}
	inside := func(args ...string) *exec.Cmd {
		cmd := exec.Command("/qwatch", args...)
		cmd.Dir, cmd.Env = "/", i.config.Config.Env
		// A user namespace lets anybody change the root directory; the ids are mapped onto the user of the test.
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Chroot: i.root, Cloneflags: syscall.CLONE_NEWUSER, GidMappingsEnableSetgroups: false,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 65532, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 65532, HostID: os.Getgid(), Size: 1}},
		}
		return cmd
	}
	out, err := inside("version", "-o", "json").CombinedOutput()
	if err != nil || !strings.Contains(string(out), `"version": "v0.0.0-test"`) || !strings.Contains(string(out), `"commit": "0123abc"`) {
		t.Fatalf("version: %v\n%s", err, out)
	}
	addrs := make([]string, 3)
	for n := range addrs {
		addrs[n] = closedPort(t)
	}
	text := fmt.Sprintf("accounts: [{name: dev, connectionString: %q, queues: [{name: orders, createIfMissing: true}]}]\nserver: {listen: %q, probes: %q, grpc: %q}\n",
		azurite.ConnectionString(), addrs[0], addrs[1], addrs[2])
	if err := os.WriteFile(filepath.Join(i.root, "etc/qwatch/qwatch.yaml"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := inside("queue", "send", "dev/orders", "hello").CombinedOutput(); err != nil {
		t.Fatalf("send: %v\n%s", err, out)
	}
	server := inside(i.config.Config.Cmd...)
	var logs strings.Builder
	server.Stderr = &logs
	server.SysProcAttr.Pdeathsig = syscall.SIGKILL
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }()
	defer func() { _ = server.Process.Kill() }()

	eventually(t, 30*time.Second, "the health check succeeds", func() bool {
		check := append(slices.Clone(i.config.Config.Healthcheck.Test[2:]), "--url", "http://"+addrs[1]+"/readyz")
		return inside(check...).Run() == nil
	})
	if err := server.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("the end: %v\n%s", err, logs.String())
	}
}
