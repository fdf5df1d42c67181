package conformance

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
)

var queueCases = map[string]func(*env){
	"creating a queue twice is right with the same metadata only": func(e *env) {
		create := func(metadata map[string]string) string {
			r := e.do(request{method: "PUT", path: "/" + e.name, header: metadata})
			return r.String()
		}
		e.expect("create a queue", create(map[string]string{"x-ms-meta-team": "ops"}), "201")
		e.expect("create it again", create(map[string]string{"x-ms-meta-team": "ops"}), "204")
		e.expect("create it again with other metadata", create(map[string]string{"x-ms-meta-team": "dev"}), "409 QueueAlreadyExists")
		e.expect("create it again with more metadata", create(map[string]string{"x-ms-meta-team": "ops", "x-ms-meta-a": "b"}), "409 QueueAlreadyExists")
		e.expect("create it again without metadata", create(nil), "409 QueueAlreadyExists")
	},
	"queue names have rules": func(e *env) {
		create := func(name string) string {
			_, err := e.svc.NewQueueClient(name).Create(e.ctx, nil)
			return outcome(err)
		}
		e.expect("a name of 3 characters", create("abc"), "ok")
		e.expect("a name of 63 characters", create("n"+strings.Repeat("1", 62)), "ok")
		e.expect("a name of digits", create("123"), "ok")
		e.expect("a name of 2 characters", create("ab"), "400 OutOfRangeInput")
		e.expect("a name of 64 characters", create(strings.Repeat("a", 64)), "400 OutOfRangeInput")
		e.expect("an upper-case name", create("Orders"), "400 InvalidResourceName")
		e.expect("a name with an underscore", create("my_orders"), "400 InvalidResourceName")
		e.expect("a name with two hyphens in a row", create("my--orders"), "400 InvalidResourceName")
		e.expect("a name that starts with a hyphen", create("-orders"), "400 InvalidResourceName")
		e.expect("a name that ends with a hyphen", create("orders-"), "400 InvalidResourceName")
		e.expect("a name with a dot", create("my.orders"), "400 InvalidResourceName")
		e.expect("a name with a letter that is not ASCII", create("bestellüng"), "400 InvalidResourceName")
	},
	"nothing works on a queue that does not exist": func(e *env) {
		everything(e, "of no queue")
		_, err := e.q.Delete(e.ctx, nil)
		e.expect("delete of no queue", outcome(err), "404 QueueNotFound")
	},
	"a deleted queue is gone, and its name is taken for 30 seconds": func(e *env) {
		e.create()
		e.send("lost")
		_, err := e.q.Delete(e.ctx, nil)
		e.expect("delete a queue", outcome(err), "ok")
		everything(e, "of a deleted queue")
		_, err = e.q.Delete(e.ctx, nil)
		e.expect("delete a deleted queue", outcome(err), "404 QueueNotFound")
		_, err = e.q.Create(e.ctx, nil)
		e.expect("create a deleted queue again at once", outcome(err), "409 QueueBeingDeleted")
		if e.fakeTime {
			e.target.Sleep(29 * time.Second)
			_, err = e.q.Create(e.ctx, nil)
			e.expect("create a deleted queue again after 29 s", outcome(err), "409 QueueBeingDeleted")
			e.target.Sleep(time.Second)
			_, err = e.q.Create(e.ctx, nil)
			e.expect("create a deleted queue again after 30 s", outcome(err), "ok")
			e.expect("messages in a queue created again", e.count(), 0)
		}
	},
	"metadata is replaced as a whole": func(e *env) {
		_, err := e.q.Create(e.ctx, &azqueue.CreateOptions{Metadata: map[string]*string{"team": new("ops"), "owner_1": new("Kim & Co <1>")}})
		e.must(err)
		e.expect("metadata after creation", e.metadata(), "owner_1=Kim & Co <1> team=ops")
		_, err = e.q.SetMetadata(e.ctx, &azqueue.SetMetadataOptions{Metadata: map[string]*string{"tier": new("1")}})
		e.must(err)
		e.expect("metadata after setting other", e.metadata(), "tier=1")
		_, err = e.q.SetMetadata(e.ctx, nil)
		e.must(err)
		e.expect("metadata after setting none", e.metadata(), "")
	},
	"metadata names and sizes have rules": func(e *env) {
		e.create()
		set := func(name, value string) string {
			r := e.do(request{method: "PUT", path: "/" + e.name, query: "comp=metadata", header: map[string]string{"x-ms-meta-" + name: value}})
			return r.String()
		}
		e.expect("a metadata name that is an identifier", set("_a1", "x"), "204")
		e.expect("a metadata name with a hyphen", set("has-hyphen", "x"), "400 InvalidMetadata")
		e.expect("a metadata name that starts with a digit", set("1a", "x"), "400 InvalidMetadata")
		e.expect("an empty metadata name", set("", "x"), "400 EmptyMetadataKey")
		e.expect("8 KiB of metadata", set("n", strings.Repeat("x", 8191)), "204")
		e.expect("more than 8 KiB of metadata", set("n", strings.Repeat("x", 8192)), "400 MetadataTooLarge")
	},
	"the count includes hidden messages": func(e *env) {
		e.create()
		e.expect("count of an empty queue", e.count(), 0)
		e.send("a", "b", "c")
		e.receive(2, 30)
		e.expect("count of three, two of them hidden", e.count(), 3)
		_, err := e.q.EnqueueMessage(e.ctx, "later", &azqueue.EnqueueMessageOptions{VisibilityTimeout: new(int32(60))})
		e.must(err)
		e.expect("count with a delayed one more", e.count(), 4)
		r := e.do(request{method: "HEAD", path: "/" + e.name, query: "comp=metadata"})
		e.expect("properties by HEAD", r.String()+" "+r.header.Get("x-ms-approximate-messages-count"), "200 4")
	},
	"clearing removes every message": func(e *env) {
		e.create()
		e.send("a", "b", "c")
		m := e.one(30)
		_, err := e.q.ClearMessages(e.ctx, nil)
		e.expect("clear", outcome(err), "ok")
		e.expect("count of a cleared queue", e.count(), 0)
		_, err = e.q.DeleteMessage(e.ctx, *m.MessageID, *m.PopReceipt, nil)
		e.expect("delete a cleared message", outcome(err), "404 MessageNotFound")
		e.send("d")
		e.expect("messages sent after clearing", e.peekTexts(), "[d]")
	},
	"stored access policies are kept": func(e *env) {
		e.create()
		start := e.target.Now().UTC().Truncate(time.Second)
		_, err := e.q.SetAccessPolicy(e.ctx, &azqueue.SetAccessPolicyOptions{QueueACL: []*azqueue.SignedIdentifier{{
			ID: new("readers"), AccessPolicy: &azqueue.AccessPolicy{Start: &start, Expiry: new(start.Add(time.Hour)), Permission: new("r")},
		}}})
		e.must(err)
		r, err := e.q.GetAccessPolicy(e.ctx, nil)
		e.must(err)
		var got []string
		for _, s := range r.SignedIdentifiers {
			got = append(got, fmt.Sprint(*s.ID, *s.AccessPolicy.Permission, s.AccessPolicy.Expiry.Sub(*s.AccessPolicy.Start)))
		}
		e.expect("stored access policies", got, "[readersr1h0m0s]")
	},
}

