// Command image builds qwatch's container image without a container engine, into an OCI layout that any
// registry client can push: a static binary for each platform, a user that is not root, a health check, and a bill
// of materials. Two builds of the same source, by the same Go, give the same digest.
//
//	image [-o DIR] [-version V] [-revision R] [-platform OS/ARCH,…] [-created TIME] [MODULE]
//	image -sbom BINARY
//
// With -sbom it prints the bill of materials of a binary, and builds nothing; the Dockerfile uses that.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "image:", err)
		}
		os.Exit(1)
	}
}

// options are what an image is built from.
type options struct {
	module, out       string
	version, revision string
	platforms         []string
	created           time.Time
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	var o options
	f := flag.NewFlagSet("image", flag.ContinueOnError)
	f.StringVar(&o.out, "o", "bin/image", "the `directory` of the OCI layout; it is replaced")
	f.StringVar(&o.version, "version", "dev", "the version that the program tells")
	f.StringVar(&o.revision, "revision", "", "the commit it is built from")
	platforms := f.String("platform", "linux/amd64,linux/arm64", "the platforms")
	created := f.String("created", "1970-01-01T00:00:00Z", "the time of everything in the image; the commit's, for one that changes with the source")
	bom := f.String("sbom", "", "print the bill of materials of this `binary`")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *bom != "" {
		b, err := os.ReadFile(*bom)
		if err != nil {
			return err
		}
		text, err := billOfMaterials(b, o.version)
		if err != nil {
			return err
		}
		_, err = stdout.Write(text)
		return err
	}
	var err error
	if o.created, err = time.Parse(time.RFC3339, *created); err != nil {
		return fmt.Errorf("-created: %w", err)
	}
	o.created = o.created.UTC()
	o.platforms = strings.Split(*platforms, ",")
	if o.module = f.Arg(0); o.module == "" {
		o.module = "."
	}
	if o.module, err = filepath.Abs(o.module); err != nil {
		return err
	}
	digest, err := o.build(ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(stdout, digest)
	return err
}
