package app_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/qwatch/qwatch/internal/app"
	"github.com/qwatch/qwatch/internal/config"
	"github.com/qwatch/qwatch/queue/queuetest"
)

const operatorToken = "correct-horse-battery"

// withTokens adds a tokens file of that text to a configuration.
func withTokens(t *testing.T, configuration, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s\nserver: {listen: \"127.0.0.1:9780\", tokensFile: %q}\n", configuration, path)
}

// command is a command for a consumer, of an operator.
func (r *rig) command(path string) (status int, body string) {
	r.t.Helper()
	return r.operate("api/v1/processors/" + path)
}

// TestAPausedConsumerTakesNothingAndSaysSo: over the API, and everywhere where its state shows.
func TestAPausedConsumerTakesNothingAndSaysSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := start(t, withTokens(t, oneQueue, "- {name: ann, role: operator, token: "+operatorToken+"}\n"), idle())
		settle(time.Minute)
		r.want("http://main/metrics", 200, `queue_processor_paused{account="acct",queue_name="orders"} 0`)

		if status, body := r.command("acct/orders/pause"); status != 200 || !strings.Contains(body, `"state":"paused"`) {
			t.Errorf("pause: %d %s", status, body)
		}
		settle(time.Minute) // a receive under way ends
		r.send("orders", "waits")
		received := r.storage.Requests(queuetest.Op{Queue: "orders", Operation: "receive"})
		settle(10 * time.Minute)
		if n := r.storage.Requests(queuetest.Op{Queue: "orders", Operation: "receive"}); n != received {
			t.Errorf("a paused consumer received %d times", n-received)
		}
		r.want("http://main/api/v1/processors/acct/orders", 200, `"state":"paused"`)
		r.want("http://main/readyz?verbose", 200, "[!]processors degraded: paused: acct/orders: paused")
		r.want("http://main/metrics", 200, `queue_processor_paused{account="acct",queue_name="orders"} 1`)

		if status, body := r.command("acct/orders/resume"); status != 200 || !strings.Contains(body, `"state":"running"`) {
			t.Errorf("resume: %d %s", status, body)
		}
		settle(time.Second)
		r.holds("orders", 0)
		r.want("http://main/metrics", 200, `queue_processor_paused{account="acct",queue_name="orders"} 0`)
		if _, body := r.get("http://main/readyz?verbose"); strings.Contains(body, "acct/orders") {
			t.Errorf("readiness after the resumption:\n%s", body)
		}

		if status, body := r.command("acct/watched/pause"); status != 404 || !strings.Contains(body, "no consumer") {
			t.Errorf("pausing a queue without consumer: %d %s", status, body)
		}
		if !strings.Contains(r.logs.String(), `"msg":"operator command","component":"web","operation":"pause","account":"acct","queue":"orders","operator":"ann"`) {
			t.Errorf("who paused is not in the log:\n%s", r.logs)
		}
		r.end()
		if strings.Contains(r.logs.String(), operatorToken) {
			t.Error("the log shows the token")
		}
	})
}

func TestNobodySteersWithoutATokensFile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := start(t, oneQueue, idle())
		settle(time.Second) // the consumer is past its start
		if status, body := r.command("acct/orders/pause"); status != 403 || !strings.Contains(body, "server.tokensFile is not configured") {
			t.Errorf("pause: %d %s", status, body)
		}
		r.want("http://main/api/v1/processors/acct/orders", 200, `"state":"running"`)
		r.end()
	})
}

// TestAFaultyTokensFileIsRefusedAtTheStart: with its place in both files, and without the token.
func TestAFaultyTokensFileIsRefusedAtTheStart(t *testing.T) {
	t.Parallel()
	const account = "accounts: [{name: acct, connectionString: UseDevelopmentStorage=true, queues: [{name: orders}]}]"
	for name, tt := range map[string]struct{ text, fault string }{
		"a good one":    {withTokens(t, account, "[]"), ""},
		"a short token": {withTokens(t, account, "- {name: ann, role: operator, token: hunter2}"), "tokens.yaml: line 1: token: want 16 to 512 characters"},
		"none":          {account + "\nserver: {tokensFile: testdata/none.yaml}\n", "no such file or directory"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg, _, err := config.Parse("qwatch.yaml", []byte(tt.text), nil)
			if err != nil {
				t.Fatal(err)
			}
			warnings, err := app.Check(cfg)
			if len(warnings) > 0 {
				t.Errorf("warnings: %q", warnings)
			}
			if tt.fault == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.HasPrefix(err.Error(), "qwatch.yaml:2: server.tokensFile: ") || !strings.HasSuffix(err.Error(), tt.fault) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("check: %v, want the place and %q", err, tt.fault)
			}
		})
	}
}