// everything tries each operation on a queue that is not there.
func everything(e *env, of string) {
	e.Helper()
	_, err := e.q.GetProperties(e.ctx, nil)
	e.expect("properties "+of, outcome(err), "404 QueueNotFound")
	_, err = e.q.SetMetadata(e.ctx, nil)
	e.expect("set metadata "+of, outcome(err), "404 QueueNotFound")
	_, err = e.q.EnqueueMessage(e.ctx, "x", nil)
	e.expect("send "+of, outcome(err), "404 QueueNotFound")
	_, err = e.q.DequeueMessage(e.ctx, nil)
	e.expect("receive "+of, outcome(err), "404 QueueNotFound")
	_, err = e.q.PeekMessage(e.ctx, nil)
	e.expect("peek "+of, outcome(err), "404 QueueNotFound")
	_, err = e.q.ClearMessages(e.ctx, nil)
	e.expect("clear "+of, outcome(err), "404 QueueNotFound")
	const id, receipt = "b456bcfc-34c2-4b2c-ba85-93886c55a02b", "AgAAAAMAAAAAAAAAdRjwqGgEkEc="
	_, err = e.q.DeleteMessage(e.ctx, id, receipt, nil)
	e.expect("delete a message "+of, outcome(err), "404 QueueNotFound")
	_, err = e.q.UpdateMessage(e.ctx, id, receipt, "x", &azqueue.UpdateMessageOptions{VisibilityTimeout: new(int32(1))})
	e.expect("update a message "+of, outcome(err), "404 QueueNotFound")
	_, err = e.q.GetAccessPolicy(e.ctx, nil)
	e.expect("access policy "+of, outcome(err), "404 QueueNotFound")
}

// metadata reads the queue's metadata, in order. HTTP loses the case of the names.
func (e *env) metadata() string {
	e.Helper()
	r, err := e.q.GetProperties(e.ctx, nil)
	e.must(err)
	var all []string
	for k, v := range r.Metadata {
		all = append(all, strings.ToLower(k)+"="+*v)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}
