package queuetest_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/qwatch/qwatch/queue/queuetest"
)

// FuzzRequest checks that no request, however it is addressed, signed or filled, makes
// the service panic or fail: without a fault it answers a client's mistakes with 4xx.
func FuzzRequest(f *testing.F) {
	f.Add("GET", "/devstoreaccount1/orders/messages", "numofmessages=32", "", "", "")
	f.Add("POST", "/devstoreaccount1/orders/messages", "messagettl=-1&visibilitytimeout=5", put("x"), "", "")
	f.Add("PUT", "/devstoreaccount1/orders/messages/b456bcfc-34c2-4b2c-ba85-93886c55a02b", "popreceipt=AgAAAAMAAAAAAAAAdRjwqGgEkEc%3D&visibilitytimeout=1", put("x"), "", "")
	f.Add("DELETE", "/devstoreaccount1/orders/messages/x", "popreceipt=%", "", "", "")
	f.Add("GET", "/devstoreaccount1", "comp=list&marker=/devstoreaccount1/a&maxresults=1&include=metadata", "", "", "")
	f.Add("GET", "/", "restype=service&comp=properties", "", "contoso.queue.core.windows.net:443", "SharedKey contoso:x")
	f.Add("PUT", "/devstoreaccount1/orders", "comp=acl", "<SignedIdentifiers><SignedIdentifier><Id>a</Id></SignedIdentifier></SignedIdentifiers>", "", "")
	f.Add("PUT", "/devstoreaccount1/new-queue", "comp=metadata", "", "", "Bearer x")
	f.Add("GET", "/devstoreaccount1/orders/messages", "sv=2020-02-10&sig=x&se=2030&sp=r&ss=q&srt=o", "", "", "")
	f.Add("HEAD", "//orders//", "a&&=b&=", "", "[::1]:80", "SharedKey")
	f.Fuzz(func(t *testing.T, method, path, query, body, host, authorization string) {
		for _, noAuth := range []bool{true, false} {
			s := queuetest.New(queuetest.Options{NoAuth: noAuth, Accounts: map[string]string{"contoso": queuetest.AccountKey}})
			if noAuth {
				prepare(t, s)
			}
			req := &http.Request{
				Method: method, URL: &url.URL{Scheme: "http", Host: host, Path: path, RawQuery: query}, Host: host,
				Header: http.Header{"x-ms-version": {"2026-04-06"}, "X-Ms-Meta-A": {"b"}}, Body: io.NopCloser(strings.NewReader(body)),
			}
			if authorization != "" {
				req.Header.Set("Authorization", authorization)
			}
			resp, err := s.Do(req)
			if err != nil {
				return // the host names no account
			}
			if _, err := io.ReadAll(resp.Body); err != nil {
				t.Error(err)
			}
			_ = resp.Body.Close()
			if resp.StatusCode >= 500 || resp.StatusCode < 200 {
				t.Errorf("%s %s?%s: %d", method, path, query, resp.StatusCode)
			}
			if resp.StatusCode >= 400 && resp.Header.Get("x-ms-error-code") == "" {
				t.Errorf("%s %s?%s: %d without a code", method, path, query, resp.StatusCode)
			}
			req.Body = io.NopCloser(strings.NewReader(body))
			w := httptest.NewRecorder()
			s.ServeHTTP(w, req)
			if w.Code >= 500 {
				t.Errorf("over a socket: %s %s?%s: %d", method, path, query, w.Code)
			}
		}
	})
}

func prepare(t *testing.T, s *queuetest.Server) {
	t.Helper()
	base := s.Endpoint(queuetest.AccountName) + "/orders"
	plain(t, s, http.MethodPut, base, "")
	plain(t, s, http.MethodPost, base+"/messages", put("a"))
}
