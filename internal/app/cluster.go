package app

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/qwatch/qwatch/collector"
	"github.com/qwatch/qwatch/health"
	"github.com/qwatch/qwatch/internal/cluster"
	"github.com/qwatch/qwatch/internal/config"
	"github.com/qwatch/qwatch/internal/metric"
	"github.com/qwatch/qwatch/internal/scaler"
	"github.com/qwatch/qwatch/internal/web"
)

// clusterFields are what sharing the watching adds to a service.
type clusterFields struct {
	leader *cluster.Leader // nil unless one is elected
	shards *cluster.Shards // nil unless the fleet is shared
	router cluster.Router
	canary *canary
	shard  atomic.Pointer[config.Shard] // as it is in use
}

// share builds how this replica shares the watching with others, and lets the collector know what is its part. Errors are
// *ConfigError.
func (s *service) share(cfg *collector.Config) error {
	if err := s.shareAs(cfg); err != nil {
		return &ConfigError{err}
	}
	return nil
}

func (s *service) shareAs(cfg *collector.Config) error {
	s.router = cluster.Alone{}
	count := metric.NewForwards(s.registry)
	w := s.o.Config.Watch
	switch w.Mode {
	case config.ModeLeader:
		lock := s.o.Lease
		if s.o.elsewhere && w.Leader.Kubeconfig == "" {
			lock = func(string) resourcelock.Interface { return nil } // only a pod has what it takes
		}
		if lock == nil {
			var err error
			lock, err = cluster.NewLease(cluster.LeaseConfig{Namespace: w.Leader.Namespace, Name: w.Leader.Lease, Kubeconfig: w.Leader.Kubeconfig})
			if err != nil {
				return fmt.Errorf("%s: %w; watch.leader.kubeconfig and watch.leader.namespace say where it is", s.o.Config.At("watch.leader"), err)
			}
		}
		l, err := cluster.NewLeader(cluster.LeaderConfig{
			Lock: lock, LeaseDuration: w.Leader.LeaseDuration, Changed: s.reselect, Peers: s.peersConfig(), Logger: s.log,
		})
		if err != nil {
			return fmt.Errorf("%s: %w", s.o.Config.At("watch.leader"), err)
		}
		s.leader, s.router, cfg.Owns = l, cluster.Counted(l, count), l.Owns
		metric.NewLeader(s.registry, l.Leads)
	case config.ModeShard:
		index, err := shardIndex(w.Shard)
		if s.o.elsewhere && w.Shard.Index == config.ShardOrdinal {
			index, err = 0, nil // only a pod of a StatefulSet is called like one
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.o.Config.At("watch.shard.index"), err)
		}
		s.shard.Store(w.Shard)
		sh, err := cluster.NewShards(cluster.ShardsConfig{
			Index: index, Count: w.Shard.Count, Addr: func(i int) string { return s.shard.Load().URL(i) }, DeadAfter: w.Shard.Takeover,
			Heartbeat: min(2*time.Second, w.Shard.Takeover/4), Changed: s.reselect, Peers: s.peersConfig(), Logger: s.log,
		})
		if err != nil {
			return fmt.Errorf("%s: %w", s.o.Config.At("watch.shard"), err)
		}
		s.shards, s.router, cfg.Owns = sh, cluster.Counted(sh, count), sh.Owns
		s.applied = append(s.applied, s.reshard)
		metric.NewShards(s.registry, func() (all, alive int) {
			for _, st := range sh.State() {
				all++
				if st.Alive {
					alive++
				}
			}
			return all, alive
		})
	}
	return nil
}

// reshard puts in use what a reload says about the number of shards and where they are.
func (s *service) reshard(st *state) {
	sh := st.config.Watch.Shard
	if sh == nil {
		return // another mode, for which a restart is needed
	}
	if err := s.shards.SetCount(sh.Count); err != nil {
		s.log.Error("the number of shards stays as it was", "error", err)
		return
	}
	s.shard.Store(sh)
}

