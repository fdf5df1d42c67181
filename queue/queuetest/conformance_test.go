package queuetest_test

import (
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/qwatch/qwatch/internal/conformance"
	"github.com/qwatch/qwatch/queue/queuetest"
)

func TestConformanceInProcess(t *testing.T) {
	s := queuetest.New(queuetest.Options{})
	conformance.Run(t, conformance.Target{
		URL: s.Endpoint(queuetest.AccountName), Account: queuetest.AccountName, Key: queuetest.AccountKey,
		Transport: s, Bubble: synctest.Test,
	})
}

func TestConformanceOverASocket(t *testing.T) {
	defer goleak.VerifyNone(t)
	var ahead atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	s := queuetest.New(queuetest.Options{Now: now})
	srv := httptest.NewServer(s)
	defer srv.Close()
	conformance.Run(t, conformance.Target{
		URL: queuetest.EndpointAt(srv.URL, queuetest.AccountName), Account: queuetest.AccountName, Key: queuetest.AccountKey,
		Now: now, Sleep: func(d time.Duration) { ahead.Add(int64(d)) },
	})
}
