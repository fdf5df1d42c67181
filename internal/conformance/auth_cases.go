package conformance

import (
	"cmp"
	"encoding/base64"
	"net/http"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2/sas"
)

var keyCases = map[string]func(*env){
	"a shared key must be right": func(e *env) {
		e.create()
		list := request{method: "GET", path: "/", query: "comp=list&maxresults=1"}
		e.expect("a right key", e.do(list), "200")
		wrong := list
		wrong.key = base64.StdEncoding.EncodeToString([]byte("wrong"))
		e.expect("a wrong key", e.do(wrong), "403 AuthenticationFailed")
		other := list
		other.signer = "somebodyelse"
		e.expect("another account's name", e.do(other), "403 AuthenticationFailed")
		_, err := e.service(wrong.key).NewQueueClient(e.name).GetProperties(e.ctx, nil)
		e.expect("a wrong key in the SDK", outcome(err), "403 AuthenticationFailed")
	},
	"a request must carry credentials": func(e *env) {
		e.create()
		none := request{method: "GET", path: "/" + e.name, query: "comp=metadata", noAuth: true}
		e.expect("no credentials", e.do(none), "401 NoAuthenticationInformation")
		garbage := none
		garbage.header = map[string]string{"Authorization": "Basic YTpi"}
		e.expect("credentials of another kind", e.do(garbage), "400 InvalidAuthenticationInfo")
		half := none
		half.header = map[string]string{"Authorization": "SharedKey devstoreaccount1"}
		e.expect("a shared key without a signature", e.do(half), "400 InvalidAuthenticationInfo")
	},
	"what was signed must not change": func(e *env) {
		e.create()
		r := request{method: "GET", path: "/" + e.name + "/messages", query: "numofmessages=1"}
		req, err := http.NewRequestWithContext(e.ctx, r.method, e.target.URL+r.path+"?"+r.query, nil)
		e.must(err)
		req.Header.Set("x-ms-version", version)
		req.Header.Set("x-ms-date", e.target.Now().UTC().Format(http.TimeFormat))
		e.sign(req, r)
		signed := req.Header.Get("Authorization")
		e.expect("another parameter than was signed", e.do(request{
			method: "GET", path: r.path, query: "numofmessages=2", noAuth: true,
			header: map[string]string{"Authorization": signed, "x-ms-date": req.Header.Get("x-ms-date")},
		}), "403 AuthenticationFailed")
		e.expect("another method than was signed", e.do(request{
			method: "DELETE", path: r.path, query: r.query, noAuth: true,
			header: map[string]string{"Authorization": signed, "x-ms-date": req.Header.Get("x-ms-date")},
		}), "403 AuthenticationFailed")
		e.expect("what was signed", e.do(request{
			method: "GET", path: r.path, query: r.query, noAuth: true,
			header: map[string]string{"Authorization": signed, "x-ms-date": req.Header.Get("x-ms-date")},
		}), "200")
	},
	"a signed request must not be older than 15 minutes": func(e *env) {
		e.create()
		at := func(d time.Duration) response {
			return e.do(request{method: "GET", path: "/" + e.name, query: "comp=metadata", date: e.target.Now().Add(d)})
		}
		e.expect("a request of 14 minutes ago", at(-14*time.Minute), "200")
		e.expect("a request of 16 minutes ago", at(-16*time.Minute), "403 AuthenticationFailed")
		e.expect("a request of 16 minutes from now", at(16*time.Minute), "403 AuthenticationFailed")
		r := e.do(request{method: "GET", path: "/" + e.name, query: "comp=metadata", header: map[string]string{"x-ms-date": "yesterday"}})
		e.expect("a request with a date that is none", r, "403 AuthenticationFailed")
	},
}

