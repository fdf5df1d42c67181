package demo_test

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/qwatch/qwatch/internal/app/demo"
	"github.com/qwatch/qwatch/internal/config"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// summary collects what the demo says and tells when it is all said.
type summary struct {
	bytes.Buffer
	said chan struct{}
}

func (s *summary) Write(p []byte) (int, error) {
	defer close(s.said)
	return s.Buffer.Write(p)
}

func TestTheDemoStartsSoonShowsThePromisedAndLeavesNothing(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := &summary{said: make(chan struct{})}
	done := make(chan error, 1)
	begin := time.Now()
	go func() {
		done <- demo.Run(ctx, demo.Options{
			Listen: "127.0.0.1:0", Probes: "127.0.0.1:0", GRPC: "127.0.0.1:0", Storage: "127.0.0.1:0", Seed: 7, Summary: s,
		})
	}()
	select {
	case <-s.said:
	case err := <-done:
		t.Fatalf("run: %v", err)
	}
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("the demo took %v to start, which is over two seconds", took)
	}
	text := s.String()
	metrics := regexp.MustCompile(`http://\S+/metrics`).FindString(text)
	file := regexp.MustCompile(`QWATCH_CONFIG=(\S+)`).FindStringSubmatch(text)
	if metrics == "" || file == nil {
		t.Fatalf("the summary does not tell where to look:\n%s", text)
	}
	if info, err := os.Stat(file[1]); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the configuration file: %v, %v", info, err)
	}
	// Other commands find the demo by the file, wherever it listens.
	cfg, _, err := config.Load(file[1], nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.TrimSuffix(strings.TrimPrefix(metrics, "http://"), "/metrics"); cfg.Server.Listen != want {
		t.Errorf("the configuration file says that qwatch listens at %q, and it does at %q", cfg.Server.Listen, want)
	}
	probes := regexp.MustCompile(`http://(\S+)/livez`).FindStringSubmatch(text)
	grpc := regexp.MustCompile(`KEDA's gRPC at (\S+)`).FindStringSubmatch(text)
	if probes == nil || grpc == nil || cfg.Server.Probes != probes[1] || cfg.Server.GRPC != grpc[1] {
		t.Errorf("the configuration file has probes at %q and gRPC at %q; the summary: %q, %q", cfg.Server.Probes, cfg.Server.GRPC, probes, grpc)
	}

	// Every character shows what the summary says of it.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for _, series := range []string{
		`queue_messages_processed_total{account="demo",queue_name="orders"} `,
		`queue_messages_processed_total{account="demo",queue_name="emails"} `,
		`queue_lease_renewals_total{account="demo",queue_name="reports"} `,
		`queue_messages_sent_total{account="demo",queue_name="payments"} `,
		`queue_messages_failed_total{account="demo",queue_name="shipping"} `,
		`queue_oldest_visible_message_age_seconds{account="demo",queue_kind="main",queue_name="audit"} `,
		`queue_oldest_visible_message_age_seconds{account="demo",queue_kind="poison",queue_name="payments"} `,
	} {
		await(t, client, metrics, regexp.MustCompile(regexp.QuoteMeta(series)+`[1-9]`))
	}
	await(t, client, metrics, regexp.MustCompile(`queue_approximate_messages\{account="demo",queue_kind="main",queue_name="reminders"\} [1-9]`))

	cancel()
	if err := <-done; err != nil {
		t.Errorf("run: %v", err)
	}
	if _, err := os.Stat(file[1]); !os.IsNotExist(err) {
		t.Errorf("the configuration file is still there: %v", err)
	}
}

// await polls until the exposition matches.
func await(t *testing.T, client *http.Client, url string, want *regexp.Regexp) {
	t.Helper()
	var last bytes.Buffer
	for deadline := time.Now().Add(45 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		resp, err := client.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		last.Reset()
		_, err = last.ReadFrom(resp.Body)
		_ = resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if want.Match(last.Bytes()) {
			return
		}
	}
	name, _, _ := strings.Cut(want.String(), `\{`)
	for line := range strings.Lines(last.String()) {
		if strings.HasPrefix(line, name+"{") {
			t.Log(line)
		}
	}
	t.Errorf("never saw %s", want)
}

func TestADemoThatIsStoppedWhileItStartsEndsCleanly(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := demo.Run(ctx, demo.Options{Listen: "127.0.0.1:0", Probes: "127.0.0.1:0", GRPC: "127.0.0.1:0", Storage: "127.0.0.1:0"})
	if err != nil {
		t.Errorf("run: %v", err)
	}
}

func TestTheDemoNeedsNoTemporaryDirectory(t *testing.T) {
	t.Setenv("TMPDIR", "/nonexistent")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := &summary{said: make(chan struct{})}
	done := make(chan error, 1)
	var mu sync.Mutex
	var notices []string
	go func() {
		done <- demo.Run(ctx, demo.Options{
			Listen: "127.0.0.1:0", Probes: "127.0.0.1:0", GRPC: "127.0.0.1:0", Storage: "127.0.0.1:0", Summary: s,
			Notice: func(n string) {
				mu.Lock()
				defer mu.Unlock()
				notices = append(notices, n)
			},
		})
	}()
	select {
	case <-s.said:
	case err := <-done:
		t.Fatalf("run: %v", err)
	}
	if text := s.String(); strings.Contains(text, "QWATCH_CONFIG") || !strings.Contains(text, "/metrics") {
		t.Errorf("the summary:\n%s", text)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("run: %v", err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(notices) == 0 || !strings.HasPrefix(notices[0], "no configuration file for other commands: ") {
		t.Errorf("notices: %q", notices)
	}
}
