package queuetest_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/qwatch/qwatch/queue/queuetest"
)

// options makes client options without retries.
func options(t policy.Transporter) *azqueue.ClientOptions {
	return &azqueue.ClientOptions{ClientOptions: azcore.ClientOptions{
		Transport: t, Retry: policy.RetryOptions{MaxRetries: -1},
	}}
}

// open makes the queue "orders" of the default account, and its client.
func open(t *testing.T, s *queuetest.Server) *azqueue.QueueClient {
	t.Helper()
	return openAt(t, s.ConnectionString(), s)
}

func openAt(t *testing.T, connection string, tr policy.Transporter) *azqueue.QueueClient {
	t.Helper()
	q, err := azqueue.NewQueueClientFromConnectionString(connection, "orders", options(tr))
	must(t, err)
	_, err = q.Create(t.Context(), nil)
	must(t, err)
	return q
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func send(t *testing.T, q *azqueue.QueueClient, texts ...string) {
	t.Helper()
	for _, text := range texts {
		_, err := q.EnqueueMessage(t.Context(), text, nil)
		must(t, err)
	}
}

// receive receives one message for 30 s.
func receive(t *testing.T, q *azqueue.QueueClient) *azqueue.DequeuedMessage {
	t.Helper()
	r, err := q.DequeueMessage(t.Context(), nil)
	must(t, err)
	if len(r.Messages) != 1 {
		t.Fatalf("received %d messages, want 1", len(r.Messages))
	}
	return r.Messages[0]
}

// outcome puts a result in words: "ok" or status and code.
func outcome(err error) string {
	var re *azcore.ResponseError
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &re):
		return fmt.Sprintf("%d %s", re.StatusCode, re.ErrorCode)
	}
	return err.Error()
}

func check(t *testing.T, what string, got, want any) {
	t.Helper()
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		t.Errorf("%s:\n got %s\nwant %s", what, g, w)
	}
}

// plain sends an unsigned request, for servers that do not look at credentials.
func plain(t *testing.T, d policy.Transporter, method, url, body string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	must(t, err)
	resp, err := d.Do(req)
	must(t, err)
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	must(t, err)
	return resp, string(b)
}

const second = time.Second

// hmacOf signs text with a key.
func hmacOf(key, text string) string {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(text))
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
