package forward

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/qwatch/qwatch/processor"
)

// defaultEventType is the CloudEvents type of a message that does not carry one.
const defaultEventType = "com.azure.storage.queue.message"

// asCloudEvent turns the request's headers and body into those of a CloudEvent 1.0. Its id is the
// message's, its source "/account/queue", its type the message's.
func asCloudEvent(m *processor.Message, header http.Header, form CloudEvents) []byte {
	q := m.Queue()
	event := struct {
		SpecVersion     string          `json:"specversion"`
		ID              string          `json:"id"`
		Source          string          `json:"source"`
		Type            string          `json:"type"`
		Time            string          `json:"time"`
		DataContentType string          `json:"datacontenttype"`
		TraceParent     string          `json:"traceparent,omitempty"`
		TraceState      string          `json:"tracestate,omitempty"`
		Data            json.RawMessage `json:"data,omitempty"`
		Base64          []byte          `json:"data_base64,omitempty"`
	}{
		SpecVersion:     "1.0",
		ID:              m.ID,
		Source:          "/" + url.PathEscape(q.Account().Name()) + "/" + url.PathEscape(q.Name()),
		Type:            m.Type(),
		Time:            m.InsertedAt.UTC().Format(time.RFC3339),
		DataContentType: header.Get("Content-Type"),
		TraceParent:     header.Get("Traceparent"),
		TraceState:      header.Get("Tracestate"),
	}
	if event.Type == "" {
		event.Type = defaultEventType
	}
	if form == CloudEventsBinary {
		for name, value := range map[string]string{
			"Ce-Specversion": event.SpecVersion, "Ce-Id": event.ID, "Ce-Source": event.Source, "Ce-Type": event.Type,
			"Ce-Time": event.Time, "Ce-Traceparent": event.TraceParent, "Ce-Tracestate": event.TraceState,
		} {
			if value != "" {
				header[name] = []string{escapeAttribute(value)}
			}
		}
		return m.Body
	}
	switch {
	case isJSON(event.DataContentType) && json.Valid(m.Body) && utf8.Valid(m.Body):
		event.Data = m.Body
	case strings.HasPrefix(event.DataContentType, "text/") && isText(m.Body):
		event.Data, _ = json.Marshal(string(m.Body))
	default:
		event.Base64 = m.Body
	}
	header["Content-Type"] = []string{"application/cloudevents+json; charset=utf-8"}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(event) // strings, bytes and valid JSON: it cannot fail
	return b.Bytes()
}

func isJSON(mediaType string) bool {
	mediaType, _, _ = strings.Cut(strings.ToLower(mediaType), ";")
	mediaType = strings.TrimSpace(mediaType)
	return mediaType == "application/json" || mediaType == "text/json" || strings.HasSuffix(mediaType, "+json")
}

// escapeAttribute encodes an attribute as the HTTP binding of CloudEvents wants it: as a header's
// value, with spaces and double quotes percent-encoded as well.
func escapeAttribute(s string) string {
	return escape(s, func(_ int, c byte) bool { return c > ' ' && c < 0x7f && c != '%' && c != '"' })
}