var sasCases = map[string]func(*env){
	"an account SAS allows what it says": func(e *env) {
		e.create()
		e.send("a", "b")
		all := e.accountSAS(sas.AccountSignatureValues{Permissions: "rwdlacup", ResourceTypes: "sco"})
		e.expect("list with a SAS for everything", e.with(all, "GET", "/", "comp=list&maxresults=1", ""), "200")
		e.expect("properties with a SAS for everything", e.with(all, "GET", "/"+e.name, "comp=metadata", ""), "200")
		e.expect("send with a SAS for everything", e.with(all, "POST", "/"+e.name+"/messages", "", document("c")), "201")
		e.expect("peek with a SAS for everything", e.with(all, "GET", "/"+e.name+"/messages", "peekonly=true", ""), "200")
		e.expect("receive with a SAS for everything", e.with(all, "GET", "/"+e.name+"/messages", "", ""), "200")
		e.expect("clear with a SAS for everything", e.with(all, "DELETE", "/"+e.name+"/messages", "", ""), "204")

		reads := e.accountSAS(sas.AccountSignatureValues{Permissions: "r", ResourceTypes: "sco"})
		e.expect("peek with a SAS to read", e.with(reads, "GET", "/"+e.name+"/messages", "peekonly=true", ""), "200")
		e.expect("properties with a SAS to read", e.with(reads, "GET", "/"+e.name, "comp=metadata", ""), "200")
		e.expect("list with a SAS to read", e.with(reads, "GET", "/", "comp=list", ""), "403 AuthorizationPermissionMismatch")
		e.expect("receive with a SAS to read", e.with(reads, "GET", "/"+e.name+"/messages", "", ""), "403 AuthorizationPermissionMismatch")
		e.expect("send with a SAS to read", e.with(reads, "POST", "/"+e.name+"/messages", "", document("c")), "403 AuthorizationPermissionMismatch")
		e.expect("clear with a SAS to read", e.with(reads, "DELETE", "/"+e.name+"/messages", "", ""), "403 AuthorizationPermissionMismatch")
		e.expect("delete the queue with a SAS to read", e.with(reads, "DELETE", "/"+e.name, "", ""), "403 AuthorizationPermissionMismatch")
		e.expect("create a queue with a SAS to read", e.with(reads, "PUT", "/"+e.name, "", ""), "403 AuthorizationPermissionMismatch")

		objects := e.accountSAS(sas.AccountSignatureValues{Permissions: "rwdlacup", ResourceTypes: "o"})
		e.expect("receive with a SAS for objects", e.with(objects, "GET", "/"+e.name+"/messages", "", ""), "200")
		e.expect("properties with a SAS for objects", e.with(objects, "GET", "/"+e.name, "comp=metadata", ""), "403 AuthorizationResourceTypeMismatch")
		e.expect("list with a SAS for objects", e.with(objects, "GET", "/", "comp=list", ""), "403 AuthorizationResourceTypeMismatch")
	},
	"messages are updated and deleted with a SAS for objects": func(e *env) {
		e.create()
		e.send("a")
		m := e.one(30)
		path := "/" + e.name + "/messages/" + *m.MessageID
		objects := e.accountSAS(sas.AccountSignatureValues{Permissions: "up", ResourceTypes: "o"})
		u := e.with(objects, "PUT", path, "visibilitytimeout=30&popreceipt="+escape(*m.PopReceipt), document("a"))
		e.expect("update with a SAS for objects", u, "204")
		if receipt := u.header.Get("x-ms-popreceipt"); receipt != "" {
			m.PopReceipt = &receipt
		}
		e.expect("delete with a SAS for objects", e.with(objects, "DELETE", path, "popreceipt="+escape(*m.PopReceipt), ""), "204")
	},
	"a service SAS allows what it says": func(e *env) {
		e.create()
		e.send("a", "b")
		all := e.serviceSAS(sas.QueueSignatureValues{Permissions: "raup"})
		e.expect("properties with a service SAS", e.with(all, "GET", "/"+e.name, "comp=metadata", ""), "200")
		e.expect("send with a service SAS", e.with(all, "POST", "/"+e.name+"/messages", "", document("c")), "201")
		e.expect("peek with a service SAS", e.with(all, "GET", "/"+e.name+"/messages", "peekonly=true", ""), "200")
		e.expect("receive with a service SAS", e.with(all, "GET", "/"+e.name+"/messages", "", ""), "200")
		e.expect("list with a service SAS", e.with(all, "GET", "/", "comp=list", ""), "403 AuthenticationFailed")
		e.expect("set metadata with a service SAS", e.with(all, "PUT", "/"+e.name, "comp=metadata", ""), "403 AuthorizationPermissionMismatch")
		e.expect("delete the queue with a service SAS", e.with(all, "DELETE", "/"+e.name, "", ""), "403 AuthorizationPermissionMismatch")
		e.expect("another queue than the service SAS's", e.with(all, "GET", "/"+e.name+"x/messages", "peekonly=true", ""), "403 AuthenticationFailed")

		adds := e.serviceSAS(sas.QueueSignatureValues{Permissions: "a"})
		e.expect("send with a service SAS to add", e.with(adds, "POST", "/"+e.name+"/messages", "", document("c")), "201")
		e.expect("receive with a service SAS to add", e.with(adds, "GET", "/"+e.name+"/messages", "", ""), "403 AuthorizationPermissionMismatch")
		e.expect("peek with a service SAS to add", e.with(adds, "GET", "/"+e.name+"/messages", "peekonly=true", ""), "403 AuthorizationPermissionMismatch")
		e.expect("properties with a service SAS to add", e.with(adds, "GET", "/"+e.name, "comp=metadata", ""), "403 AuthorizationPermissionMismatch")
	},
	"a SAS has a lifetime and a signature": func(e *env) {
		e.create()
		peek := func(token string) response {
			e.Helper()
			return e.with(token, "GET", "/"+e.name+"/messages", "peekonly=true", "")
		}
		now := e.target.Now()
		e.expect("a SAS that expired", peek(e.serviceSAS(sas.QueueSignatureValues{Permissions: "r", ExpiryTime: now.Add(-time.Minute)})), "403 AuthenticationFailed")
		e.expect("an account SAS that expired", peek(e.accountSAS(sas.AccountSignatureValues{Permissions: "r", ResourceTypes: "o", ExpiryTime: now.Add(-time.Minute)})), "403 AuthenticationFailed")
		e.expect("a SAS that did not start yet", peek(e.serviceSAS(sas.QueueSignatureValues{Permissions: "r", StartTime: now.Add(time.Hour), ExpiryTime: now.Add(2 * time.Hour)})), "403 AuthenticationFailed")
		e.expect("a SAS that started", peek(e.serviceSAS(sas.QueueSignatureValues{Permissions: "r", StartTime: now.Add(-time.Hour), ExpiryTime: now.Add(2 * time.Hour)})), "200")
		e.expect("a SAS for https only", peek(e.serviceSAS(sas.QueueSignatureValues{Permissions: "r", Protocol: sas.ProtocolHTTPS})), "403 AuthorizationProtocolMismatch")
		good := e.serviceSAS(sas.QueueSignatureValues{Permissions: "r"})
		e.expect("a SAS with more permissions than were signed", peek(strings.Replace(good, "sp=r", "sp=raup", 1)), "403 AuthenticationFailed")
		e.expect("a SAS without a version", peek(strings.Replace(good, "sv=", "x=", 1)), "403 AuthenticationFailed")
		e.expect("a SAS with another signature", peek(good[:strings.Index(good, "sig=")]+"sig="+escape(base64.StdEncoding.EncodeToString(make([]byte, 32)))), "403 AuthenticationFailed")
	},
	"a SAS may name a stored access policy": func(e *env) {
		e.create()
		now := e.target.Now().UTC()
		_, err := e.q.SetAccessPolicy(e.ctx, &azqueue.SetAccessPolicyOptions{QueueACL: []*azqueue.SignedIdentifier{{
			ID: new("readers"), AccessPolicy: &azqueue.AccessPolicy{Start: new(now.Add(-time.Hour)), Expiry: new(now.Add(time.Hour)), Permission: new("r")},
		}}})
		e.must(err)
		token := e.identified("readers")
		e.expect("peek with the policy's SAS", e.with(token, "GET", "/"+e.name+"/messages", "peekonly=true", ""), "200")
		e.expect("send with the policy's SAS", e.with(token, "POST", "/"+e.name+"/messages", "", document("x")), "403 AuthorizationPermissionMismatch")
		e.expect("peek with the SAS of a policy that is none", e.with(e.identified("nobody"), "GET", "/"+e.name+"/messages", "peekonly=true", ""), "403 AuthenticationFailed")
		_, err = e.q.SetAccessPolicy(e.ctx, nil)
		e.must(err)
		e.expect("peek with the SAS of a revoked policy", e.with(token, "GET", "/"+e.name+"/messages", "peekonly=true", ""), "403 AuthenticationFailed")
	},
	"the SDK signs in with a SAS": func(e *env) {
		e.create()
		q, err := azqueue.NewQueueClientWithNoCredential(e.target.URL+"/"+e.name+"?"+e.serviceSAS(sas.QueueSignatureValues{Permissions: "raup"}), e.options())
		e.must(err)
		_, err = q.EnqueueMessage(e.ctx, "a", nil)
		e.expect("send with the SDK and a SAS", outcome(err), "ok")
		r, err := q.DequeueMessage(e.ctx, nil)
		e.must(err)
		u, err := q.UpdateMessage(e.ctx, *r.Messages[0].MessageID, *r.Messages[0].PopReceipt, "b", &azqueue.UpdateMessageOptions{VisibilityTimeout: new(int32(30))})
		e.must(err)
		_, err = q.DeleteMessage(e.ctx, *r.Messages[0].MessageID, *u.PopReceipt, nil)
		e.expect("delete with the SDK and a SAS", outcome(err), "ok")
	},
}

