package conformance

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// version is the protocol version of raw requests.
const version = "2025-07-05"

// request is a raw request to the case's account.
type request struct {
	method string
	path   string // after the account, as "/queue/messages"
	query  string // encoded
	body   string
	header map[string]string
	date   time.Time // zero is now
	noAuth bool      // no Authorization header
	key    string    // default the target's
	signer string    // account in the Authorization header; default the target's
}

// response is what came back.
type response struct {
	status int
	header http.Header
	body   string
}

// String is the status, and the error code if there is one.
func (r response) String() string {
	if code := r.header.Get("x-ms-error-code"); code != "" {
		return fmt.Sprintf("%d %s", r.status, code)
	}
	return fmt.Sprint(r.status)
}

// do sends a request, signed with the account's key.
func (e *env) do(r request) response {
	e.Helper()
	u := e.target.URL + r.path
	if r.query != "" {
		u += "?" + r.query
	}
	req, err := http.NewRequestWithContext(e.ctx, r.method, u, strings.NewReader(r.body))
	e.must(err)
	if r.body != "" {
		req.Header.Set("Content-Type", "application/xml")
	}
	req.Header.Set("x-ms-version", version)
	for k, v := range r.header {
		req.Header.Set(k, v)
	}
	if r.date.IsZero() {
		r.date = e.target.Now()
	}
	if req.Header.Get("x-ms-date") == "" {
		req.Header.Set("x-ms-date", r.date.UTC().Format(http.TimeFormat))
	}
	if !r.noAuth {
		e.sign(req, r)
	}
	resp, err := e.target.Transport.Do(req)
	e.must(err)
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	e.must(err)
	return response{resp.StatusCode, resp.Header, strings.TrimPrefix(string(body), "\ufeff")}
}

// sign adds a Shared Key signature.
func (e *env) sign(req *http.Request, r request) {
	key, account := r.key, r.signer
	if key == "" {
		key = e.target.Key
	}
	if account == "" {
		account = e.target.Account
	}
	length := ""
	if len(r.body) > 0 {
		length = fmt.Sprint(len(r.body))
	}
	var headers []string
	for k, v := range req.Header {
		if k = strings.ToLower(k); strings.HasPrefix(k, "x-ms-") {
			headers = append(headers, k+":"+strings.Join(v, ",")+"\n")
		}
	}
	slices.Sort(headers)
	resource := "/" + account + req.URL.EscapedPath()
	query, err := url.ParseQuery(req.URL.RawQuery)
	if err != nil {
		query = nil // the request is malformed on purpose
	}
	var params []string
	for k, v := range query {
		slices.Sort(v)
		params = append(params, "\n"+strings.ToLower(k)+":"+strings.Join(v, ","))
	}
	slices.Sort(params)
	text := strings.Join([]string{req.Method, "", "", length, "", req.Header.Get("Content-Type"), "", "", "", "", "", "", ""}, "\n") +
		strings.Join(headers, "") + resource + strings.Join(params, "")
	raw, err := base64.StdEncoding.DecodeString(key)
	e.must(err)
	mac := hmac.New(sha256.New, raw)
	mac.Write([]byte(text))
	req.Header.Set("Authorization", "SharedKey "+account+":"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
}

// messages sends a raw request to the case's queue's messages.
func (e *env) messages(method, query, body string) response {
	e.Helper()
	return e.do(request{method: method, path: "/" + e.name + "/messages", query: query, body: body})
}

// document wraps character data, as is, in a message document.
func document(text string) string {
	return "<QueueMessage><MessageText>" + text + "</MessageText></QueueMessage>"
}

// failure is the service's error document.
type failure struct {
	XMLName            xml.Name `xml:"Error"`
	Code               string
	Message            string
	QueryParameterName string
	MinimumAllowed     string
	MaximumAllowed     string
}

func (e *env) failure(r response) failure {
	e.Helper()
	var f failure
	if err := xml.Unmarshal([]byte(r.body), &f); err != nil {
		e.Errorf("error document %q: %v", r.body, err)
	}
	return f
}
