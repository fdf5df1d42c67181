package test_test

import (
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/qwatch/qwatch/test/peer"
)

// shots is where pictures of the page go, if anywhere: `QWATCH_SHOTS=$PWD/../docs/images go test -run Browser`
// takes those of the documentation anew.
func shots() string { return os.Getenv("QWATCH_SHOTS") }

// demo starts a demo with a page and returns the address, once every queue has been read and some
// messages have died.
func demo(t *testing.T, args ...string) (url string, p *peer.Process) {
	t.Helper()
	args = append([]string{"demo", "--listen", "127.0.0.1:0", "--probes", "127.0.0.1:0", "--storage", "127.0.0.1:0"}, args...)
	p = peer.Start(t, "qwatch demo", command(nil, args...))
	page := regexp.MustCompile(`(?m)^ +page +(http://\S+)/$`)
	eventually(t, 30*time.Second, "the demo says where its page is", func() bool {
		found := page.FindStringSubmatch(p.Stdout())
		if found != nil {
			url = found[1]
		}
		return url != ""
	})
	return url, p
}

// shotsPast is how long a demo runs before pictures are taken, for some past to be in them.
const shotsPast = 3 * time.Minute

func TestBrowserShowsTheDemo(t *testing.T) {
	url, p := demo(t)
	if shots() != "" {
		time.Sleep(shotsPast)
	}
	operator := regexp.MustCompile(`(?m)^ +operator +([0-9a-f]+)`).FindStringSubmatch(p.Stdout())
	if operator == nil {
		t.Fatal("the demo does not say who its operator is")
	}
	var seen struct{ Minor []string }
	peer.Browse(t, "demo.js", shots(), map[string]string{"url": url, "operator": operator[1]}, &seen)
	if shots() != "" {
		squeeze(t, shots())
	}
	if len(seen.Minor) > 0 {
		t.Logf("axe-core has these to say, none of them serious: %v", seen.Minor)
	}
}
