// Package conformance is one suite of Queue REST protocol cases that runs on
// queue/queuetest, in process and over a socket, and on Azurite. It speaks through the
// Azure SDK, and through a small signed HTTP client where the SDK would not let a
// request out. What the cases expect is the Azure service's behaviour; where Azurite is
// known to differ, a table says how and why, and that is what it is held to.
package conformance

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
)

// Target is a queue service to run the cases on.
type Target struct {
	// URL is the account's path-style endpoint, as http://127.0.0.1:10001/devstoreaccount1.
	URL string
	// Account and Key are its name and Base64 key.
	Account, Key string
	// Transport carries the requests; nil is a new http.Client.
	Transport policy.Transporter
	// Azurite says that the table of its deviations applies.
	Azurite bool
	// Bubble, if set, runs one case with fake time: synctest.Test.
	Bubble func(*testing.T, func(*testing.T))
	// Now and Sleep, if set, are the service's clock, and move it on. The cases then run
	// one after the other, as they share it; without either they run in parallel and
	// take up to 3 s.
	Now   func() time.Time
	Sleep func(time.Duration)
}

// Run runs every case on the target.
func Run(t *testing.T, target Target) {
	if target.Transport == nil {
		client := &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()}
		t.Cleanup(client.CloseIdleConnections)
		target.Transport = client
	}
	fake := target.Bubble != nil || target.Sleep != nil
	if target.Sleep == nil {
		target.Now, target.Sleep = time.Now, time.Sleep
	}
	used := &sync.Map{}
	stamp := strconv.FormatInt(time.Now().UnixNano(), 36)
	t.Run("cases", func(t *testing.T) {
		for _, group := range []map[string]func(*env){queueCases, listCases, messageCases, leaseCases, expiryCases, limitCases, textCases, keyCases, sasCases, httpCases} {
			for name, run := range group {
				t.Run(name, func(t *testing.T) {
					one := func(t *testing.T) {
						e := newEnv(t, target, queueName(name)+stamp)
						e.used, e.fakeTime = used, fake
						run(e)
					}
					if target.Bubble != nil {
						target.Bubble(t, one)
						return
					}
					if !fake {
						t.Parallel()
					}
					one(t)
				})
			}
		}
	})
	if target.Azurite && !t.Failed() {
		for what := range azuriteDiffers {
			if _, ok := used.Load(what); !ok {
				t.Errorf("no case checks %q, in which Azurite is said to differ", what)
			}
		}
	}
}

// env is what one case works with: a queue of its own, and the means to reach it.
type env struct {
	*testing.T
	target   Target
	fakeTime bool      // long waits are free
	used     *sync.Map // what was checked of azuriteDiffers
	name     string    // of the queue
	svc      *azqueue.ServiceClient
	q        *azqueue.QueueClient
	ctx      context.Context
}

func newEnv(t *testing.T, target Target, name string) *env {
	e := &env{T: t, target: target, name: name, ctx: context.Background()}
	e.svc = e.service(target.Key)
	e.q = e.svc.NewQueueClient(e.name)
	return e
}

// queueName makes the beginning of a queue's name from a case's.
func queueName(sentence string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(sentence) {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	s := b.String()
	return strings.Trim(s[:min(len(s), 48)], "-") + "-"
}

func (e *env) service(key string) *azqueue.ServiceClient {
	e.Helper()
	cred, err := azqueue.NewSharedKeyCredential(e.target.Account, key)
	e.must(err)
	svc, err := azqueue.NewServiceClientWithSharedKeyCredential(e.target.URL, cred, e.options())
	e.must(err)
	return svc
}

// options makes new ones for each client: the SDK adds to those it is given.
func (e *env) options() *azqueue.ClientOptions {
	return &azqueue.ClientOptions{ClientOptions: azcore.ClientOptions{
		Transport: e.target.Transport, Retry: policy.RetryOptions{MaxRetries: -1},
	}}
}

func (e *env) must(err error) {
	e.Helper()
	if err != nil {
		e.Fatal(err)
	}
}

// expect compares what the service did with what Azure does, or Azurite if it is known
// to differ in what is checked.
func (e *env) expect(what string, got, want any) {
	e.Helper()
	if d, ok := azuriteDiffers[what]; ok && e.target.Azurite {
		e.used.Store(what, true)
		want = d.does
		if some, ok := d.does.([]string); ok && slices.Contains(some, fmt.Sprint(got)) {
			want = got
		}
	}
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		e.Errorf("%s:\n got %s\nwant %s", what, g, w)
	}
}

// outcome puts the result of an SDK call in words: "ok" or status and code.
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

// create makes the case's queue.
func (e *env) create() {
	e.Helper()
	_, err := e.q.Create(e.ctx, nil)
	e.must(err)
}

// send sends texts to the case's queue.
func (e *env) send(texts ...string) []*azqueue.EnqueuedMessage {
	e.Helper()
	var all []*azqueue.EnqueuedMessage
	for _, text := range texts {
		r, err := e.q.EnqueueMessage(e.ctx, text, nil)
		e.must(err)
		all = append(all, r.Messages...)
	}
	return all
}

// receive receives up to n messages for some seconds.
func (e *env) receive(n, seconds int32) []*azqueue.DequeuedMessage {
	e.Helper()
	r, err := e.q.DequeueMessages(e.ctx, &azqueue.DequeueMessagesOptions{NumberOfMessages: &n, VisibilityTimeout: &seconds})
	e.must(err)
	return r.Messages
}

// one receives exactly one message.
func (e *env) one(seconds int32) *azqueue.DequeuedMessage {
	e.Helper()
	all := e.receive(1, seconds)
	if len(all) != 1 {
		e.Fatalf("received %d messages, want 1", len(all))
	}
	return all[0]
}

// peek looks at up to 32 messages.
func (e *env) peek() []*azqueue.PeekedMessage {
	e.Helper()
	n := int32(32)
	r, err := e.q.PeekMessages(e.ctx, &azqueue.PeekMessagesOptions{NumberOfMessages: &n})
	e.must(err)
	return r.Messages
}

// count reads the approximate count.
func (e *env) count() int64 {
	e.Helper()
	r, err := e.q.GetProperties(e.ctx, nil)
	e.must(err)
	return *r.ApproximateMessagesCount
}

// peekTexts is what peek shows.
func (e *env) peekTexts() []string {
	e.Helper()
	texts := []string{}
	for _, m := range e.peek() {
		texts = append(texts, *m.MessageText)
	}
	return texts
}
