package conformance

import (
	"fmt"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
)

var messageCases = map[string]func(*env){
	"a sent message is described, not shown": func(e *env) {
		e.create()
		r, err := e.q.EnqueueMessage(e.ctx, "hello", nil)
		e.must(err)
		m := r.Messages[0]
		if *m.MessageID == "" || *m.PopReceipt == "" {
			e.Errorf("id %q, receipt %q", *m.MessageID, *m.PopReceipt)
		}
		e.expect("time to live by default", m.ExpirationTime.Sub(*m.InsertionTime), 7*24*time.Hour)
		e.expect("when a message is visible by default", m.TimeNextVisible.Sub(*m.InsertionTime), time.Duration(0))
		if d := r.Date.Sub(*m.InsertionTime).Abs(); d > time.Second {
			e.Errorf("inserted %v from the Date header", d)
		}
		raw := e.messages("POST", "", document("raw"))
		e.expect("send", raw.String(), "201")
		for _, element := range []string{"<MessageText", "<DequeueCount"} {
			if strings.Contains(raw.body, element) {
				e.Errorf("the answer to a send has %s: %s", element, raw.body)
			}
		}
	},
	"a message is received once, and hidden": func(e *env) {
		e.create()
		sent := e.send("hello")[0]
		r, err := e.q.DequeueMessage(e.ctx, nil)
		e.must(err)
		m := r.Messages[0]
		e.expect("the id received", *m.MessageID, *sent.MessageID)
		e.expect("the text received", *m.MessageText, "hello")
		e.expect("the dequeue count", *m.DequeueCount, 1)
		e.expect("the insertion time received", m.InsertionTime.Sub(*sent.InsertionTime), time.Duration(0))
		e.expect("the expiration time received", m.ExpirationTime.Sub(*sent.ExpirationTime), time.Duration(0))
		if d := m.TimeNextVisible.Sub(*r.Date) - 30*time.Second; d.Abs() > time.Second {
			e.Errorf("hidden for 30 s %+v", d)
		}
		e.expect("messages received while it is hidden", len(e.receive(32, 30)), 0)
		e.expect("messages seen while it is hidden", len(e.peek()), 0)
	},
	"receiving from an empty queue is right": func(e *env) {
		e.create()
		r := e.messages("GET", "numofmessages=32", "")
		e.expect("receive from an empty queue", r.String(), "200")
		if !strings.Contains(r.body, "QueueMessagesList") {
			e.Errorf("body %q", r.body)
		}
		e.expect("peek at an empty queue", e.messages("GET", "peekonly=true", ""), "200")
		e.expect("messages in it", fmt.Sprint(len(e.receive(1, 1)), len(e.peek())), "0 0")
	},
	"messages come in order, 32 at most": func(e *env) {
		e.create()
		for i := range 40 {
			e.send(fmt.Sprintf("%02d", i))
		}
		var texts []string
		ids, receipts := map[string]bool{}, map[string]bool{}
		first := e.receive(32, 30)
		for _, m := range first {
			texts = append(texts, *m.MessageText)
			ids[*m.MessageID], receipts[*m.PopReceipt] = true, true
		}
		var want []string
		for i := range 32 {
			want = append(want, fmt.Sprintf("%02d", i))
		}
		e.expect("32 messages of 40", texts, want)
		e.expect("ids in a batch", len(ids), 32)
		e.expect("pop receipts in a batch of 32", len(receipts), 32)
		e.expect("messages left", e.peekTexts(), "[32 33 34 35 36 37 38 39]")
		e.expect("messages in the second batch", len(e.receive(32, 30)), 8)
	},
	"one message is received by default": func(e *env) {
		e.create()
		e.send("a", "b")
		r, err := e.q.DequeueMessages(e.ctx, nil)
		e.must(err)
		e.expect("messages received by default", len(r.Messages), 1)
		p, err := e.q.PeekMessages(e.ctx, nil)
		e.must(err)
		e.expect("messages peeked by default", len(p.Messages), 1)
	},
	"a peek changes nothing": func(e *env) {
		e.create()
		e.send("a", "b", "c")
		for range 2 {
			all := e.peek()
			e.expect("messages peeked", len(all), 3)
			e.expect("text peeked", *all[0].MessageText, "a")
			e.expect("dequeue count of a message never received", *all[0].DequeueCount, 0)
		}
		m := e.one(1)
		e.expect("dequeue count after peeking", *m.DequeueCount, 1)
		raw := e.messages("GET", "peekonly=true", "").body
		for _, element := range []string{"<PopReceipt", "<TimeNextVisible"} {
			if strings.Contains(raw, element) {
				e.Errorf("a peek shows %s: %s", element, raw)
			}
		}
		_, err := e.q.DeleteMessage(e.ctx, *m.MessageID, *m.PopReceipt, nil)
		e.expect("delete with a receipt from before a peek", outcome(err), "ok")
	},
	"a delayed message appears later": func(e *env) {
		e.create()
		r, err := e.q.EnqueueMessage(e.ctx, "later", &azqueue.EnqueueMessageOptions{VisibilityTimeout: new(int32(2))})
		e.must(err)
		e.expect("delay", r.Messages[0].TimeNextVisible.Sub(*r.Messages[0].InsertionTime), 2*time.Second)
		e.send("now")
		e.expect("messages before the delay", e.peekTexts(), "[now]")
		e.expect("count before the delay", e.count(), 2)
		e.target.Sleep(2100 * time.Millisecond)
		e.expect("messages after the delay", e.peekTexts(), "[now later]")
		e.expect("dequeue count after the delay", *e.receive(2, 30)[1].DequeueCount, 1)
	},
	"a delayed message can be deleted with its receipt": func(e *env) {
		e.create()
		r, err := e.q.EnqueueMessage(e.ctx, "later", &azqueue.EnqueueMessageOptions{VisibilityTimeout: new(int32(60))})
		e.must(err)
		_, err = e.q.DeleteMessage(e.ctx, *r.Messages[0].MessageID, *r.Messages[0].PopReceipt, nil)
		e.expect("delete a delayed message", outcome(err), "ok")
		e.expect("count after deleting the delayed message", e.count(), 0)
	},
	"a message that comes back is behind those that waited": func(e *env) {
		e.create()
		e.send("a", "b")
		e.one(1)
		e.target.Sleep(1200 * time.Millisecond)
		e.send("c")
		e.expect("order after a lease ended", e.peekTexts(), "[b a c]")
	},
}

