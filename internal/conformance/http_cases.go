package conformance

import (
	"net/http"
	"strings"
	"time"
)

var httpCases = map[string]func(*env){
	"every answer carries the service's headers": func(e *env) {
		e.create()
		ids := map[string]bool{}
		for _, r := range []response{
			e.messages("POST", "", document("x")),
			e.messages("GET", "", ""),
			e.do(request{method: "GET", path: "/" + e.name, query: "comp=metadata"}),
			e.messages("GET", "numofmessages=33", ""),
			e.do(request{method: "GET", path: "/", query: "comp=list"}),
			e.do(request{method: "GET", path: "/no-such-queue/messages"}),
		} {
			ids[r.header.Get("x-ms-request-id")] = true
			if _, err := time.Parse(time.RFC1123, r.header.Get("Date")); err != nil {
				e.Errorf("%v: Date: %v", r, err)
			}
			if r.header.Get("x-ms-version") == "" {
				e.Errorf("%v: no x-ms-version", r)
			}
			if r.body != "" && !strings.HasPrefix(r.header.Get("Content-Type"), "application/xml") {
				e.Errorf("%v: Content-Type %q", r, r.header.Get("Content-Type"))
			}
		}
		e.expect("request ids of six requests", len(ids), 6)
		r := e.do(request{method: "GET", path: "/" + e.name, query: "comp=metadata", header: map[string]string{"x-ms-client-request-id": "mine"}})
		e.expect("the client's request id", r.header.Get("x-ms-client-request-id"), "mine")
	},
	"an error is a document with the code of its header": func(e *env) {
		for _, r := range []response{
			e.messages("GET", "", ""),
			e.messages("POST", "", document("x")),
			e.do(request{method: "PUT", path: "/Bad_Name"}),
			e.do(request{method: "GET", path: "/", query: "comp=list", key: "d3Jvbmc="}),
		} {
			f := e.failure(r)
			if f.Code == "" || f.Code != r.header.Get("x-ms-error-code") || f.Message == "" {
				e.Errorf("%v: %+v", r, f)
			}
			if !strings.Contains(f.Message, "RequestId:"+r.header.Get("x-ms-request-id")) || !strings.Contains(f.Message, "Time:") {
				e.Errorf("%v: message %q", r, f.Message)
			}
		}
	},
	"the answers to updates carry receipt and time": func(e *env) {
		e.create()
		e.send("a")
		m := e.one(30)
		r := e.do(request{method: http.MethodPut, path: "/" + e.name + "/messages/" + *m.MessageID, query: "visibilitytimeout=5&popreceipt=" + escape(*m.PopReceipt), body: document("b")})
		e.expect("update by hand", r.String()+r.body, "204")
		if r.header.Get("x-ms-popreceipt") == "" {
			e.Error("no x-ms-popreceipt")
		}
		if _, err := time.Parse(time.RFC1123, r.header.Get("x-ms-time-next-visible")); err != nil {
			e.Error(err)
		}
	},
	"requests for nothing the service has are refused": func(e *env) {
		e.create()
		for what, r := range map[string]request{
			"PATCH a queue":                 {method: "PATCH", path: "/" + e.name},
			"POST to a queue":               {method: "POST", path: "/" + e.name},
			"GET a queue":                   {method: "GET", path: "/" + e.name},
			"PUT messages":                  {method: "PUT", path: "/" + e.name + "/messages"},
			"GET one message":               {method: "GET", path: "/" + e.name + "/messages/b456bcfc-34c2-4b2c-ba85-93886c55a02b"},
			"GET something under a queue":   {method: "GET", path: "/" + e.name + "/other"},
			"GET something under a message": {method: "GET", path: "/" + e.name + "/messages/a/b"},
			"GET an account":                {method: "GET", path: "/"},
			"an unknown component":          {method: "GET", path: "/" + e.name, query: "comp=nonsense"},
			"a broken escape in the query":  {method: "GET", path: "/" + e.name + "/messages", query: "numofmessages=%zz"},
		} {
			got := e.do(r)
			e.expect(what+" is a client's error", got.status/100, 4)
		}
	},
	"parameter names have no case": func(e *env) {
		e.create()
		e.send("a", "b")
		r := e.messages("GET", "NumOfMessages=2&PeekOnly=true", "")
		e.expect("messages peeked with upper-case parameters", strings.Count(r.body, "<QueueMessage>"), 2)
	},
	"a timeout parameter is allowed": func(e *env) {
		e.create()
		e.expect("receive with a timeout", e.messages("GET", "timeout=30", ""), "200")
	},
}