// with sends a request with a SAS in place of a signature.
func (e *env) with(token, method, path, query, body string) response {
	e.Helper()
	if query != "" {
		token = query + "&" + token
	}
	return e.do(request{method: method, path: path, query: token, body: body, noAuth: true})
}

func (e *env) credential() *azqueue.SharedKeyCredential {
	e.Helper()
	cred, err := azqueue.NewSharedKeyCredential(e.target.Account, e.target.Key)
	e.must(err)
	return cred
}

// usual fills in what a SAS does not say: that it is good for an hour, and for http as well.
func (e *env) usual(expiry *time.Time, protocol *sas.Protocol) {
	if expiry.IsZero() {
		*expiry = e.target.Now().Add(time.Hour)
	}
	*protocol = cmp.Or(*protocol, sas.ProtocolHTTPSandHTTP)
}

// accountSAS signs v, with what is usual.
func (e *env) accountSAS(v sas.AccountSignatureValues) string {
	e.Helper()
	e.usual(&v.ExpiryTime, &v.Protocol)
	p, err := v.SignWithSharedKey(e.credential())
	e.must(err)
	return p.Encode()
}

// serviceSAS signs v for the case's queue, with what is usual.
func (e *env) serviceSAS(v sas.QueueSignatureValues) string {
	e.Helper()
	v.QueueName = e.name
	e.usual(&v.ExpiryTime, &v.Protocol)
	p, err := v.SignWithSharedKey(e.credential())
	e.must(err)
	return p.Encode()
}

// identified signs a SAS that leaves everything to a stored access policy.
func (e *env) identified(policy string) string {
	e.Helper()
	p, err := (sas.QueueSignatureValues{QueueName: e.name, Identifier: policy, Protocol: sas.ProtocolHTTPSandHTTP}).SignWithSharedKey(e.credential())
	e.must(err)
	return p.Encode()
}
