package queue_test

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/qwatch/qwatch/queue"
)

// tableService answers like a Table service that has nothing, and keeps what it was asked.
type tableService struct {
	mu     sync.Mutex
	signed []string
	last   *http.Request
}

func (s *tableService) Do(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.signed, s.last = append(s.signed, r.Header.Get("Authorization")), r
	body := io.NopCloser(strings.NewReader(`{"value":[]}`))
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: body, Request: r}, nil
}

func (s *tableService) asked() (signed []string, last *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.signed, s.last
}

func open(acct *queue.Account, name, endpoint string) (*aztables.Client, error) {
	at, err := acct.TableService(endpoint)
	if err != nil {
		return nil, err
	}
	service, err := aztables.NewServiceClientWithNoCredential(at.URL, &aztables.ClientOptions{ClientOptions: at.Options()})
	if err != nil {
		return nil, err
	}
	return service.NewClient(name), nil
}

func list(t *testing.T, acct *queue.Account, name, endpoint string) error {
	t.Helper()
	client, err := open(acct, name, endpoint)
	if err != nil {
		return err
	}
	_, err = client.NewListEntitiesPager(nil).NextPage(context.Background())
	return err
}

func TestTablesAreBesideTheQueues(t *testing.T) {
	const sas = "sv=2026-01-01&se=2090-01-01&sp=rw&srt=sco&sig=c2lnbmF0dXJlc2lnbmF0dXJlc2lnbmF0dXJlc2lnMTI%3D"
	const at = "https://acme.queue.core.windows.net"
	withKey := func(endpoint string) queue.AccountConfig {
		return queue.AccountConfig{Endpoint: endpoint, AccountKey: queue.Secret("b25l")}
	}
	for name, tt := range map[string]struct {
		account         queue.AccountConfig
		table, endpoint string
		url             string // where it asks, without the query
		fault           string
	}{
		"public":                 {account: withKey(at), table: "keys", url: "https://acme.table.core.windows.net/keys()"},
		"China":                  {account: withKey("https://acme.queue.core.chinacloudapi.cn"), table: "keys", url: "https://acme.table.core.chinacloudapi.cn/keys()"},
		"the emulator":           {account: queue.AccountConfig{ConnectionString: "UseDevelopmentStorage=true"}, table: "keys", url: "http://127.0.0.1:10002/devstoreaccount1/keys()"},
		"an endpoint of its own": {account: withKey(at), table: "keys", endpoint: "https://acme.table.example/", url: "https://acme.table.example/keys()"},
		"a SAS":                  {account: queue.AccountConfig{Endpoint: at, SAS: sas + "&ss=qt"}, table: "keys", url: "https://acme.table.core.windows.net/keys()"},
		"a SAS for queues alone": {account: queue.AccountConfig{Endpoint: at, SAS: sas + "&ss=bq"}, table: "keys", fault: `table service of account "acct": the SAS is not for tables: its services (ss=bq) lack t`},
		"other ports":            {account: withKey("http://127.0.0.1:4711/devstoreaccount1"), table: "keys", fault: "set the table endpoint"},
		"no endpoint":            {account: withKey(at), table: "keys", endpoint: "acme", fault: "the table endpoint is not a URL like https://NAME.table.core.windows.net"},
	} {
		t.Run(name, func(t *testing.T) {
			srv := &tableService{}
			tt.account.Name, tt.account.Transport = "acct", srv
			acct := account(t, tt.account)
			err := list(t, acct, tt.table, tt.endpoint)
			if tt.fault != "" {
				if err == nil || !strings.Contains(err.Error(), tt.fault) || strings.Contains(err.Error(), "c2lnbmF0") {
					t.Errorf("error %v, want %q", err, tt.fault)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			signed, last := srv.asked()
			asked := *last.URL
			asked.RawQuery = ""
			if asked.String() != tt.url {
				t.Errorf("asked %s, want %s", asked.String(), tt.url)
			}
			if bySAS := strings.Contains(last.URL.RawQuery, "sig="); bySAS != (tt.account.SAS != "") || !bySAS && !strings.HasPrefix(signed[0], "SharedKeyLite ") {
				t.Errorf("signed %q, by a SAS: %t", signed, bySAS)
			}
		})
	}
}

// A key that changed in its file signs requests to tables as well.
func TestTableKeysRotate(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	write := func(key string, at time.Time) {
		if err := os.WriteFile(file, []byte(key), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, at, at); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Now()
	write("b25l", now.Add(-time.Hour))
	srv := &tableService{}
	acct := account(t, queue.AccountConfig{Name: "acct", Endpoint: "https://acme.queue.core.windows.net", AccountKeyFile: file, Transport: srv})
	client, err := open(acct, "keys", "")
	if err != nil {
		t.Fatal(err)
	}
	ask := func() string {
		if _, err := client.NewListEntitiesPager(nil).NextPage(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, last := srv.asked()
		return last.Header.Get("Authorization") + " at " + last.Header.Get("x-ms-date")
	}
	ask()
	write("dHdv", now)
	want := account(t, queue.AccountConfig{Name: "acct", Endpoint: "https://acme.queue.core.windows.net", AccountKey: "dHdv", Transport: srv})
	other, err := open(want, "keys", "")
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); ; {
		got := ask()
		if _, err := other.NewListEntitiesPager(nil).NextPage(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, last := srv.asked()
		if got == last.Header.Get("Authorization")+" at "+last.Header.Get("x-ms-date") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("requests are not signed with the new key")
		}
		time.Sleep(20 * time.Millisecond)
	}
}
