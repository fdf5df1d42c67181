package forward_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/internal/forward"
	"github.com/qwatch/qwatch/queue"
)

func TestMessagesAsCloudEvents(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	type attributes map[string]any
	tests := map[string]struct {
		form forward.CloudEvents
		options
		want attributes // header or member; id and time are checked apart
	}{
		"binary": {forward.CloudEventsBinary, options{body: `{"n":1}`}, attributes{
			"specversion": "1.0", "source": "/shop/orders", "type": "com.azure.storage.queue.message", "datacontenttype": "application/json",
		}},
		"binary with a type and a trace": {forward.CloudEventsBinary, options{body: "text", headers: map[string]string{"message-type": `order "créé"`}, trace: queue.TraceContext{Parent: parent, State: "a=1"}}, attributes{
			"specversion": "1.0", "source": "/shop/orders", "type": `order%20%22cr%C3%A9%C3%A9%22`, "datacontenttype": "text/plain; charset=utf-8",
			"traceparent": parent, "tracestate": "a=1",
		}},
		"structured JSON": {forward.CloudEventsStructured, options{body: `{"n":1.50,"s":"<&>"}`, headers: map[string]string{"message-type": "créé"}, trace: queue.TraceContext{Parent: parent}}, attributes{
			"specversion": "1.0", "source": "/shop/orders", "type": "créé", "datacontenttype": "application/json", "traceparent": parent,
			"data": map[string]any{"n": json.Number("1.50"), "s": "<&>"},
		}},
		"structured text": {forward.CloudEventsStructured, options{body: "hello"}, attributes{
			"specversion": "1.0", "source": "/shop/orders", "type": "com.azure.storage.queue.message", "datacontenttype": "text/plain; charset=utf-8", "data": "hello",
		}},
		"structured bytes": {forward.CloudEventsStructured, options{body: "\xff\x00"}, attributes{
			"specversion": "1.0", "source": "/shop/orders", "type": "com.azure.storage.queue.message", "datacontenttype": "application/octet-stream", "data_base64": "/wA=",
		}},
		"structured JSON that is none": {forward.CloudEventsStructured, options{body: "{", headers: map[string]string{"content-type": "application/vnd.x+json"}}, attributes{
			"specversion": "1.0", "source": "/shop/orders", "type": "com.azure.storage.queue.message", "datacontenttype": "application/vnd.x+json", "data_base64": "ew==",
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var header http.Header
			var body []byte
			addr := serve(t, func(_ http.ResponseWriter, r *http.Request) {
				header = r.Header
				body, _ = io.ReadAll(r.Body)
			})
			d := deliver(t, post(t, forward.HTTPConfig{URL: queue.Secret(addr), CloudEvents: tt.form}), tt.options)
			if d.Outcome != completed {
				t.Fatalf("outcome %q: %v", d.Outcome, d.Err)
			}
			got := attributes{}
			if tt.form == forward.CloudEventsBinary {
				for _, name := range []string{"specversion", "id", "source", "type", "time", "traceparent", "tracestate"} {
					if v := header.Get("ce-" + name); v != "" {
						got[name] = v
					}
				}
				got["datacontenttype"] = header.Get("Content-Type")
				if string(body) != tt.body {
					t.Errorf("body %q, want %q", body, tt.body)
				}
			} else {
				if ct := header.Get("Content-Type"); ct != "application/cloudevents+json; charset=utf-8" {
					t.Errorf("content type %q", ct)
				}
				dec := json.NewDecoder(bytes.NewReader(body))
				dec.UseNumber()
				if err := dec.Decode(&got); err != nil {
					t.Fatal(err)
				}
			}
			if got["id"] != header.Get("Qwatch-Message-Id") || got["time"] != header.Get("Qwatch-Inserted-At") || got["id"] == "" {
				t.Errorf("id %v at %v, but the message is %v", got["id"], got["time"], header)
			}
			delete(got, "id")
			delete(got, "time")
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
