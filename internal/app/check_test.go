package app_test

import (
	"errors"
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

// TestWhatIsNotThereYetIsSaid: a setting without effect is told, and one whose lack would
// leave something unprotected is refused.
func TestWhatIsNotThereYetIsSaid(t *testing.T) {
	t.Parallel()
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
		"discovery and tokens": {
			text: account + "server: {tokensFile: tokens.yaml}\n",
			warnings: []string{
				"qwatch.yaml:4: accounts[0].discovery: discovery is not available yet: only the queues listed are watched",
				"qwatch.yaml:6: server.tokensFile: nothing needs a token yet",
			},
		},
		"polls that do not fit": {
			text: "accounts: [{name: acct, connectionString: UseDevelopmentStorage=true, queues: [{name: orders}]}]\nwatch: {interval: 1s, requestsPerSecond: 1}\n",
			warnings: []string{
				"account acct: polling 2 queues takes 4.0 requests/s and the limit is 1: an interval of 1s becomes 4s",
			},
		},
		"TLS and basic authentication": {
			text: account + "server: {webConfigFile: web.yaml}\n",
			err:  "qwatch.yaml:6: server.webConfigFile: TLS and basic authentication are not available yet; remove it, and protect the listener by other means",
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
