package app_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/internal/app"
	"github.com/qwatch/qwatch/internal/config"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// TestFaultsOfAccountsHaveTheirPlace: what only the signing in can find stands where it is
// in the file, all of it at once.
func TestFaultsOfAccountsHaveTheirPlace(t *testing.T) {
	t.Parallel()
	const text = `accounts:
  - name: one
    connectionString: AccountName=acct;AccountKey=not-base64
    queues: [{name: orders}]
  - name: two
    endpoint: https://acct.blob.core.windows.net
    identity: {}
    queues: [{name: orders}]
`
	cfg, _, err := config.Parse("qwatch.yaml", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = app.Check(cfg)
	if _, ok := errors.AsType[*app.ConfigError](err); !ok {
		t.Fatalf("check: %v (%T), want an *app.ConfigError", err, err)
	}
	want := "qwatch.yaml:3: accounts[0].connectionString: AccountKey: it is not base64: copy the key again, as a whole\n" +
		"qwatch.yaml:6: accounts[1].endpoint: acct.blob.core.windows.net is a blob endpoint: use https://acct.queue.core.windows.net"
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Errorf("check (-want +got):\n%s", diff)
	}
}

// TestASettingInVainIsSaid: a setting without effect is told, and one whose lack would
// leave something unprotected is refused.
func TestASettingInVainIsSaid(t *testing.T) {
	t.Parallel()
	const readable = "tokens cross the network readable: server.listen is not a loopback address, and serves without TLS; turn TLS on by server.webConfigFile, or put it in front"
	const account = `accounts:
  - name: acct
    connectionString: UseDevelopmentStorage=true
    discovery: {}
    queues: [{name: orders}]
`
	for name, tt := range map[string]struct {
		text     string
		warnings []string
		err      string
	}{
		"files of a listener that is off": {
			text: account + "server:\n  grpc: off\n  grpcTLS: {certFile: c.pem, keyFile: k.pem}\n",
			warnings: []string{
				"qwatch.yaml:8: server.grpcTLS: the gRPC listener is off: its files are not read",
			},
		},
		"what is turned off or not set at all": {
			text: strings.Replace(account, "    discovery: {}\n", "", 1) + "scaling: {peers: \"\"}\nserver: {grpc: off}\n",
		},
		"creating a queue that is only watched": {
			text: `accounts:
  - name: acct
    connectionString: UseDevelopmentStorage=true
    queues:
      - {name: orders, createIfMissing: true}
      - {name: emails}
      - {name: bills, createIfMissing: true, consumer: {handler: {exec: {command: [sh]}}}}
defaults: [{match: "emails", createIfMissing: true}]
`,
			warnings: []string{
				"qwatch.yaml:5: accounts[0].queues[0].createIfMissing: watching creates nothing, and the queue has no consumer: only qwatch queue send creates it",
			},
		},
		"commands that are not there": {
			text: `accounts:
  - name: acct
    connectionString: UseDevelopmentStorage=true
    queues:
      - {name: one, consumer: {handler: {exec: {command: [no-such-program-at-all]}}}}
      - {name: two, consumer: {handler: {exec: {command: [./no-such-program, --flag]}}}}
      - {name: three, consumer: {handler: {exec: {command: [./check_test.go]}}}}
      - {name: four, consumer: {handler: {exec: {command: [sh, -c, "exit 0"]}}}}
`,
			warnings: []string{
				"qwatch.yaml:5: accounts[0].queues[0].consumer.handler.exec.command: the program is not found in PATH here, and messages wait until it can be started; install it or mend the name",
				"qwatch.yaml:6: accounts[0].queues[1].consumer.handler.exec.command: the program does not exist here, and messages wait until it can be started; install it or mend the name",
				"qwatch.yaml:7: accounts[0].queues[2].consumer.handler.exec.command: the program cannot be executed here, and messages wait until it can be started; install it or mend the name",
			},
		},
		"polls that do not fit": {
			text: "accounts: [{name: acct, connectionString: UseDevelopmentStorage=true, queues: [{name: orders}]}]\nwatch: {interval: 1s, requestsPerSecond: 1}\n",
			warnings: []string{
				"account acct: polling 2 queues takes 4.2 requests/s and the limit is 1: an interval of 1s becomes 4.211s",
			},
		},
		"tokens on an open listener": {
			text: account + "server: {tokensFile: testdata/tokens.yaml}\n",
			warnings: []string{
				"qwatch.yaml:6: server.tokensFile: " + readable,
			},
		},
		"tokens on one address of many": {
			text: account + "server:\n  listen: 192.0.2.1:9780\n  tokensFile: testdata/tokens.yaml\n  webConfigFile: testdata/web-plain.yaml\n",
			warnings: []string{
				"qwatch.yaml:8: server.tokensFile: " + readable,
			},
		},
		"tokens on this host alone":        {text: account + "server: {listen: '127.0.0.1:9780', tokensFile: testdata/tokens.yaml}\n"},
		"tokens on this host alone, by v6": {text: account + "server: {listen: '[::1]:9780', tokensFile: testdata/tokens.yaml}\n"},
		"tokens on localhost":              {text: account + "server: {listen: 'localhost:9780', tokensFile: testdata/tokens.yaml}\n"},
		"a web configuration that is not there": {
			text: account + "server: {webConfigFile: nosuch/web.yaml}\n",
			err:  "qwatch.yaml:6: server.webConfigFile: open nosuch/web.yaml: no such file or directory",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg, _, err := config.Parse("qwatch.yaml", []byte(tt.text), nil)
			if err != nil {
				t.Fatal(err)
			}
			warnings, err := app.Check(cfg)
			if diff := cmp.Diff(tt.warnings, warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
			got := ""
			if err != nil {
				got = err.Error()
			}
			if got != tt.err {
				t.Errorf("check: %q, want %q", got, tt.err)
			}
		})
	}
}

func TestFindNamesWhatThereIs(t *testing.T) {
	t.Parallel()
	storage := queuetest.New(queuetest.Options{})
	cfg := parse(t, storage, `
accounts:
  - name: acct
    connectionString: ${STORAGE}
    queues: [{name: orders}, {name: emails, poisonQueue: bin}]
  - name: found
    connectionString: ${STORAGE}
    discovery: {}
`)
	fleet, err := app.OpenFleet(cfg, app.FleetOptions{Transport: storage})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fleet.Close)
	for name, want := range map[string]string{
		"acct/orders":        "",
		"acct/orders-poison": "",
		"acct/bin":           "",
		"found/anything":     "",
		"acct/nosuch":        `queue "acct/nosuch" is not configured; there are: acct/orders, acct/emails`,
		"orders":             `"orders" is not the name of a queue: write ACCOUNT/QUEUE; there are: acct/orders, acct/emails`,
		"a/b/c":              `"a/b/c" is not the name of a queue: write ACCOUNT/QUEUE; there are: acct/orders, acct/emails`,
		"/orders":            `"/orders" is not the name of a queue: write ACCOUNT/QUEUE; there are: acct/orders, acct/emails`,
		"nosuch/orders":      `account "nosuch" is not configured; there are: acct, found`,
	} {
		q, err := fleet.Find(name)
		got := ""
		if err != nil {
			got = err.Error()
		} else if q.String() != name {
			t.Errorf("find %s: %s", name, q)
		}
		if got != want {
			t.Errorf("find %s: %q\nwant %q", name, got, want)
		}
	}
}
