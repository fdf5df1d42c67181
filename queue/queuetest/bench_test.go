package queuetest_test

import (
	"bytes"
	"encoding/base64"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/qwatch/qwatch/queue/queuetest"
)

// client sends requests without the SDK's cost, so that the service's shows.
type client struct {
	b    *testing.B
	s    *queuetest.Server
	base string
	body bytes.Buffer
}

func (c *client) do(method, path, query string, body string, status int) {
	r := &http.Request{Method: method, URL: &url.URL{Scheme: "http", Host: "127.0.0.1:10001", Path: c.base + path, RawQuery: query}, Header: http.Header{}}
	if body != "" {
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	}
	resp, err := c.s.Do(r)
	if err != nil {
		c.b.Fatal(err)
	}
	c.body.Reset()
	_, _ = c.body.ReadFrom(resp.Body)
	_ = resp.Body.Close()
	if resp.StatusCode != status {
		c.b.Fatalf("%s %s: %d %s", method, path, resp.StatusCode, c.body.String())
	}
}

func newClient(b *testing.B, o queuetest.Options) *client {
	c := &client{b: b, s: queuetest.New(o), base: "/" + queuetest.AccountName}
	c.do(http.MethodPut, "/bench", "", "", http.StatusCreated)
	return c
}

func put(text string) string {
	return "<QueueMessage><MessageText>" + text + "</MessageText></QueueMessage>"
}

// BenchmarkMessage sends, receives in batches of 32 and deletes messages of 200 bytes.
func BenchmarkMessage(b *testing.B) {
	c := newClient(b, queuetest.Options{NoAuth: true})
	body := put(strings.Repeat("x", 200))
	b.ReportAllocs()
	done := 0
	for b.Loop() {
		c.do(http.MethodPost, "/bench/messages", "", body, http.StatusCreated)
		if done++; done%32 == 0 {
			c.drain()
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
}

func (c *client) drain() {
	c.do(http.MethodGet, "/bench/messages", "numofmessages=32&visibilitytimeout=30", "", http.StatusOK)
	for _, m := range c.s.Messages(queuetest.AccountName, "bench") {
		c.do(http.MethodDelete, "/bench/messages/"+m.ID, "popreceipt="+url.QueryEscape(m.PopReceipt), "", http.StatusNoContent)
	}
}

// BenchmarkDeepQueue receives one message and hides it again, with 100,000 in the queue.
func BenchmarkDeepQueue(b *testing.B) {
	c := newClient(b, queuetest.Options{NoAuth: true})
	body := put("x")
	for range 100_000 {
		c.do(http.MethodPost, "/bench/messages", "", body, http.StatusCreated)
	}
	b.ReportAllocs()
	for b.Loop() {
		c.do(http.MethodGet, "/bench/messages", "visibilitytimeout=30", "", http.StatusOK)
	}
}

// BenchmarkPeek looks at 32 messages of 100,000.
func BenchmarkPeek(b *testing.B) {
	c := newClient(b, queuetest.Options{NoAuth: true})
	body := put(strings.Repeat("x", 200))
	for range 100_000 {
		c.do(http.MethodPost, "/bench/messages", "", body, http.StatusCreated)
	}
	b.ReportAllocs()
	for b.Loop() {
		c.do(http.MethodGet, "/bench/messages", "peekonly=true&numofmessages=32", "", http.StatusOK)
	}
}

// BenchmarkSignedPeek is a request whose signature is verified.
func BenchmarkSignedPeek(b *testing.B) {
	s := queuetest.New(queuetest.Options{})
	date := time.Now().UTC().Format(http.TimeFormat)
	const path = "/devstoreaccount1/orders/messages"
	text := "GET\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:" + date + "\nx-ms-version:2026-04-06\n/devstoreaccount1" + path + "\nnumofmessages:32\npeekonly:true"
	key, err := base64.StdEncoding.DecodeString(queuetest.AccountKey)
	if err != nil {
		b.Fatal(err)
	}
	req := &http.Request{
		Method: http.MethodGet,
		URL:    &url.URL{Scheme: "http", Host: "127.0.0.1:10001", Path: path, RawQuery: "numofmessages=32&peekonly=true"},
		Header: http.Header{
			"X-Ms-Date": {date}, "X-Ms-Version": {"2026-04-06"},
			"Authorization": {"SharedKey devstoreaccount1:" + hmacOf(string(key), text)},
		},
	}
	b.ReportAllocs()
	for b.Loop() {
		resp, err := s.Do(req)
		if err != nil {
			b.Fatal(err)
		}
		if resp.StatusCode != http.StatusNotFound {
			b.Fatalf("status %d, want 404: there is no such queue", resp.StatusCode)
		}
		_ = resp.Body.Close()
	}
}
