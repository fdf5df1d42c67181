package app_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/internal/app"
	"github.com/qwatch/qwatch/internal/config"
)

// TestEveryFaultIsToldAtOnce: those of values, of the files that are named, and of what would be built, in file
// order, each once, each line with its place.
func TestEveryFaultIsToldAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name := filepath.Join(dir, "qwatch.yaml")
	if err := os.WriteFile(filepath.Join(dir, "tokens.yaml"), []byte("- {name: ann, role: operator, token: hunter2}\n- {name: bob, role: king, token: 1234567890123456}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const text = `
accounts:
  - name: first
    connectionString: AccountName=x;AccountKey=hunter2
    queues:
      - name: orders
        encoding: base46
        encryption: {keyFile: one.key, keyID: k}
      - name: bills
        encryption: {keyFile: two.key, keyID: k, olderKeys: [{keyFile: three.key, keyID: l}]}
        consumer: {handler: {http: {url: "http://handler.invalid/"}}, concurrency: 0}
  - name: second
    endpoint: https://second.queue.core.windows.net
    sas: "sv=1"
    queues: [{name: x1}]
  - name: third
    endpoint: https://third.queue.core.windows.net
server:
  tokensFile: tokens.yaml
  webConfigFile: web.yaml
  grpcTLS: {certFile: cert.pem, keyFile: key.pem}
`
	paths := func(err error) (got []string) {
		for line := range strings.SplitSeq(err.Error(), "\n") {
			rest, ok := strings.CutPrefix(line, name+":")
			if !ok || strings.Contains(line, "hunter2") {
				t.Errorf("the line %q has no place, or a secret", line)
			}
			parts := strings.SplitN(rest, ": ", 3)
			got = append(got, parts[0]+" "+parts[1])
		}
		return got
	}
	_, _, err := config.Parse(name, []byte(text), nil)
	if err == nil {
		t.Fatal("the file is taken")
	}
	want := []string{
		"4 accounts[0].connectionString",
		"7 accounts[0].queues[0].encoding",
		"8 accounts[0].queues[0].encryption.keyFile",
		"10 accounts[0].queues[1].encryption.keyFile",
		"10 accounts[0].queues[1].encryption.olderKeys[0].keyFile",
		"11 accounts[0].queues[1].consumer.concurrency",
		"14 accounts[1].sas",
		"15 accounts[1].queues[0].name",
		"17 accounts[2].endpoint",
		"19 server.tokensFile", "19 server.tokensFile",
		"20 server.webConfigFile",
		"21 server.grpcTLS",
	}
	if diff := cmp.Diff(want, paths(app.Explain(err))); diff != "" {
		t.Errorf("faults (-want +got):\n%s\n%v", diff, app.Explain(err))
	}

	// The same where the values are good.
	good := strings.NewReplacer("base46", "none", "concurrency: 0", "concurrency: 1", "x1", "fine", "    endpoint: https://third", "    identity: {}\n    endpoint: https://third").Replace(text)
	cfg, _, err := config.Parse(name, []byte(good), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = app.Check(cfg)
	want = []string{
		"4 accounts[0].connectionString",
		"8 accounts[0].queues[0].encryption.keyFile",
		"10 accounts[0].queues[1].encryption.keyFile",
		"10 accounts[0].queues[1].encryption.olderKeys[0].keyFile",
		"14 accounts[1].sas",
		"20 server.tokensFile", "20 server.tokensFile",
		"21 server.webConfigFile",
		"22 server.grpcTLS",
	}
	if diff := cmp.Diff(want, paths(err)); diff != "" {
		t.Errorf("faults of a file whose values are good (-want +got):\n%s\n%v", diff, err)
	}
}
