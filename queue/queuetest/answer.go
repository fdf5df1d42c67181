package queuetest

import (
	"net/http"
	"strconv"
	"time"
)

// answer is what a request gets back.
type answer struct {
	status int
	code   string // of the error; "" is success
	out    []byte // body
	extra  []pair // further headers, canonical keys
}

// failure is an error of the service.
type failure struct {
	status  int
	code    string
	details []pair // further elements of the error document
	headers []pair
}

var messages = map[string]string{
	"AuthenticationFailed":              "Server failed to authenticate the request. Make sure the value of Authorization header is formed correctly including the signature.",
	"AuthorizationFailure":              "This request is not authorized to perform this operation.",
	"AuthorizationPermissionMismatch":   "This request is not authorized to perform this operation using this permission.",
	"AuthorizationProtocolMismatch":     "This request is not authorized to perform this operation using this protocol.",
	"AuthorizationResourceTypeMismatch": "This request is not authorized to perform this operation using this resource type.",
	"AuthorizationServiceMismatch":      "This request is not authorized to perform this operation using this service.",
	"AuthorizationSourceIPMismatch":     "This request is not authorized to perform this operation using this source IP.",
	"EmptyMetadataKey":                  "The key for one of the metadata key-value pairs is empty.",
	"InternalError":                     "The server encountered an internal error. Please retry the request.",
	"InvalidAuthenticationInfo":         "Authentication information is not given in the correct format. Check the value of Authorization header.",
	"InvalidHeaderValue":                "The value for one of the HTTP headers is not in the correct format.",
	"InvalidMarker":                     "The specified marker is invalid.",
	"InvalidMetadata":                   "The metadata specified is invalid. It has characters that are not permitted.",
	"InvalidQueryParameterValue":        "Value for one of the query parameters specified in the request URI is invalid.",
	"InvalidResourceName":               "The specifed resource name contains invalid characters.",
	"InvalidUri":                        "The requested URI does not represent any resource on the server.",
	"InvalidXmlDocument":                "XML specified is not syntactically valid.",
	"MessageNotFound":                   "The specified message does not exist.",
	"MetadataTooLarge":                  "The metadata specified exceeds the maximum allowed limit (8KB).",
	"MissingRequiredQueryParameter":     "A query parameter that's mandatory for this request is not specified.",
	"NoAuthenticationInformation":       "Server failed to authenticate the request. Please refer to the information in the www-authenticate header.",
	"OperationTimedOut":                 "Operation could not be completed within the specified time.",
	"OutOfRangeInput":                   "The specified resource name length is not within the permissible limits.",
	"OutOfRangeQueryParameterValue":     "One of the query parameters specified in the request URI is outside the permissible range.",
	"PopReceiptMismatch":                "The specified pop receipt did not match the pop receipt for a dequeued message.",
	"QueueAlreadyExists":                "The specified queue already exists.",
	"QueueBeingDeleted":                 "The specified queue is being deleted.",
	"QueueNotFound":                     "The specified queue does not exist.",
	"RequestBodyTooLarge":               "The request body is too large and exceeds the maximum permissible limit.",
	"RequestUrlFailedToParse":           "The url in the request could not be parsed.",
	"ResourceNotFound":                  "The specified resource does not exist.",
	"ServerBusy":                        "The server is busy.",
	"UnsupportedHttpVerb":               "The resource doesn't support specified Http Verb.",
}

func invalidParameter(name, value, reason string) *failure {
	return &failure{status: http.StatusBadRequest, code: "InvalidQueryParameterValue", details: []pair{
		{"QueryParameterName", name}, {"QueryParameterValue", value}, {"Reason", reason},
	}}
}

func missingParameter(name string) *failure {
	return &failure{status: http.StatusBadRequest, code: "MissingRequiredQueryParameter", details: []pair{{"QueryParameterName", name}}}
}

func outOfRange(name, value string, low, high int64) *failure {
	return &failure{status: http.StatusBadRequest, code: "OutOfRangeQueryParameterValue", details: []pair{
		{"QueryParameterName", name},
		{"QueryParameterValue", value},
		{"MinimumAllowed", strconv.FormatInt(low, 10)},
		{"MaximumAllowed", strconv.FormatInt(high, 10)},
	}}
}

