package app_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/qwatch/qwatch/queue/queuetest"
)

// TestPoisonThatCannotBeReadIsNotCalledHealthy: the longer storage is away, the less is known, and what
// is not known is not zero.
func TestPoisonThatCannotBeReadIsNotCalledHealthy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var denied func()
		r := start(t, oneQueue, idle(), func(s *queuetest.Server) {
			denied = s.Inject(queuetest.Fault{Queue: "watched-poison", Status: 403, Code: "AuthorizationPermissionMismatch"})
		})
		r.create("orders-poison")
		r.send("orders-poison", "m")
		settle(2 * time.Minute)
		r.want("http://probes/readyz?verbose", 200, "[!]poison degraded: poison: acct/orders: 1; acct/watched: never read\n")
		denied()
		settle(2 * time.Minute)
		r.want("http://probes/readyz?verbose", 200, "[!]poison degraded: poison: acct/orders: 1\n")

		thaw := r.storage.Inject(queuetest.Fault{Hang: true})
		settle(time.Hour)
		r.want("http://probes/readyz?verbose", 200, "[!]poison degraded: storage: acct/orders: not known since 2000-01-01T00:0")
		r.want("http://probes/livez", 200, "ok")
		thaw()
		settle(5 * time.Minute)
		r.want("http://probes/readyz?verbose", 200, "[!]poison degraded: poison: acct/orders: 1\n")
		r.end()
	})
}
