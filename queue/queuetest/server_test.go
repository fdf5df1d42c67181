package queuetest_test

import (
	"context"
	"encoding/base64"
	"errors"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2/sas"

	"github.com/qwatch/qwatch/queue/queuetest"
)

func TestNewPanicsOnAKeyThatIsNotBase64(t *testing.T) {
	defer func() { check(t, "panic", recover(), `queuetest: key of account "a" is not base64`) }()
	queuetest.New(queuetest.Options{Accounts: map[string]string{"a": "***"}})
}

func TestAccountsHaveTheirOwnKeysAndQueues(t *testing.T) {
	key := base64.StdEncoding.EncodeToString([]byte("another key"))
	s := queuetest.New(queuetest.Options{Accounts: map[string]string{"contoso": key}})
	check(t, "accounts", s.AccountNames(), "[contoso devstoreaccount1]")
	check(t, "key", s.Key("contoso"), key)
	check(t, "key of no account", s.Key("nobody"), "")
	open(t, s)

	cred, err := azqueue.NewSharedKeyCredential("contoso", key)
	must(t, err)
	for _, url := range []string{"https://contoso.queue.core.windows.net/orders", "http://contoso.queue.localhost:10001/orders", s.Endpoint("contoso") + "/orders"} {
		q, err := azqueue.NewQueueClientWithSharedKeyCredential(url, cred, options(s))
		must(t, err)
		_, err = q.GetProperties(t.Context(), nil)
		check(t, "the other account's queue at "+url, outcome(err), "404 QueueNotFound")
	}
	svc, err := azqueue.NewServiceClientWithSharedKeyCredential("https://contoso.queue.core.windows.net", cred, options(s))
	must(t, err)
	_, err = svc.NewQueueClient("invoices").Create(t.Context(), nil)
	must(t, err)
	r, err := svc.NewListQueuesPager(nil).NextPage(t.Context())
	must(t, err)
	check(t, "queues listed", len(r.Queues), 1)
	check(t, "service endpoint", *r.ServiceEndpoint, "https://contoso.queue.core.windows.net/")
	check(t, "queues", s.Queues("contoso"), "[invoices]")
	check(t, "queues of the default account", s.Queues(queuetest.AccountName), "[orders]")

	wrong, err := azqueue.NewSharedKeyCredential("contoso", queuetest.AccountKey)
	must(t, err)
	q, err := azqueue.NewQueueClientWithSharedKeyCredential(s.Endpoint("contoso")+"/invoices", wrong, options(s))
	must(t, err)
	_, err = q.GetProperties(t.Context(), nil)
	check(t, "another account's key", outcome(err), "403 AuthenticationFailed")
}

func TestUnknownAccountsDoNotResolve(t *testing.T) {
	s := queuetest.New(queuetest.Options{NoAuth: true})
	q, err := azqueue.NewQueueClientWithNoCredential("https://nobody.queue.core.windows.net/orders", options(s))
	must(t, err)
	_, err = q.GetProperties(t.Context(), nil)
	var dns *net.DNSError
	if !errors.As(err, &dns) || !dns.IsNotFound || dns.Name != "nobody.queue.core.windows.net" {
		t.Errorf("got %v, want no such host", err)
	}
	resp, _ := plain(t, s, http.MethodGet, s.Endpoint("nobody")+"/orders/messages", "")
	check(t, "path-style", resp.StatusCode, 404)
}

// token is a credential that always has the same one.
type token string

func (t token) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	return azcore.AccessToken{Token: string(t), ExpiresOn: time.Now().Add(time.Hour)}, nil
}

func TestBearerTokensAreAcceptedWhenAllowed(t *testing.T) {
	for _, allow := range []bool{false, true} {
		s := queuetest.New(queuetest.Options{Accounts: map[string]string{"contoso": queuetest.AccountKey}, AllowBearer: allow})
		q, err := azqueue.NewQueueClient("https://contoso.queue.core.windows.net/orders", token("opaque"), options(s))
		must(t, err)
		_, err = q.Create(t.Context(), nil)
		want := "401 InvalidAuthenticationInfo"
		if allow {
			want = "ok"
		}
		check(t, "create with a token", outcome(err), want)
	}
}