func queueNotFound() *failure { return &failure{status: http.StatusNotFound, code: "QueueNotFound"} }

func messageNotFound() *failure {
	return &failure{status: http.StatusNotFound, code: "MessageNotFound"}
}

func (a *answer) reset() {
	a.status, a.code, a.out = 0, "", a.out[:0]
	clear(a.extra)
	a.extra = a.extra[:0]
}

func (a *answer) header(key, value string) { a.extra = append(a.extra, pair{key, value}) }

// fail replaces the answer by an error document.
func (c *call) fail(f *failure, requestID string) {
	c.reset()
	c.status, c.code = f.status, f.code
	c.extra = append(c.extra, f.headers...)
	b := append(c.out, prolog+"<Error><Code>"...)
	b = appendText(b, f.code)
	b = append(b, "</Code><Message>"...)
	message := messages[f.code]
	if message == "" {
		message = http.StatusText(f.status)
	}
	b = appendText(b, message)
	b = append(b, "\nRequestId:"...)
	b = append(b, requestID...)
	b = append(b, "\nTime:"...)
	b = c.time().UTC().AppendFormat(b, "2006-01-02T15:04:05.0000000Z")
	b = append(b, "</Message>"...)
	for _, d := range f.details {
		b = append(b, '<')
		b = append(b, d.key...)
		b = append(b, '>')
		b = appendText(b, d.value)
		b = append(b, "</"...)
		b = append(b, d.key...)
		b = append(b, '>')
	}
	c.out = append(b, "</Error>"...)
}

// head makes the answer's header. Keys are in canonical form, as an HTTP client's are.
func (s *Server) head(c *call, requestID string) http.Header {
	values := make([]string, 0, 8+len(c.extra))
	h := make(http.Header, 8+len(c.extra))
	set := func(key, value string) {
		values = append(values, value)
		h[key] = values[len(values)-1 : len(values) : len(values)]
	}
	set("Date", s.dateHeader(c))
	set("Server", "Windows-Azure-Queue/1.0 queuetest")
	set("X-Ms-Request-Id", requestID)
	if v := headerValue(c.req.Header, "X-Ms-Version", "x-ms-version"); v != "" {
		set("X-Ms-Version", v)
	} else {
		set("X-Ms-Version", defaultVersion)
	}
	if v := headerValue(c.req.Header, "X-Ms-Client-Request-Id", "x-ms-client-request-id"); v != "" {
		set("X-Ms-Client-Request-Id", v)
	}
	if c.code != "" {
		set("X-Ms-Error-Code", c.code)
	}
	if len(c.out) > 0 {
		set("Content-Type", "application/xml")
	}
	for _, e := range c.extra {
		set(e.key, e.value)
	}
	return h
}

// headerValue looks up a header that the SDK may have set under its lower-case name.
func headerValue(h http.Header, canonical, lower string) string {
	if v := h[canonical]; len(v) > 0 {
		return v[0]
	}
	if v := h[lower]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// stamp is a formatted second.
type stamp struct {
	second int64
	text   string
}

func (s *Server) dateHeader(c *call) string {
	second := (c.now + c.shift) / 1e6
	if d := s.date.Load(); d != nil && d.second == second {
		return d.text
	}
	d := &stamp{second, string(appendTime(nil, second))}
	s.date.Store(d)
	return d.text
}

// appendTime appends a Unix time in RFC 1123 form.
func appendTime(b []byte, second int64) []byte {
	t := time.Unix(second, 0).UTC()
	year, month, day := t.Date()
	hour, minute, sec := t.Clock()
	b = append(append(b, t.Weekday().String()[:3]...), ", "...)
	b = append(appendDigits(b, day), ' ')
	b = append(append(b, month.String()[:3]...), ' ')
	b = appendDigits(appendDigits(b, year/100), year%100)
	b = append(appendDigits(append(b, ' '), hour), ':')
	b = append(appendDigits(b, minute), ':')
	return append(appendDigits(b, sec), " GMT"...)
}

func appendDigits(b []byte, n int) []byte { return append(b, byte('0'+n/10), byte('0'+n%10)) }