var leaseCases = map[string]func(*env){
	"a lapsed lease delivers again and counts": func(e *env) {
		e.create()
		e.send("a")
		first := e.one(1)
		e.target.Sleep(1200 * time.Millisecond)
		p := e.peek()
		e.expect("messages after the lease", len(p), 1)
		e.expect("dequeue count peeked", *p[0].DequeueCount, 1)
		second := e.one(30)
		e.expect("dequeue count of the second delivery", *second.DequeueCount, 2)
		e.expect("id of the second delivery", *second.MessageID, *first.MessageID)
		e.expect("whether the second delivery has another receipt", *second.PopReceipt != *first.PopReceipt, true)
		_, err := e.q.DeleteMessage(e.ctx, *first.MessageID, *first.PopReceipt, nil)
		e.expect("delete with the first delivery's receipt", outcome(err), "400 PopReceiptMismatch")
		_, err = e.q.UpdateMessage(e.ctx, *first.MessageID, *first.PopReceipt, "x", &azqueue.UpdateMessageOptions{VisibilityTimeout: new(int32(9))})
		e.expect("update with the first delivery's receipt", outcome(err), "400 PopReceiptMismatch")
		_, err = e.q.DeleteMessage(e.ctx, *second.MessageID, *second.PopReceipt, nil)
		e.expect("delete with the second delivery's receipt", outcome(err), "ok")
		e.expect("count after the delete", e.count(), 0)
	},
	"an expired receipt deletes while nobody received again": func(e *env) {
		e.create()
		e.send("a")
		m := e.one(1)
		e.target.Sleep(1200 * time.Millisecond)
		_, err := e.q.DeleteMessage(e.ctx, *m.MessageID, *m.PopReceipt, nil)
		e.expect("delete after the lease lapsed", outcome(err), "ok")
	},
	"an expired receipt renews while nobody received again": func(e *env) {
		e.create()
		e.send("a")
		m := e.one(1)
		e.target.Sleep(1200 * time.Millisecond)
		_, err := e.q.UpdateMessage(e.ctx, *m.MessageID, *m.PopReceipt, "a", &azqueue.UpdateMessageOptions{VisibilityTimeout: new(int32(30))})
		e.expect("update after the lease lapsed", outcome(err), "ok")
		e.expect("messages after the late update", len(e.receive(1, 1)), 0)
	},
	"an update renews the lease, the receipt and the text": func(e *env) {
		e.create()
		sent := e.send("before")[0]
		m := e.one(1)
		u, err := e.q.UpdateMessage(e.ctx, *m.MessageID, *m.PopReceipt, "after & <more>", &azqueue.UpdateMessageOptions{VisibilityTimeout: new(int32(3))})
		e.must(err)
		e.expect("whether an update makes another receipt", *u.PopReceipt != *m.PopReceipt, true)
		if d := u.TimeNextVisible.Sub(*u.Date) - 3*time.Second; d.Abs() > time.Second {
			e.Errorf("hidden for 3 s %+v", d)
		}
		_, err = e.q.DeleteMessage(e.ctx, *m.MessageID, *m.PopReceipt, nil)
		e.expect("delete with the receipt from before the update", outcome(err), "400 PopReceiptMismatch")
		_, err = e.q.UpdateMessage(e.ctx, *m.MessageID, *m.PopReceipt, "x", &azqueue.UpdateMessageOptions{VisibilityTimeout: new(int32(9))})
		e.expect("update with the receipt from before the update", outcome(err), "400 PopReceiptMismatch")
		e.target.Sleep(1200 * time.Millisecond)
		e.expect("messages after the first lease, which was renewed", len(e.peek()), 0)
		e.target.Sleep(2000 * time.Millisecond)
		again := e.one(30)
		e.expect("text after the update", *again.MessageText, "after & <more>")
		e.expect("dequeue count after the update", *again.DequeueCount, 2)
		e.expect("insertion time after the update", again.InsertionTime.Sub(*sent.InsertionTime), time.Duration(0))
		e.expect("expiration time after the update", again.ExpirationTime.Sub(*sent.ExpirationTime), time.Duration(0))
	},
	"an update with 0 gives the message back at once": func(e *env) {
		e.create()
		e.send("a", "b")
		m := e.one(30)
		_, err := e.q.UpdateMessage(e.ctx, *m.MessageID, *m.PopReceipt, "a", &azqueue.UpdateMessageOptions{VisibilityTimeout: new(int32(0))})
		e.must(err)
		e.expect("messages after giving one back", e.peekTexts(), "[b a]")
	},
	"an update with an empty text blanks the message": func(e *env) {
		e.create()
		e.send("a")
		m := e.one(30)
		_, err := e.q.UpdateMessage(e.ctx, *m.MessageID, *m.PopReceipt, "", &azqueue.UpdateMessageOptions{VisibilityTimeout: new(int32(0))})
		e.must(err)
		e.expect("text after an update with an empty one", fmt.Sprintf("%q", text(e.one(30).MessageText)), `""`)
	},
	"an update without a body keeps the text": func(e *env) {
		e.create()
		e.send("a")
		m := e.one(30)
		r := e.do(request{method: "PUT", path: "/" + e.name + "/messages/" + *m.MessageID, query: "visibilitytimeout=0&popreceipt=" + escape(*m.PopReceipt)})
		e.expect("update without a body", r.String(), "204")
		e.expect("text after an update without a body", *e.one(30).MessageText, "a")
	},
	"the receipt of a send deletes and updates": func(e *env) {
		e.create()
		sent := e.send("a", "b")
		_, err := e.q.DeleteMessage(e.ctx, *sent[0].MessageID, *sent[0].PopReceipt, nil)
		e.expect("delete with the receipt of the send", outcome(err), "ok")
		_, err = e.q.UpdateMessage(e.ctx, *sent[1].MessageID, *sent[1].PopReceipt, "b", &azqueue.UpdateMessageOptions{VisibilityTimeout: new(int32(30))})
		e.expect("update with the receipt of the send", outcome(err), "ok")
		e.expect("messages after that", len(e.peek()), 0)
	},
	"a message is deleted once": func(e *env) {
		e.create()
		e.send("a", "b")
		m, other := e.one(30), e.one(30)
		_, err := e.q.DeleteMessage(e.ctx, *m.MessageID, *m.PopReceipt, nil)
		e.expect("delete", outcome(err), "ok")
		_, err = e.q.DeleteMessage(e.ctx, *m.MessageID, *m.PopReceipt, nil)
		e.expect("delete again", outcome(err), "404 MessageNotFound")
		_, err = e.q.UpdateMessage(e.ctx, *m.MessageID, *m.PopReceipt, "x", &azqueue.UpdateMessageOptions{VisibilityTimeout: new(int32(9))})
		e.expect("update a deleted message", outcome(err), "404 MessageNotFound")
		_, err = e.q.DeleteMessage(e.ctx, "00000000-0000-0000-0000-000000000000", *other.PopReceipt, nil)
		e.expect("delete with an unknown id", outcome(err), "404 MessageNotFound")
		_, err = e.q.DeleteMessage(e.ctx, "no-uuid", *other.PopReceipt, nil)
		e.expect("delete with an id that is none", outcome(err), "404 MessageNotFound")
		_, err = e.q.DeleteMessage(e.ctx, *other.MessageID, *m.PopReceipt, nil)
		e.expect("delete with another message's receipt", outcome(err), "400 PopReceiptMismatch")
		_, err = e.q.DeleteMessage(e.ctx, *other.MessageID, "garbage", nil)
		e.expect("delete with a receipt that is none", outcome(err), "400 InvalidQueryParameterValue")
		_, err = e.q.UpdateMessage(e.ctx, *other.MessageID, "garbage", "x", &azqueue.UpdateMessageOptions{VisibilityTimeout: new(int32(9))})
		e.expect("update with a receipt that is none", outcome(err), "400 InvalidQueryParameterValue")
		r := e.do(request{method: "DELETE", path: "/" + e.name + "/messages/" + *other.MessageID})
		e.expect("delete without a receipt", r.String(), "400 MissingRequiredQueryParameter")
		e.expect("count after all those deletes", e.count(), 1)
	},
}

// text is the text of a message, "" if the document had an empty element.
func text(p *string) string {
	if p == nil {
		return ""
	}
	return *p
}
