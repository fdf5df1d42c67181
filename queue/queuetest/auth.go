package queuetest

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"hash"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// signer makes HMAC-SHA256 signatures with one key.
type signer struct{ macs *sync.Pool }

func newSigner(key []byte) signer {
	return signer{&sync.Pool{New: func() any { return hmac.New(sha256.New, key) }}}
}

// signed reports whether signature is the Base64 HMAC of text.
func (s signer) signed(text []byte, signature string) bool {
	mac := s.macs.Get().(hash.Hash)
	defer s.macs.Put(mac)
	mac.Reset()
	mac.Write(text)
	var sum [sha256.Size]byte
	var want [44]byte
	base64.StdEncoding.Encode(want[:], mac.Sum(sum[:0]))
	return len(signature) == len(want) && subtle.ConstantTimeCompare(want[:], []byte(signature)) == 1
}

func forbidden(code, detail string) *failure {
	f := &failure{status: http.StatusForbidden, code: code}
	if detail != "" {
		f.details = []pair{{"AuthenticationErrorDetail", detail}}
	}
	return f
}

func unauthenticated(detail string) *failure { return forbidden("AuthenticationFailed", detail) }

// authorize checks the request's credentials: shared key, SAS or bearer token.
func (s *Server) authorize(c *call) *failure {
	if c.acct == nil {
		return nil
	}
	if v := headerValue(c.req.Header, "X-Ms-Version", "x-ms-version"); v != "" && !isVersion(v) {
		return &failure{status: http.StatusBadRequest, code: "InvalidHeaderValue", details: []pair{{"HeaderName", "x-ms-version"}, {"HeaderValue", v}}}
	}
	if s.noAuth {
		return nil
	}
	header := headerValue(c.req.Header, "Authorization", "authorization")
	scheme, credentials, _ := strings.Cut(header, " ")
	switch {
	case strings.EqualFold(scheme, "SharedKey"):
		return s.sharedKey(c, credentials)
	case strings.EqualFold(scheme, "Bearer"):
		if s.allowBearer && strings.TrimSpace(credentials) != "" {
			return nil
		}
		return challenge("InvalidAuthenticationInfo")
	case header != "":
		return &failure{status: http.StatusBadRequest, code: "InvalidAuthenticationInfo"}
	}
	if _, ok := c.param("sig"); ok {
		return s.sas(c)
	}
	return challenge("NoAuthenticationInformation")
}

// challenge refuses, and says where tokens come from.
func challenge(code string) *failure {
	return &failure{status: http.StatusUnauthorized, code: code, headers: []pair{{
		"Www-Authenticate", "Bearer authorization_uri=https://login.microsoftonline.com/00000000-0000-0000-0000-000000000000/oauth2/authorize resource_id=https://storage.azure.com",
	}}}
}

// isVersion reports whether v has the form of a protocol version: 2020-02-10.
func isVersion(v string) bool {
	for i := range len(v) {
		if dash := i == 4 || i == 7; dash != (v[i] == '-') || !dash && (v[i] < '0' || v[i] > '9') {
			return false
		}
	}
	return len(v) == len(time.DateOnly)
}

// sharedKey verifies a Shared Key signature and the age of the request.
func (s *Server) sharedKey(c *call, credentials string) *failure {
	account, signature, ok := strings.Cut(credentials, ":")
	if !ok {
		return &failure{status: http.StatusBadRequest, code: "InvalidAuthenticationInfo"}
	}
	if account != c.account {
		return unauthenticated("")
	}
	date := headerValue(c.req.Header, "X-Ms-Date", "x-ms-date")
	if date == "" {
		date = c.req.Header.Get("Date")
	}
	at, err := http.ParseTime(date)
	if err != nil {
		return unauthenticated("")
	}
	if age := c.time().Sub(at); age > maxClockSkew || age < -maxClockSkew {
		return unauthenticated("Request date header too old: '" + date + "'")
	}
	c.scratch = c.appendSigned(c.scratch[:0])
	if !c.acct.mac.signed(c.scratch, signature) {
		return unauthenticated("The MAC signature found in the HTTP request is not the same as any computed signature.")
	}
	return nil
}

// appendSigned appends the text that a Shared Key signature covers.
func (c *call) appendSigned(b []byte) []byte {
	h := c.req.Header
	line := func(v string) { b = append(append(b, v...), '\n') }
	line(c.req.Method)
	line(h.Get("Content-Encoding"))
	line(h.Get("Content-Language"))
	if n := max(c.req.ContentLength, int64(len(c.body))); n > 0 { // of a huge body only some was read
		b = strconv.AppendInt(b, n, 10)
	}
	line("")
	line(h.Get("Content-Md5"))
	line(headerValue(h, "Content-Type", "content-type"))
	if headerValue(h, "X-Ms-Date", "x-ms-date") == "" {
		b = append(b, h.Get("Date")...)
	}
	line("")
	line(h.Get("If-Modified-Since"))
	line(h.Get("If-Match"))
	line(h.Get("If-None-Match"))
	line(h.Get("If-Unmodified-Since"))
	line(h.Get("Range"))
	return c.appendResource(c.appendHeaders(b))
}

// appendHeaders appends the canonicalized headers, each with its line feed.
func (c *call) appendHeaders(b []byte) []byte {
	c.headers = c.headers[:0]
	for k, v := range c.req.Header {
		if len(k) > 5 && strings.EqualFold(k[:5], "x-ms-") {
			value := ""
			if len(v) == 1 {
				value = v[0]
			} else {
				value = strings.Join(v, ",")
			}
			c.headers = append(c.headers, pair{k, strings.TrimSpace(value)})
		}
	}
	slices.SortFunc(c.headers, func(a, b pair) int { return compareFold(a.key, b.key) })
	for _, h := range c.headers {
		from := len(b)
		b = append(b, h.key...)
		lower(b[from:])
		b = append(append(append(b, ':'), h.value...), '\n')
	}
	return b
}

// appendResource appends the canonicalized resource.
func (c *call) appendResource(b []byte) []byte {
	b = append(append(b, '/'), c.account...)
	if path := c.req.URL.EscapedPath(); path != "" {
		b = append(b, path...)
	} else {
		b = append(b, '/')
	}
	if len(c.query) == 0 {
		return b
	}
	slices.SortFunc(c.query, func(a, b pair) int {
		if n := strings.Compare(a.key, b.key); n != 0 {
			return n
		}
		return strings.Compare(a.value, b.value)
	})
	for i, p := range c.query {
		if i > 0 && c.query[i-1].key == p.key {
			b = append(append(b, ','), p.value...)
			continue
		}
		b = append(append(b, '\n'), p.key...)
		b = append(append(b, ':'), p.value...)
	}
	return b
}

// compareFold compares ASCII strings without regard to case.
func compareFold(a, b string) int {
	for i := 0; i < len(a) && i < len(b); i++ {
		if n := cmp.Compare(lowerByte(a[i]), lowerByte(b[i])); n != 0 {
			return n
		}
	}
	return cmp.Compare(len(a), len(b))
}

func lowerByte(b byte) byte {
	if 'A' <= b && b <= 'Z' {
		return b + 'a' - 'A'
	}
	return b
}

func lower(b []byte) {
	for i := range b {
		b[i] = lowerByte(b[i])
	}
}
