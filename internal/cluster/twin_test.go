package cluster_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Two replicas with the same index poll the same queues: the one that does not get its own address says so.
func TestAShardThatRunsTwiceSaysSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		b := runShard(t, n, 1, 2)
		twin := runShard(t, n, 1, 2) // and it has the address now
		a := runShard(t, n, 0, 2)
		time.Sleep(5 * time.Minute)
		if st := b.State(); st[1].Trouble == nil || !strings.Contains(st[1].Trouble.Error(), "index of its own") {
			t.Errorf("%+v", st)
		}
		for _, alone := range []*shard{a, twin} {
			for _, st := range alone.State() {
				if st.Self && st.Trouble != nil {
					t.Errorf("shard %d: %v", st.Index, st.Trouble)
				}
			}
		}
		if said := strings.Count(b.logs.String(), "this shard runs twice"); said != 1 {
			t.Errorf("it was told %d times:\n%s", said, b.logs.String())
		}
		n.set(host(1), b.Shards)
		time.Sleep(time.Minute)
		if st := b.State(); st[1].Trouble != nil {
			t.Errorf("when it has its address: %v", st[1].Trouble)
		}
		a.end()
		b.end()
		twin.end()
	})
}

// One that was replaced may answer once more, and who does not answer says nothing.
func TestAShardIsNotTakenForTwoTooSoon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		a := runShard(t, n, 0, 1)
		answers := 0
		n.set(host(0), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if answers++; answers > 1 {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			_, _ = w.Write([]byte(`{"mode":"shard","index":0,"count":1,"instance":"before"}`))
		}))
		time.Sleep(5 * time.Minute)
		if st := a.State(); answers < 5 || st[0].Trouble != nil {
			t.Errorf("after %d answers: %+v", answers, st)
		}
		a.end()
	})
}