// sharingDiffers lists the settings of sharing that differ and that only a restart applies.
func sharingDiffers(running, next config.Watch) []string {
	var paths []string
	differ := func(path string, a, b any) {
		if !reflect.DeepEqual(a, b) {
			paths = append(paths, path)
		}
	}
	differ("watch.mode", cmp.Or(running.Mode, config.ModeSingle), cmp.Or(next.Mode, config.ModeSingle))
	if running.Mode != next.Mode {
		return paths // which names the others
	}
	differ("watch.leader", running.Leader, next.Leader)
	differ("watch.peers", running.Peers, next.Peers)
	if a, b := running.Shard, next.Shard; a != nil && b != nil {
		differ("watch.shard.index", a.Index, b.Index)
		differ("watch.shard.takeover", a.Takeover, b.Takeover)
	}
	return paths
}

func (s *service) reselect() { s.collector.Reselect() }

func (s *service) peersConfig() cluster.PeersConfig {
	c := cluster.PeersConfig{Transport: s.o.PeerTransport}
	if p := s.o.Config.Watch.Peers; p != nil {
		c.CAFile, c.ServerName, c.TokenFile = p.CAFile, p.ServerName, p.TokenFile
		c.Username, c.PasswordFile = p.Username, p.PasswordFile
	}
	return c
}

// shardIndex is which shard this replica is.
func shardIndex(sh *config.Shard) (int, error) {
	if sh.Index != config.ShardOrdinal {
		return strconv.Atoi(sh.Index)
	}
	host := os.Getenv("POD_NAME")
	if host == "" {
		var err error
		if host, err = os.Hostname(); err != nil {
			return 0, err
		}
	}
	index, err := strconv.Atoi(host[strings.LastIndexByte(host, '-')+1:])
	switch {
	case err != nil || !strings.Contains(host, "-") || index < 0:
		return 0, fmt.Errorf("the host is called %q, which does not end with a number as the pods of a StatefulSet do; write the number", host)
	case index >= sh.Count:
		return 0, fmt.Errorf("the host is called %q, and there are %d shards, counted from 0; raise watch.shard.count", host, sh.Count)
	}
	return index, nil
}

// runSharing shares the watching until the context ends.
func (s *service) runSharing(ctx context.Context, main net.Addr) error {
	switch {
	case s.leader != nil:
		l := s.o.Config.Watch.Leader
		name := l.Identity
		if name == "" {
			name = os.Getenv("POD_NAME")
			if name == "" {
				name, _ = os.Hostname() // without one, what is random must do
			}
			name += "_" + strings.ToLower(rand.Text()[:8])
		}
		return s.leader.Run(ctx, cluster.Identity(name, cmp.Or(l.Address, ownURL(s.o.Config.Server, main))))
	case s.shards != nil:
		return s.shards.Run(ctx)
	default:
		return nil
	}
}

// ownURL is where other replicas reach the main listener.
func ownURL(server config.Server, main net.Addr) string {
	scheme := "http://"
	if web.UsesTLS(server.WebConfigFile) {
		scheme = "https://"
	}
	host, port, err := net.SplitHostPort(main.String())
	if err != nil { // in tests, listeners have names
		return scheme + main.String()
	}
	if asked, _, err := net.SplitHostPort(server.Listen); err == nil && asked != "" {
		host = asked
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = ownHost()
	}
	return scheme + net.JoinHostPort(host, port)
}

// ownHost is an address or a name by which others reach this host.
func ownHost() string {
	if ip := os.Getenv("POD_IP"); ip != "" {
		return ip
	}
	addresses, _ := net.InterfaceAddrs() // none: the name must do
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
			return n.IP.String()
		}
	}
	name, _ := os.Hostname()
	return cmp.Or(name, "localhost")
}

// sharingChecks adds what /readyz tells about the other replicas. They only degrade it: who watches nothing still
// answers, and consumes.
func (s *service) sharingChecks() {
	add := func(name string, run func() health.Result) { s.health.Add(health.Check{Name: name, Run: run}) }
	switch {
	case s.leader != nil:
		add("leader", func() health.Result { return leaderResult(s.leader.State()) })
	case s.shards != nil:
		add("shards", func() health.Result { return shardsResult(s.shards.State()) })
	}
}

