package queue_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

func names(t *testing.T, a *queue.Account, o queue.ListOptions) []string {
	t.Helper()
	var out []string
	for info, err := range a.Queues(t.Context(), o) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, info.Name)
	}
	return out
}

// B78: every page of a large account, with and without a prefix.
func TestListingPagesThroughTwelveThousandQueues(t *testing.T) {
	srv := queuetest.New(queuetest.Options{})
	a := account(t, queue.AccountConfig{Name: "acct", ConnectionString: queue.Secret(srv.ConnectionString()), Transport: srv})
	var want []string
	for i := range 12_000 {
		name := fmt.Sprintf("queue-%05d", i)
		if i%3 == 0 {
			name = fmt.Sprintf("third-%05d", i)
		}
		want = append(want, name)
		q, err := a.Queue(name, queue.Config{})
		if err != nil {
			t.Fatal(err)
		}
		if err := q.Create(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(want)
	if got := names(t, a, queue.ListOptions{}); !slices.Equal(got, want) {
		t.Errorf("got %d queues, want %d", len(got), len(want))
	}
	if pages := srv.Requests(queuetest.Op{Operation: queuetest.Operation(queue.OpList)}); pages != 3 {
		t.Errorf("%d pages, want 3", pages)
	}
	if got := names(t, a, queue.ListOptions{Prefix: "third-"}); len(got) != 4000 || !strings.HasPrefix(got[0], "third-") {
		t.Errorf("by prefix %d queues", len(got))
	}
	// Who has seen enough stops the paging.
	srv.ResetCounts()
	for _, err := range a.Queues(t.Context(), queue.ListOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		break
	}
	if pages := srv.Requests(queuetest.Op{Operation: queuetest.Operation(queue.OpList)}); pages != 1 {
		t.Errorf("%d pages after a break, want 1", pages)
	}
	// A failure amid the pages ends the listing with an error; what came before stands.
	srv.Inject(queuetest.Fault{Operation: queuetest.Operation(queue.OpList), Skip: 1, Status: 403, Code: "X"})
	n, last := 0, error(nil)
	for _, err := range a.Queues(t.Context(), queue.ListOptions{}) {
		if last = err; err == nil {
			n++
		}
	}
	if n != 5000 || message(last) != "list queues of acct: 403 X" {
		t.Errorf("%d queues, then %v", n, last)
	}
}

func TestListingMetadata(t *testing.T) {
	a := answering(t, func(r *http.Request) (int, string) {
		if !strings.Contains(r.URL.RawQuery, "include=metadata") {
			return 200, `<EnumerationResults><Queues><Queue><Name>orders</Name></Queue></Queues><NextMarker/></EnumerationResults>`
		}
		return 200, `<EnumerationResults><Queues><Queue><Name>orders</Name><Metadata><Qwatch_Team>payments</Qwatch_Team><empty></empty></Metadata></Queue><Queue/></Queues></EnumerationResults>`
	})
	for info, err := range a.Queues(t.Context(), queue.ListOptions{Metadata: true}) {
		if err != nil || info.Name != "orders" || info.Metadata["qwatch_team"] != "payments" {
			t.Errorf("got %+v, %v", info, err)
		}
	}
	for info, err := range a.Queues(t.Context(), queue.ListOptions{}) {
		if err != nil || info.Metadata != nil {
			t.Errorf("without metadata: %+v, %v", info, err)
		}
	}
}

// answering returns an account whose service answers as told.
func answering(t *testing.T, f func(r *http.Request) (int, string)) *queue.Account {
	t.Helper()
	a, err := queue.NewAccount(queue.AccountConfig{Name: "acct", Endpoint: "https://acct.queue.core.windows.net", AccountKey: key, Transport: transportFunc(func(r *http.Request) (*http.Response, error) {
		status, body := f(r)
		resp := answer(r, status, body)
		resp.Header = http.Header{"Content-Type": {"application/xml"}}
		return resp, nil
	})})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestListingThatGoesInCirclesEnds(t *testing.T) {
	pages := 0
	a := answering(t, func(*http.Request) (int, string) {
		pages++
		return 200, `<EnumerationResults><Queues><Queue><Name>orders</Name></Queue></Queues><NextMarker>again</NextMarker></EnumerationResults>`
	})
	var last error
	for _, err := range a.Queues(t.Context(), queue.ListOptions{}) {
		last = err
	}
	if want := "list queues of acct: the answer points to itself as the next page"; pages != 2 || message(last) != want {
		t.Errorf("%d pages, %v", pages, last)
	}
}

// B39: whatever comes back is an error or a result, never a panic.
func TestNoAnswerMakesAnyOperationPanic(t *testing.T) {
	bodies := []string{
		"", " ", "<", "{}", "null", `{"error":{"code":"X"}}`, "<Error/>", "<Error><Code/></Error>", "\xff\xfe", "\x00",
		`<?xml version="1.0"?>`, `<?xml version="1.0"?><QueueMessagesList/>`, `<QueueMessagesList><QueueMessage/></QueueMessagesList>`,
		`<QueueMessagesList><QueueMessage><MessageId/><InsertionTime>x</InsertionTime></QueueMessage></QueueMessagesList>`,
		`<EnumerationResults/>`, `<EnumerationResults><Queues/></EnumerationResults>`, `<EnumerationResults><Queues><Queue/></Queues></EnumerationResults>`,
		strings.Repeat("<a>", 10000),
	}
	synctest.Test(t, func(t *testing.T) {
		for _, status := range []int{100, 200, 201, 204, 304, 400, 401, 403, 404, 409, 429, 500, 503, 999} {
			for _, body := range bodies {
				a := answering(t, func(*http.Request) (int, string) { return status, body })
				q, err := a.Queue("orders", queue.Config{})
				if err != nil {
					t.Fatal(err)
				}
				ctx := t.Context()
				_, _ = q.Send(ctx, "x", queue.SendOptions{})
				ms, _ := q.Receive(ctx, 32, 0)
				for _, m := range ms {
					_, _, _ = m.Renew(ctx, time.Minute), m.Abandon(ctx, 0), m.Complete(ctx)
				}
				_, _ = q.Peek(ctx, 32)
				_, _ = q.Properties(ctx)
				_, _, _ = q.Clear(ctx), q.Create(ctx), q.Delete(ctx)
				for _, err := range a.Queues(ctx, queue.ListOptions{Metadata: true}) {
					_ = err // either is fine
					break
				}
			}
		}
	})
	for _, nothing := range []transportFunc{
		func(*http.Request) (*http.Response, error) { return nil, nil },
		func(*http.Request) (*http.Response, error) { return nil, errors.New("x") },
	} {
		a := account(t, queue.AccountConfig{Name: "acct", Endpoint: "https://acct.queue.core.windows.net", AccountKey: key, Transport: nothing})
		q, err := a.Queue("orders", queue.Config{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := q.Receive(t.Context(), 1, 0); err == nil {
			t.Error("no answer, and no error")
		}
	}
}
