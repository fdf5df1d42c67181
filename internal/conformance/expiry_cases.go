package conformance

import (
	"net/url"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
)

func escape(s string) string { return url.QueryEscape(s) }

var expiryCases = map[string]func(*env){
	"a message expires": func(e *env) {
		e.create()
		r, err := e.q.EnqueueMessage(e.ctx, "short", &azqueue.EnqueueMessageOptions{TimeToLive: new(int32(2))})
		e.must(err)
		sent := r.Messages[0]
		e.expect("time to live", sent.ExpirationTime.Sub(*sent.InsertionTime), 2*time.Second)
		e.send("long")
		e.expect("messages before one expires", e.peekTexts(), "[short long]")
		e.target.Sleep(2200 * time.Millisecond)
		e.expect("count with an expired message that nothing swept", e.count(), 2)
		e.expect("messages after one expired", e.peekTexts(), "[long]")
		_, err = e.q.DeleteMessage(e.ctx, *sent.MessageID, *sent.PopReceipt, nil)
		e.expect("delete an expired message", outcome(err), "404 MessageNotFound")
		e.expect("messages received after one expired", *e.receive(32, 30)[0].MessageText, "long")
		e.expect("count after the sweep", e.count(), 1)
	},
	"a message expires while it is leased": func(e *env) {
		e.create()
		_, err := e.q.EnqueueMessage(e.ctx, "short", &azqueue.EnqueueMessageOptions{TimeToLive: new(int32(2))})
		e.must(err)
		m := e.one(30)
		e.target.Sleep(2200 * time.Millisecond)
		_, err = e.q.UpdateMessage(e.ctx, *m.MessageID, *m.PopReceipt, "x", &azqueue.UpdateMessageOptions{VisibilityTimeout: new(int32(9))})
		e.expect("update a leased message that expired", outcome(err), "404 MessageNotFound")
	},
	"a lease may outlast the message": func(e *env) {
		e.create()
		_, err := e.q.EnqueueMessage(e.ctx, "short", &azqueue.EnqueueMessageOptions{TimeToLive: new(int32(5))})
		e.must(err)
		m := e.one(30)
		_, err = e.q.UpdateMessage(e.ctx, *m.MessageID, *m.PopReceipt, "x", &azqueue.UpdateMessageOptions{VisibilityTimeout: new(int32(60))})
		e.expect("update past the expiration", outcome(err), "ok")
	},
	"times to live have rules": func(e *env) {
		e.create()
		r, err := e.q.EnqueueMessage(e.ctx, "forever", &azqueue.EnqueueMessageOptions{TimeToLive: new(int32(-1))})
		e.must(err)
		e.expect("year of expiration with -1", r.Messages[0].ExpirationTime.Year(), 9999)
		r, err = e.q.EnqueueMessage(e.ctx, "68 years", &azqueue.EnqueueMessageOptions{TimeToLive: new(int32(2147483647))})
		e.must(err)
		e.expect("time to live of 2147483647 s", r.Messages[0].ExpirationTime.Sub(*r.Messages[0].InsertionTime), 2147483647*time.Second)
		send := func(query string) string { return e.messages("POST", query, document("x")).String() }
		e.expect("time to live of 0", send("messagettl=0"), "400 InvalidQueryParameterValue")
		e.expect("time to live of -2", send("messagettl=-2"), "400 InvalidQueryParameterValue")
		e.expect("time to live that is no number", send("messagettl=soon"), "400 InvalidQueryParameterValue")
		e.expect("delay of the time to live", send("messagettl=5&visibilitytimeout=5"), "400 InvalidQueryParameterValue")
		e.expect("delay longer than the time to live", send("messagettl=5&visibilitytimeout=6"), "400 InvalidQueryParameterValue")
		e.expect("delay shorter than the time to live", send("messagettl=5&visibilitytimeout=4"), "201")
		e.expect("delay with a time to live of -1", send("messagettl=-1&visibilitytimeout=604800"), "201")
	},
}