func leaderResult(st cluster.LeaderState) health.Result {
	var found []string
	if st.Trouble != nil {
		found = append(found, "the lease cannot be had: "+oneLine(st.Trouble))
	}
	switch {
	case st.Leading:
	case st.Leader == "" || st.Leader == st.Identity:
		found = append(found, "nobody is known to lead: nothing is watched")
	case st.Addr == "":
		found = append(found, "the leader tells no address, so that it cannot be asked: "+st.Leader)
	}
	return degraded(health.ReasonCluster, found)
}

func shardsResult(shards []cluster.ShardState) health.Result {
	var found []string
	for _, sh := range shards {
		switch {
		case sh.Self && sh.Trouble != nil:
			found = append(found, fmt.Sprintf("shard %d runs twice: %s", sh.Index, oneLine(sh.Trouble)))
		case sh.Self:
		case !sh.Alive && sh.Trouble != nil:
			found = append(found, fmt.Sprintf("shard %d is not heard of, and the others watch its queues: %s", sh.Index, oneLine(sh.Trouble)))
		case !sh.Alive:
			found = append(found, fmt.Sprintf("shard %d has left, and the others watch its queues", sh.Index))
		case sh.Deaf:
			found = append(found, fmt.Sprintf("shard %d does not count on this one: %s", sh.Index, oneLine(sh.Trouble)))
		case sh.Trouble != nil:
			found = append(found, fmt.Sprintf("shard %d does not answer: %s", sh.Index, oneLine(sh.Trouble)))
		case sh.Count != 0 && sh.Count != len(shards):
			found = append(found, fmt.Sprintf("shard %d believes in %d shards instead of %d", sh.Index, sh.Count, len(shards)))
		}
	}
	return degraded(health.ReasonCluster, found)
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// forwardScaling asks the owner of a queue what it calls for; false when that is this replica.
func (s *service) forwardScaling(ctx context.Context, account, queue string, st scaler.Strategy) (scaler.Answer, bool, error) {
	if _, self := s.router.Owner(account, queue); self {
		return scaler.Answer{}, false, nil
	}
	target := "/api/v1/scaling/" + url.PathEscape(account) + "/" + url.PathEscape(queue) + "?strategy=" + url.QueryEscape(st.String())
	answer, err := s.router.Forward(ctx, account, queue, target)
	if err != nil {
		return scaler.Answer{}, true, &scaler.Error{Kind: scaler.Unknown, Text: err.Error()}
	}
	a, err := scalingAnswer(answer, st)
	return a, true, err
}

// scalingAnswer reads what another replica says about scaling.
func scalingAnswer(answer *cluster.Answer, st scaler.Strategy) (scaler.Answer, error) {
	var said struct {
		web.Scaling
		Error string `json:"error"`
	}
	if err := json.Unmarshal(answer.Body, &said); err != nil {
		return scaler.Answer{}, &scaler.Error{Kind: scaler.Unknown, Text: answer.From + " does not answer as a replica does"}
	}
	if answer.Status == http.StatusOK {
		return scaler.Answer{
			Value: said.Value, Strategy: st, Saturated: said.Saturated, Backlog: said.Backlog,
			Age: time.Duration(said.AgeSeconds * float64(time.Second)),
		}, nil
	}
	kind := scaler.Unknown
	switch answer.Status {
	case http.StatusNotFound:
		kind = scaler.NotConfigured
	case http.StatusBadRequest:
		kind = scaler.BadRequest
	}
	return scaler.Answer{}, &scaler.Error{Kind: kind, Text: cmp.Or(said.Error, errors.New(http.StatusText(answer.Status)).Error())}
}

// shardHandler answers who this replica is among shards; nil when it is none.
func (s *service) shardHandler() http.Handler {
	if s.shards == nil {
		return nil
	}
	return s.shards
}
