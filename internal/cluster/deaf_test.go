package cluster_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A shard with a wrong address of another says so itself, and the one that it looks for elsewhere says so as well, once,
// for as long as that lasts.
func TestAWrongAddressIsToldOnBothSides(t *testing.T) {
	t.Parallel()
	for name, wrong := range map[string]string{"nobody is there": "elsewhere", "another shard is there": host(2), "its own address": host(0)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork()
				misled := runShardAt(t, n, 0, 3, func(i int) string {
					if i == 1 {
						return wrong
					}
					return host(i)
				})
				sought, third := runShard(t, n, 1, 3), runShard(t, n, 2, 3)
				time.Sleep(5 * time.Minute)
				if st := misled.State()[1]; st.Alive || st.Trouble == nil {
					t.Errorf("the one that is misled: %+v", st)
				}
				st := sought.State()
				if !st[0].Alive || !st[0].Deaf || st[0].Trouble == nil || !strings.Contains(st[0].Trouble.Error(), "addresses") {
					t.Errorf("the one that is sought: %+v", st[0])
				}
				for who, x := range map[string]*shard{"sought": sought, "third": third, "misled": misled} {
					want := map[string]int{"sought": 1}[who]
					if got := strings.Count(x.logs.String(), "a shard does not hear this one"); got != want {
						t.Errorf("the %s one says so %d times, want %d:\n%s", who, got, want, x.logs.String())
					}
				}
				for i, s := range third.State() {
					if s.Deaf || s.Trouble != nil {
						t.Errorf("the third of shard %d: %+v", i, s)
					}
				}
				misled.end()
				time.Sleep(time.Minute)
				again := runShard(t, n, 0, 3) // with the right addresses
				time.Sleep(time.Minute)
				if st := sought.State()[0]; !st.Alive || st.Deaf || st.Trouble != nil {
					t.Errorf("mended: %+v", st)
				}
				again.end()
				sought.end()
				third.end()
			})
		})
	}
}

// Shards that come, go, are killed and come back are nowhere taken for deaf, nor is one that had no way for a moment.
func TestAShardIsNotTakenForDeafTooSoon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		a, b := runShard(t, n, 0, 2), runShard(t, n, 1, 2)
		all := []*shard{a, b}
		time.Sleep(time.Minute)
		for range 5 {
			b.kill()
			time.Sleep(40 * time.Second)
			b = runShard(t, n, 1, 2)
			time.Sleep(40 * time.Second)
			b.end()
			time.Sleep(20 * time.Second)
			b = runShard(t, n, 1, 2)
			all = append(all, b)
			time.Sleep(20 * time.Second)
			n.swallow(host(1), true) // a takes b for dead after 10 s
			time.Sleep(16 * time.Second)
			n.swallow(host(1), false)
			time.Sleep(20 * time.Second)
		}
		for i, x := range all {
			if strings.Contains(x.logs.String(), "does not hear") {
				t.Errorf("replica %d:\n%s", i, x.logs.String())
			}
		}
		a.end()
		b.end()
	})
}
