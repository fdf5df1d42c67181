// Package peer starts the real programs that tests run against: Azurite, Prometheus, promtool,
// Alertmanager and PostgreSQL. Each start takes free loopback ports and a temporary folder of the test, waits
// until the peer answers, and ends with the test; its log is shown when the test failed.
//
// The programs come from install.sh (make peers). One that is missing fails the test:
// nothing here skips.
package peer

import (
	_ "embed"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// azuriteVersion names the folder that install.sh made.
//
//go:embed AZURITE_VERSION
var azuriteVersion string

// readyWithin bounds how long a peer may take until it answers.
const readyWithin = time.Minute

// locate returns a file below the cache of peers.
func locate(elements ...string) (string, error) {
	cache, err := os.UserCacheDir() // $XDG_CACHE_HOME, or ~/.cache
	if err != nil {
		return "", fmt.Errorf("find the cache of peers: %w", err)
	}
	path := filepath.Join(append([]string{cache, "qwatch"}, elements...)...)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("run `make peers`: %w", err)
	}
	return path, nil
}

func azuriteScript() (string, error) {
	return locate("azurite-"+strings.TrimSpace(azuriteVersion), "node_modules", "azurite", "dist", "src", "azurite.js")
}

func debian(program string) (string, error) {
	return locate("debian", "usr", "bin", program)
}

// FreeAddresses returns n loopback addresses that were free a moment ago, all different.
func FreeAddresses(t testing.TB, n int) []string {
	t.Helper()
	addresses := make([]string, n)
	for i := range addresses {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatalf("find a free port: %v", err)
		}
		defer func() { _ = l.Close() }() // only when all are found, so that they differ
		addresses[i] = l.Addr().String()
	}
	return addresses
}

func port(address string) string {
	_, port, _ := net.SplitHostPort(address) // our own addresses always have one
	return port
}

var errExited = errors.New("it exited")

// awaitHTTP returns nil once url answers as wanted, or why it did not.
func awaitHTTP(p *Process, url string, anyStatus bool) error {
	client := http.Client{Timeout: 2 * time.Second}
	var last error
	for deadline := time.Now().Add(readyWithin); time.Now().Before(deadline); {
		select {
		case <-p.done:
			return errExited
		case <-time.After(50 * time.Millisecond):
		}
		resp, err := client.Get(url)
		if err != nil {
			last = err
			continue
		}
		last = fmt.Errorf("status %s", resp.Status)
		if err := resp.Body.Close(); err != nil {
			last = err
			continue
		}
		if anyStatus || resp.StatusCode == http.StatusOK {
			return nil
		}
	}
	return fmt.Errorf("no answer within %v: %w", readyWithin, last)
}

// tries is how often a program is started again on other ports when somebody took the ones found.
const tries = 3

// Serve starts a program that listens on free loopback addresses and waits until url answers with
// status 200, or with anything when anyStatus is set. It returns the addresses. A program that
// exits meanwhile, as one does whose port was taken, is tried again on other ports.
func Serve(t testing.TB, name string, addresses int, command func([]string) *exec.Cmd, url func([]string) string, anyStatus bool) (*Process, []string) {
	t.Helper()
	for try := 1; ; try++ {
		addrs := FreeAddresses(t, addresses)
		p := Start(t, name, command(addrs))
		err := awaitHTTP(p, url(addrs), anyStatus)
		if err == nil {
			return p, addrs
		}
		p.Kill()
		if try == tries || !errors.Is(err, errExited) {
			t.Fatalf("start %s: %v\n%s", name, err, p.Output())
		}
	}
}
