package queuetest_test

import (
	"encoding/base64"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2/sas"
	"go.uber.org/goleak"

	"github.com/qwatch/qwatch/queue/queuetest"
)

// These are parts of the protocol that the conformance suite leaves out, because Azurite
// does not have them or because no client of ours sends such requests.

func TestUnusualRequests(t *testing.T) {
	s := queuetest.New(queuetest.Options{NoAuth: true})
	open(t, s)
	for name, c := range map[string]struct{ method, path, want string }{
		"the service's properties":     {"GET", "/?restype=service&comp=properties", "200"},
		"setting them":                 {"PUT", "/?restype=service&comp=properties", "405 UnsupportedHttpVerb"},
		"a marker of another account":  {"GET", "/?comp=list&marker=/contoso/a", "400 InvalidMarker"},
		"a marker in the middle":       {"GET", "/?comp=list&marker=/devstoreaccount1/p", "200"},
		"a parameter given twice":      {"GET", "/orders/messages?numofmessages=1&numofmessages=99", "200"},
		"empty parameters":             {"GET", "/orders/messages?&&a=&=b&c", "200"},
		"more policies than allowed":   {"PUT", "/orders?comp=acl", "400 InvalidXmlDocument"},
		"a method nobody knows":        {"BREW", "/orders", "405 UnsupportedHttpVerb"},
		"something beside messages":    {"GET", "/orders/other", "400 InvalidUri"},
		"a message without an id":      {"DELETE", "/orders/messages/", "400 InvalidUri"},
		"a message deep down":          {"DELETE", "/orders/messages/a/b", "400 InvalidUri"},
		"a query that cannot be read":  {"GET", "/orders/messages?a=%zz", "400 RequestUrlFailedToParse"},
		"a queue that cannot be named": {"GET", "/Orders/messages", "400 InvalidResourceName"},
	} {
		body := ""
		if strings.HasSuffix(c.path, "acl") {
			body = "<SignedIdentifiers>" + strings.Repeat("<SignedIdentifier><Id>a</Id></SignedIdentifier>", 6) + "</SignedIdentifiers>"
		}
		resp, _ := plain(t, s, c.method, s.Endpoint(queuetest.AccountName)+c.path, body)
		check(t, name, strings.TrimSpace(resp.Status[:3]+" "+resp.Header.Get("x-ms-error-code")), c.want)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.Endpoint(queuetest.AccountName)+"/orders/messages", nil)
	must(t, err)
	req.Header.Set("x-ms-version", "latest")
	resp, err := s.Do(req)
	must(t, err)
	check(t, "a version that is none", resp.Header.Get("x-ms-error-code"), "InvalidHeaderValue")
	must(t, resp.Body.Close())
}

func TestEveryPageOfQueuesIsSortedAndWhole(t *testing.T) {
	s := queuetest.New(queuetest.Options{NoAuth: true})
	base := s.Endpoint(queuetest.AccountName)
	for i := range 100 {
		plain(t, s, http.MethodPut, base+"/queue-"+strings.Repeat("z", i%7)+string(rune('a'+i%26))+string(rune('a'+i/26)), "")
	}
	svc, err := azqueue.NewServiceClientWithNoCredential(base, options(s))
	must(t, err)
	var names []string
	for p := svc.NewListQueuesPager(&azqueue.ListQueuesOptions{MaxResults: new(int32(7))}); p.More(); {
		r, err := p.NextPage(t.Context())
		must(t, err)
		for _, q := range r.Queues {
			names = append(names, *q.Name)
		}
	}
	check(t, "names", names, s.Queues(queuetest.AccountName))
	check(t, "queues", len(names), 100)
}

func TestPeekAndReceiveReapExpiredMessages(t *testing.T) {
	for name, see := range map[string]func(*azqueue.QueueClient) error{
		"peek": func(q *azqueue.QueueClient) error {
			_, err := q.PeekMessages(t.Context(), &azqueue.PeekMessagesOptions{NumberOfMessages: new(int32(32))})
			return err
		},
		"receive": func(q *azqueue.QueueClient) error {
			_, err := q.DequeueMessages(t.Context(), &azqueue.DequeueMessagesOptions{NumberOfMessages: new(int32(32))})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := queuetest.New(queuetest.Options{NoAuth: true})
				q, err := azqueue.NewQueueClientWithNoCredential(s.Endpoint(queuetest.AccountName)+"/orders", options(s))
				must(t, err)
				_, err = q.Create(t.Context(), nil)
				must(t, err)
				for i := range 30 {
					ttl := int32(60)
					if i%3 > 0 {
						ttl = 5
					}
					_, err := q.EnqueueMessage(t.Context(), "m", &azqueue.EnqueueMessageOptions{TimeToLive: &ttl})
					must(t, err)
				}
				time.Sleep(5 * second)
				check(t, "messages before", s.Len(queuetest.AccountName, "orders"), 30)
				must(t, see(q))
				check(t, "messages after", s.Len(queuetest.AccountName, "orders"), 10)
			})
		})
	}
}

func TestARequestMayBeDatedByTheDateHeader(t *testing.T) {
	s := queuetest.New(queuetest.Options{Accounts: map[string]string{queuetest.AccountName: base64.StdEncoding.EncodeToString([]byte("k"))}})
	date := time.Now().UTC().Format(http.TimeFormat)
	text := "GET\n\n\n\n\n\n" + date + "\n\n\n\n\n\n/devstoreaccount1/devstoreaccount1/\ncomp:list"
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.Endpoint(queuetest.AccountName)+"/?comp=list", nil)
	must(t, err)
	req.Header.Set("Date", date)
	req.Header.Set("Authorization", "SharedKey devstoreaccount1:"+hmacOf("k", text))
	resp, err := s.Do(req)
	must(t, err)
	check(t, "status", resp.StatusCode, 200)
	must(t, resp.Body.Close())
}

func TestASASMayNameAddresses(t *testing.T) {
	defer goleak.VerifyNone(t)
	s := queuetest.New(queuetest.Options{})
	srv := httptest.NewServer(s)
	defer srv.Close()
	openAt(t, s.ConnectionStringAt(srv.URL), srv.Client())
	cred, err := azqueue.NewSharedKeyCredential(queuetest.AccountName, queuetest.AccountKey)
	must(t, err)
	for r, want := range map[[2]string]string{
		{"127.0.0.1"}:              "ok",
		{"127.0.0.0", "127.0.0.9"}: "ok",
		{"10.0.0.1"}:               "403 AuthorizationSourceIPMismatch",
		{"10.0.0.1", "10.0.0.9"}:   "403 AuthorizationSourceIPMismatch",
	} {
		v := sas.QueueSignatureValues{
			QueueName: "orders", Permissions: "r", Protocol: sas.ProtocolHTTPSandHTTP, ExpiryTime: time.Now().Add(time.Hour),
			IPRange: sas.IPRange{Start: net.ParseIP(r[0]), End: net.ParseIP(r[1])},
		}
		p, err := v.SignWithSharedKey(cred)
		must(t, err)
		q, err := azqueue.NewQueueClientWithNoCredential(queuetest.EndpointAt(srv.URL, queuetest.AccountName)+"/orders?"+p.Encode(), options(srv.Client()))
		must(t, err)
		_, err = q.GetProperties(t.Context(), nil)
		check(t, "from "+strings.Join(r[:], "-"), outcome(err), want)
	}
}
