package queuetest_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/queue/queuetest"
)

func TestRequestsAreCounted(t *testing.T) {
	s := queuetest.New(queuetest.Options{})
	q := open(t, s)
	send(t, q, "a", "b", "c")
	m := receive(t, q)
	u, err := q.UpdateMessage(t.Context(), *m.MessageID, *m.PopReceipt, "a", &azqueue.UpdateMessageOptions{VisibilityTimeout: new(int32(1))})
	must(t, err)
	_, err = q.DeleteMessage(t.Context(), *m.MessageID, *u.PopReceipt, nil)
	must(t, err)
	_, err = q.PeekMessage(t.Context(), nil)
	must(t, err)
	_, err = q.GetProperties(t.Context(), nil)
	must(t, err)
	_, err = q.SetMetadata(t.Context(), nil)
	must(t, err)
	_, err = q.ClearMessages(t.Context(), nil)
	must(t, err)
	_, err = q.Delete(t.Context(), nil)
	must(t, err)
	s.Inject(queuetest.Fault{Status: 500, Times: 1})
	if _, err = q.PeekMessage(t.Context(), nil); err == nil {
		t.Error("no fault")
	}
	plain(t, s, http.MethodGet, s.Endpoint(queuetest.AccountName)+"/?comp=list", "")
	plain(t, s, http.MethodGet, s.Endpoint("nobody")+"/orders/messages", "")

	const a = queuetest.AccountName
	want := map[queuetest.Op]int{
		{a, "orders", queuetest.OpCreate}: 1, {a, "orders", queuetest.OpSend}: 3, {a, "orders", queuetest.OpReceive}: 1,
		{a, "orders", queuetest.OpUpdate}: 1, {a, "orders", queuetest.OpDelete}: 1, {a, "orders", queuetest.OpPeek}: 2,
		{a, "orders", queuetest.OpProperties}: 1, {a, "orders", queuetest.OpOther}: 1, {a, "orders", queuetest.OpClear}: 1,
		{a, "orders", queuetest.OpDeleteQueue}: 1, {a, "", queuetest.OpList}: 1, {"", "", queuetest.OpReceive}: 1,
	}
	if d := cmp.Diff(want, s.Counts()); d != "" {
		t.Errorf("counts (-want +got):\n%s", d)
	}
	check(t, "requests", s.Requests(queuetest.Op{}), 15)
	check(t, "sends", s.Requests(queuetest.Op{Operation: queuetest.OpSend}), 3)
	check(t, "requests for orders", s.Requests(queuetest.Op{Account: a, Queue: "orders"}), 13)
	s.ResetCounts()
	check(t, "requests after a reset", s.Requests(queuetest.Op{}), 0)
}

func TestOnRequestSeesEachRequest(t *testing.T) {
	var seen []string
	s := queuetest.New(queuetest.Options{OnRequest: func(r queuetest.Request) {
		seen = append(seen, fmt.Sprintf("%s %s %d %s %v", r.Operation, r.Queue, r.Status, r.Code, r.Injected))
	}})
	q := open(t, s)
	s.Inject(queuetest.Fault{DropResponse: true, Times: 1})
	if _, err := q.EnqueueMessage(t.Context(), "a", nil); err == nil {
		t.Error("no fault")
	}
	_, err := q.DeleteMessage(t.Context(), "x", "y", nil)
	check(t, "delete", outcome(err), "400 InvalidQueryParameterValue")
	want := []string{"create orders 201  false", "send orders 201  true", "delete orders 400 InvalidQueryParameterValue false"}
	if !slices.Equal(seen, want) {
		t.Errorf("seen %q, want %q", seen, want)
	}
}

func TestMessagesAreSeenWithoutTouchingThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const a = queuetest.AccountName
		s := queuetest.New(queuetest.Options{})
		check(t, "whether it exists before", s.Exists(a, "orders"), false)
		check(t, "messages of no queue", s.Messages(a, "orders"), "[]")
		check(t, "messages of no account", s.Messages("nobody", "orders"), "[]")
		check(t, "length of no queue", s.Len(a, "orders"), 0)
		if s.Metadata(a, "orders") != nil {
			t.Error("metadata of no queue")
		}
		q := open(t, s)
		check(t, "whether it exists", s.Exists(a, "orders"), true)
		_, err := q.SetMetadata(t.Context(), &azqueue.SetMetadataOptions{Metadata: map[string]*string{"Team": new("ops")}})
		must(t, err)
		check(t, "metadata", s.Metadata(a, "orders"), "map[Team:ops]")

		start := time.Now().UTC()
		send(t, q, "a")
		_, err = q.EnqueueMessage(t.Context(), "b", &azqueue.EnqueueMessageOptions{TimeToLive: new(int32(10))})
		must(t, err)
		_, err = q.EnqueueMessage(t.Context(), "c", &azqueue.EnqueueMessageOptions{TimeToLive: new(int32(-1)), VisibilityTimeout: new(int32(60))})
		must(t, err)
		m := receive(t, q)
		time.Sleep(10 * second)
		got := s.Messages(a, "orders")
		for i := range got {
			if got[i].ID == "" || got[i].PopReceipt == "" {
				t.Errorf("message %d: id %q, receipt %q", i, got[i].ID, got[i].PopReceipt)
			}
			if got[i].Text == "a" {
				check(t, "id", got[i].ID, *m.MessageID)
				check(t, "receipt", got[i].PopReceipt, *m.PopReceipt)
			}
			got[i].ID, got[i].PopReceipt = "", ""
		}
		want := []queuetest.Message{
			{Text: "b", InsertedAt: start, ExpiresAt: start.Add(10 * second), VisibleAt: start, Expired: true},
			{Text: "a", DequeueCount: 1, InsertedAt: start, ExpiresAt: start.Add(7 * 24 * time.Hour), VisibleAt: start.Add(30 * second)},
			{Text: "c", InsertedAt: start, ExpiresAt: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), VisibleAt: start.Add(60 * second)},
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("messages (-want +got):\n%s", d)
		}
		check(t, "length, expired ones included", s.Len(a, "orders"), 3)
		check(t, "texts", s.Texts(a, "orders"), "[b a c]")

		s.Reset()
		check(t, "whether it exists after a reset", s.Exists(a, "orders"), false)
		open(t, s) // at once
		check(t, "messages after a reset", s.Len(a, "orders"), 0)
	})
}