func TestLostLeasesCanBeNotFound(t *testing.T) {
	s := queuetest.New(queuetest.Options{LostLeaseNotFound: true})
	q := open(t, s)
	send(t, q, "a")
	m := receive(t, q)
	_, err := q.UpdateMessage(t.Context(), *m.MessageID, *m.PopReceipt, "a", &azqueue.UpdateMessageOptions{VisibilityTimeout: new(int32(1))})
	must(t, err)
	_, err = q.DeleteMessage(t.Context(), *m.MessageID, *m.PopReceipt, nil)
	check(t, "delete with a stale receipt", outcome(err), "404 MessageNotFound")
}

func TestClockOffset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := queuetest.New(queuetest.Options{})
		q := open(t, s)
		send(t, q, "before")
		m := receive(t, q) // for 30 s
		s.SetClockOffset(10 * time.Minute)
		r, err := q.EnqueueMessage(t.Context(), "after", nil)
		must(t, err)
		check(t, "Date ahead", time.Until(*r.Date), 10*time.Minute)
		check(t, "insertion ahead", time.Until(*r.Messages[0].InsertionTime), 10*time.Minute)
		check(t, "Now ahead", time.Until(s.Now()), 10*time.Minute)

		d, err := q.DequeueMessages(t.Context(), &azqueue.DequeueMessagesOptions{NumberOfMessages: new(int32(32))})
		must(t, err)
		check(t, "messages visible, the lease having 30 s to go", len(d.Messages), 1)
		check(t, "lease ahead", time.Until(*d.Messages[0].TimeNextVisible), 10*time.Minute+30*second)
		time.Sleep(30 * second)
		again, err := q.DequeueMessages(t.Context(), &azqueue.DequeueMessagesOptions{NumberOfMessages: new(int32(32))})
		must(t, err)
		check(t, "messages after the leases", len(again.Messages), 2)
		check(t, "insertion time of before", again.Messages[0].InsertionTime.Sub(*m.InsertionTime), time.Duration(0))

		for offset, want := range map[time.Duration]string{
			15 * time.Minute: "ok", -15 * time.Minute: "ok",
			16 * time.Minute: "403 AuthenticationFailed", -16 * time.Minute: "403 AuthenticationFailed",
		} {
			s.SetClockOffset(offset)
			_, err := q.GetProperties(t.Context(), nil)
			check(t, "a request at a clock ahead by "+offset.String(), outcome(err), want)
		}
	})
}

func TestSASExpiresByTheServicesClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := queuetest.New(queuetest.Options{})
		open(t, s)
		cred, err := azqueue.NewSharedKeyCredential(queuetest.AccountName, queuetest.AccountKey)
		must(t, err)
		p, err := sas.QueueSignatureValues{
			QueueName: "orders", Permissions: "r", Protocol: sas.ProtocolHTTPSandHTTP, ExpiryTime: time.Now().Add(time.Hour),
		}.SignWithSharedKey(cred)
		must(t, err)
		q, err := azqueue.NewQueueClientWithNoCredential(s.Endpoint(queuetest.AccountName)+"/orders?"+p.Encode(), options(s))
		must(t, err)
		_, err = q.GetProperties(t.Context(), nil)
		check(t, "before", outcome(err), "ok")
		s.SetClockOffset(time.Minute)
		time.Sleep(59*time.Minute - time.Nanosecond)
		_, err = q.GetProperties(t.Context(), nil)
		check(t, "at the last moment", outcome(err), "ok")
		time.Sleep(time.Nanosecond)
		_, err = q.GetProperties(t.Context(), nil)
		check(t, "at the expiry", outcome(err), "403 AuthenticationFailed")
	})
}
