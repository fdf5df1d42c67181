package conformance

import (
	"strings"
)

var limitCases = map[string]func(*env){
	"a receive has limits": func(e *env) {
		e.create()
		e.send("a")
		receive := func(query string) string { return e.messages("GET", query, "").String() }
		e.expect("receive 0 messages", receive("numofmessages=0"), "400 OutOfRangeQueryParameterValue")
		e.expect("receive 33 messages", receive("numofmessages=33"), "400 OutOfRangeQueryParameterValue")
		e.expect("receive -1 messages", receive("numofmessages=-1"), "400 OutOfRangeQueryParameterValue")
		e.expect("receive x messages", receive("numofmessages=x"), "400 InvalidQueryParameterValue")
		e.expect("receive for 0 s", receive("visibilitytimeout=0"), "400 OutOfRangeQueryParameterValue")
		e.expect("receive for -1 s", receive("visibilitytimeout=-1"), "400 OutOfRangeQueryParameterValue")
		e.expect("receive for more than 7 days", receive("visibilitytimeout=604801"), "400 OutOfRangeQueryParameterValue")
		e.expect("receive for x s", receive("visibilitytimeout=x"), "400 InvalidQueryParameterValue")
		e.expect("peek at 0 messages", receive("peekonly=true&numofmessages=0"), "400 OutOfRangeQueryParameterValue")
		e.expect("peek at 33 messages", receive("peekonly=true&numofmessages=33"), "400 OutOfRangeQueryParameterValue")
		e.expect("messages after refused receives", e.peekTexts(), "[a]")
		e.expect("receive 32 messages for 7 days", receive("numofmessages=32&visibilitytimeout=604800"), "200")
		e.expect("messages after that receive", len(e.peek()), 0)

		f := e.failure(e.messages("GET", "numofmessages=33", ""))
		e.expect("error document of a parameter out of range",
			strings.Join([]string{f.Code, f.QueryParameterName, f.MinimumAllowed, f.MaximumAllowed}, " "),
			"OutOfRangeQueryParameterValue numofmessages 1 32")
	},
	"a delay has limits": func(e *env) {
		e.create()
		send := func(query string) string { return e.messages("POST", query, document("x")).String() }
		e.expect("send with a delay of 0", send("visibilitytimeout=0"), "201")
		e.expect("send with a delay of -1", send("visibilitytimeout=-1"), "400 OutOfRangeQueryParameterValue")
		e.expect("send with a delay of more than 7 days", send("messagettl=-1&visibilitytimeout=604801"), "400 OutOfRangeQueryParameterValue")
		e.expect("send with a delay of 7 days, the time to live", send("visibilitytimeout=604800"), "400 InvalidQueryParameterValue")
		e.expect("count after refused sends", e.count(), 1)
	},
	"an update has limits": func(e *env) {
		e.create()
		e.send("a")
		m := e.one(30)
		update := func(query string) string {
			r := e.do(request{method: "PUT", path: "/" + e.name + "/messages/" + *m.MessageID, query: "popreceipt=" + escape(*m.PopReceipt) + query, body: document("b")})
			return r.String()
		}
		e.expect("update for -1 s", update("&visibilitytimeout=-1"), "400 OutOfRangeQueryParameterValue")
		e.expect("update for more than 7 days", update("&visibilitytimeout=604801"), "400 OutOfRangeQueryParameterValue")
		e.expect("update for x s", update("&visibilitytimeout=x"), "400 InvalidQueryParameterValue")
		e.expect("update for 7 days", update("&visibilitytimeout=604800"), "204")
	},
	"an update needs a visibility timeout": func(e *env) {
		e.create()
		e.send("a")
		m := e.one(30)
		r := e.do(request{method: "PUT", path: "/" + e.name + "/messages/" + *m.MessageID, query: "popreceipt=" + escape(*m.PopReceipt), body: document("b")})
		e.expect("update without a visibility timeout", r.String(), "400 MissingRequiredQueryParameter")
	},
	"a text holds 64 KiB": func(e *env) {
		e.create()
		send := func(text string) string {
			_, err := e.q.EnqueueMessage(e.ctx, text, nil)
			return outcome(err)
		}
		e.expect("65536 bytes", send(strings.Repeat("a", 65536)), "ok")
		e.expect("65537 bytes", send(strings.Repeat("a", 65537)), "413 RequestBodyTooLarge")
		e.expect("65538 bytes in 32769 characters", send(strings.Repeat("é", 32769)), "413 RequestBodyTooLarge")
		e.expect("65536 characters that XML writes with four", send(strings.Repeat("<", 65536)), "ok")
		e.expect("65537 characters that XML writes with four", send(strings.Repeat("<", 65537)), "413 RequestBodyTooLarge")
		got := e.receive(32, 30)
		e.expect("messages of 64 KiB received", len(got), 2)
		for i, want := range []string{"a", "<"} {
			if i < len(got) && *got[i].MessageText != strings.Repeat(want, 65536) {
				e.Errorf("64 KiB of %s changed", want)
			}
		}
	},
	"a text holds 64 KiB of two-byte characters": func(e *env) {
		e.create()
		want := strings.Repeat("é", 32768)
		_, err := e.q.EnqueueMessage(e.ctx, want, nil)
		got := outcome(err)
		if err == nil && *e.one(30).MessageText != want {
			got += ", changed"
		}
		e.expect("65536 bytes in 32768 characters", got, "ok")
	},
	"an update of more than 64 KiB is refused": func(e *env) {
		e.create()
		e.send("a")
		m := e.one(1)
		update := func(n int) string {
			r := e.do(request{
				method: "PUT", path: "/" + e.name + "/messages/" + *m.MessageID,
				query: "visibilitytimeout=0&popreceipt=" + escape(*m.PopReceipt), body: document(strings.Repeat("b", n)),
			})
			return r.String()
		}
		e.expect("update with 65537 bytes", update(65537), "413 RequestBodyTooLarge")
		e.expect("update with 65536 bytes", update(65536), "204")
		e.expect("size after the update", len(*e.one(30).MessageText), 65536)
	},
}
