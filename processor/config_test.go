package processor_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
)

func TestDefaults(t *testing.T) {
	want := processor.Config{
		Concurrency: 1, VisibilityTimeout: time.Minute, LongRunningWarning: 10 * time.Minute, MaxDequeueCount: 5,
		Retry:           processor.RetryConfig{Initial: 5 * time.Second, Max: 5 * time.Minute, Jitter: 0.1},
		EmptyBackoffMin: time.Second, EmptyBackoffMax: 30 * time.Second, ErrorBackoffMax: time.Minute, DrainTimeout: 30 * time.Second,
		Breaker: processor.BreakerConfig{Attempts: 10, After: 5 * time.Second, MinPause: time.Second, MaxPause: time.Minute},
	}
	ignore := cmpopts.IgnoreFields(processor.Config{}, "Logger", "Beat")
	got := processor.Config{}.WithDefaults()
	if diff := cmp.Diff(want, got, ignore); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(got, got.WithDefaults(), ignore); diff != "" {
		t.Errorf("defaults of defaults differ:\n%s", diff)
	}
	r := processor.Config{Retry: processor.RetryConfig{Max: 2 * time.Second}, EmptyBackoffMin: time.Minute}.WithDefaults()
	if r.Retry.Initial != 2*time.Second || r.EmptyBackoffMax != time.Minute {
		t.Errorf("defaults do not follow what is set: %+v", r)
	}
}

func TestBadConfigurationsAreRefused(t *testing.T) {
	r := newRig(t, queue.Config{})
	tests := map[string]struct {
		cfg  processor.Config
		want string
	}{
		"negative concurrency":          {processor.Config{Concurrency: -1}, "concurrency -1 is not 1 to 10000"},
		"too much concurrency":          {processor.Config{Concurrency: 10_001}, "concurrency 10001 is not 1 to 10000"},
		"too short a lease":             {processor.Config{VisibilityTimeout: time.Millisecond}, "visibility timeout 1ms is outside 1s to 7 days"},
		"too long a lease":              {processor.Config{VisibilityTimeout: 8 * 24 * time.Hour}, "visibility timeout 192h0m0s is outside 1s to 7 days"},
		"a lease with a fraction":       {processor.Config{VisibilityTimeout: 1500 * time.Millisecond}, "visibility timeout 1.5s is not in whole seconds"},
		"negative renewal":              {processor.Config{MaxRenewal: -1}, "longest renewal -1ns is negative"},
		"renewal off and bounded":       {processor.Config{NoRenew: true, MaxRenewal: time.Hour}, "a longest renewal of 1h0m0s makes no sense with renewal off"},
		"negative warning":              {processor.Config{LongRunningWarning: -2}, "long-running warning -2ns is neither positive nor -1 for off"},
		"negative dequeue count":        {processor.Config{MaxDequeueCount: -2}, "maximum dequeue count -2 is neither at least 1 nor -1 for off"},
		"negative age":                  {processor.Config{MaxAge: -1}, "maximum age -1ns is negative"},
		"negative objective":            {processor.Config{Objective: -1}, "objective -1ns is negative"},
		"negative drain timeout":        {processor.Config{DrainTimeout: -2}, "drain timeout -2ns is neither positive nor -1 for off"},
		"busy polling":                  {processor.Config{EmptyBackoffMin: 1}, "shortest wait on an empty queue 1ns is under 1ms"},
		"empty waits the wrong way":     {processor.Config{EmptyBackoffMin: time.Minute, EmptyBackoffMax: time.Second}, "longest wait on an empty queue 1s is shorter than the shortest, 1m0s"},
		"busy failing":                  {processor.Config{ErrorBackoffMax: 1}, "longest wait after a failed receive 1ns is under 1ms"},
		"too short a retry delay":       {processor.Config{Retry: processor.RetryConfig{Initial: 1}}, "first retry delay 1ns is outside 1s to 7 days"},
		"retry delays the wrong way":    {processor.Config{Retry: processor.RetryConfig{Initial: time.Hour, Max: time.Minute}}, "longest retry delay 1m0s is shorter than the first, 1h0m0s"},
		"too long a retry delay":        {processor.Config{Retry: processor.RetryConfig{Max: 8 * 24 * time.Hour}}, "longest retry delay 192h0m0s is over 7 days"},
		"too much jitter":               {processor.Config{Retry: processor.RetryConfig{Jitter: 1.5}}, "retry jitter 1.5 is neither 0 to 1 nor -1 for off"},
		"a rule that is not there":      {processor.Config{Policy: processor.ErrorPolicy{DeadLetter: []func(error) bool{nil}}}, "dead-letter rule 0 is nil"},
		"nowhere to put poison":         {processor.Config{}, "the queue has no poison queue to put messages on after 5 deliveries: set one, or a maximum dequeue count of -1"},
		"everything at once, all told":  {processor.Config{Concurrency: -1, MaxAge: -1}, "concurrency -1 is not 1 to 10000\nmaximum age -1ns is negative"},
		"retries off the scale, jitter": {processor.Config{Retry: processor.RetryConfig{Jitter: -0.5}}, "retry jitter -0.5 is neither 0 to 1 nor -1 for off"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			q, err := r.acct.Queue("orders", queue.Config{NoPoison: name == "nowhere to put poison"})
			if err != nil {
				t.Fatal(err)
			}
			_, err = processor.New(q, processor.HandlerFunc(succeed), test.cfg)
			if err == nil || err.Error() != "processor of acct/orders: "+test.want {
				t.Errorf("got  %v\nwant processor of acct/orders: %s", err, test.want)
			}
		})
	}
}

func TestWhatIsMissingIsTold(t *testing.T) {
	r := newRig(t, queue.Config{})
	if _, err := processor.New(nil, nil, processor.Config{Concurrency: -1}); err == nil || err.Error() != "processor: concurrency -1 is not 1 to 10000\nthe queue is nil" {
		t.Error(err)
	}
	for name, h := range map[string]processor.Handler{
		"nothing":                nil,
		"a function that is nil": processor.HandlerFunc(nil),
		"a typed nil":            processor.Typed[int](nil),
	} {
		if _, err := processor.New(r.q, h, processor.Config{}); err == nil || !strings.HasSuffix(err.Error(), "the handler is nil") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := r.requests(""); n != 1 { // the queue's creation
		t.Errorf("New made %d requests", n-1)
	}
}
