package app_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The canary's queue is not watched as a queue where discovery would find it, which is said once, and at a reload only
// when it is new. Without a canary the queue is one like any other.
func TestDiscoveryLeavesTheCanarysQueueOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const (
			accounts = `
accounts:
  - name: acct
    connectionString: ${STORAGE}
    discovery: {interval: 10s}
`
			canary = "watch: {canary: {account: acct, interval: 10s}}\n"
			series = `queue_up{account="acct",queue_kind="main",queue_name="qwatch-canary"}`
			said   = "discovery leaves the canary's queue out"
		)
		r := start(t, accounts, nil)
		r.create("orders")
		r.create("qwatch-canary")
		settle(time.Minute)
		r.want("http://main/metrics", 200, series)
		if n := strings.Count(r.logs.String(), said); n != 0 {
			t.Errorf("without a canary it is said %d times:\n%s", n, r.logs.String())
		}
		r.reload(accounts + canary)
		settle(time.Minute)
		r.lacks("http://main/metrics", series)
		r.want("http://main/metrics", 200, `queue_up{account="acct",queue_kind="main",queue_name="orders"}`)
		r.reload(accounts + canary + "# again\n")
		settle(time.Minute)
		if n := strings.Count(r.logs.String(), said); n != 1 {
			t.Errorf("with a canary it is said %d times:\n%s", n, r.logs.String())
		}
		r.reload(accounts)
		settle(time.Minute)
		r.want("http://main/metrics", 200, series)
		r.end()
	})
}
