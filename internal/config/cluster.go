package config

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/qwatch/qwatch/queue"
)

// How several replicas share the watching.
const (
	ModeSingle = "single" // every replica watches everything
	ModeLeader = "leader" // an elected one watches everything
	ModeShard  = "shard"  // each watches a part
)

const (
	// ShardOrdinal is the Shard.Index that stands for the number at the end of the host name.
	ShardOrdinal = "ordinal"
	// ShardPlaceholder is what stands for a shard's number in Shard.Peers.
	ShardPlaceholder = "{index}"
	// maxShards is the most that package cluster takes.
	maxShards = 256
)

// Leader says how a leader is elected, on a Lease of Kubernetes.
type Leader struct {
	// Namespace of the Lease. Default: the pod's, or the kubeconfig's.
	Namespace string `yaml:"namespace" cfg:"omitempty"`
	// Lease is its name. Default "qwatch".
	Lease string `yaml:"lease"`
	// Identity of this replica, unlike every other's. Default: POD_NAME, or the host's name, and something random.
	Identity string `yaml:"identity" cfg:"omitempty"`
	// Address is the URL by which the other replicas reach this one's main listener. Default: POD_IP, or an address
	// of this host, and the port of Server.Listen.
	Address string `yaml:"address" cfg:"omitempty"`
	// Kubeconfig is the file that tells how to reach the API. Default: the pod's service account.
	Kubeconfig string `yaml:"kubeconfig" cfg:"path,omitempty"`
	// LeaseDuration is how long after a leader's last word another takes over. Default 15s, at least 2s.
	LeaseDuration time.Duration `yaml:"leaseDuration"`
}

func (l *Leader) setDefaults() { *l = Leader{Lease: "qwatch", LeaseDuration: 15 * time.Second} }

// Shard says which part of the fleet this replica watches.
type Shard struct {
	// Index of this replica: a number below Count, or ShardOrdinal (the default) for the one at the end of the host
	// name, as a StatefulSet gives it.
	Index string `yaml:"index"`
	// Count is how many shards there are. Required.
	Count int `yaml:"count"`
	// Peers are the URLs of all shards' main listeners, in their order; or one URL with {index} in the place of the shard's
	// number. Required when Count is more than 1.
	Peers []string `yaml:"peers" cfg:"omitempty"`
	// Takeover is how long a shard may go unheard until the others watch its queues. Default 10s, at least 1s.
	Takeover time.Duration `yaml:"takeover"`
}

func (s *Shard) setDefaults() { *s = Shard{Index: ShardOrdinal, Takeover: 10 * time.Second} }

// URL returns where a shard's main listener is; "" when there is no such shard.
func (s *Shard) URL(index int) string {
	switch {
	case index < 0:
		return ""
	case len(s.Peers) == 1 && strings.Contains(s.Peers[0], ShardPlaceholder):
		return strings.ReplaceAll(s.Peers[0], ShardPlaceholder, strconv.Itoa(index))
	case index < len(s.Peers):
		return s.Peers[index]
	default:
		return ""
	}
}

// Peers says how the replicas talk to each other's main listeners.
type Peers struct {
	// CAFile holds the authorities that sign the replicas' certificates. Default: the system's.
	CAFile string `yaml:"caFile" cfg:"path,omitempty"`
	// ServerName is the name in the replicas' certificates. Default: the host that is asked.
	ServerName string `yaml:"serverName" cfg:"omitempty"`
	// TokenFile holds a reader's token. Default: none is sent.
	TokenFile string `yaml:"tokenFile" cfg:"path,omitempty"`
	// Username and PasswordFile are for basic authentication. Default: none.
	Username     string `yaml:"username" cfg:"omitempty"`
	PasswordFile string `yaml:"passwordFile" cfg:"path,omitempty"`
}

// Canary is a message that is sent, received and deleted again and again.
type Canary struct {
	// Account whose queue it is. Required.
	Account string `yaml:"account"`
	// Queue that nobody else uses; it is created. Default "qwatch-canary".
	Queue string `yaml:"queue"`
	// Interval between two of them. Default 1m, at least 5s.
	Interval time.Duration `yaml:"interval"`
}

func (c *Canary) setDefaults() { *c = Canary{Queue: "qwatch-canary", Interval: time.Minute} }

// cluster checks how the watching is shared.
func (v *validator) cluster() {
	w := &v.cfg.Watch
	switch w.Mode {
	case "", ModeSingle, ModeLeader, ModeShard:
	default:
		v.say("watch.mode", "%s is not a way to share the watching; use single, leader or shard", v.shown("watch.mode", w.Mode))
		return
	}
	if w.Mode == ModeLeader && w.Leader == nil {
		w.Leader = &Leader{}
		w.Leader.setDefaults()
	}
	if w.Mode != ModeLeader && w.Leader != nil {
		v.say("watch.leader", "is for watch.mode: leader; set that, or remove it")
	}
	if w.Mode != ModeShard && w.Shard != nil {
		v.say("watch.shard", "is for watch.mode: shard; set that, or remove it")
	}
	switch {
	case w.Mode == ModeLeader:
		v.leader(w.Leader)
	case w.Mode == ModeShard && w.Shard == nil:
		v.say("watch.mode", "shard needs to know the shards; add watch.shard with count and peers")
	case w.Mode == ModeShard:
		v.shard(w.Shard)
	}
	v.peers(w)
	v.canary(w.Canary)
}

func (v *validator) leader(l *Leader) {
	const key = "watch.leader"
	v.atLeast(key+".leaseDuration", l.LeaseDuration, 2*time.Second)
	if l.Lease == "" {
		v.say(key+".lease", "is empty; name the Lease, such as qwatch")
	} else if !isObject(l.Lease) {
		v.say(key+".lease", "%s is not the name of an object of Kubernetes; use lower-case letters, digits, dots and hyphens", v.shown(key+".lease", l.Lease))
	}
	if l.Namespace != "" && (!isObject(l.Namespace) || strings.Contains(l.Namespace, ".")) {
		v.say(key+".namespace", "%s is not the name of a namespace", v.shown(key+".namespace", l.Namespace))
	}
	if strings.ContainsAny(l.Identity, "@ \t\r\n") || len(l.Identity) > 200 {
		v.say(key+".identity", "%s is not a name; use up to 200 characters without blanks and @, such as the pod's name", v.shown(key+".identity", l.Identity))
	}
	if l.Address != "" {
		v.base(key+".address", l.Address)
	}
}

func (v *validator) shard(s *Shard) {
	const key = "watch.shard"
	countable := s.Count >= 1 && s.Count <= maxShards
	switch {
	case countable:
	case v.set(key + ".count"):
		v.say(key+".count", "%s is not a number of shards; use 1 to %d", v.number(key+".count", s.Count), maxShards)
	default:
		v.say(key+".count", "is missing; it is how many shards share the fleet")
	}
	index, err := strconv.Atoi(s.Index)
	switch {
	case s.Index == ShardOrdinal:
	case err != nil:
		v.say(key+".index", "%s is neither a number nor ordinal", v.shown(key+".index", s.Index))
	case countable && (index < 0 || index >= s.Count):
		v.say(key+".index", "%s is not one of %d shards; they are counted from 0", v.shown(key+".index", s.Index), s.Count)
	}
	pattern := len(s.Peers) == 1 && strings.Contains(s.Peers[0], ShardPlaceholder)
	switch {
	case len(s.Peers) == 0 && s.Count > 1:
		v.say(key+".peers", "is missing; list the URLs of all %d shards, or write one with {index} in it, such as [\"http://qwatch-{index}.qwatch:9780\"]", s.Count)
	case countable && len(s.Peers) > 0 && !pattern && len(s.Peers) != s.Count:
		v.say(key+".peers", "lists %d URLs for %d shards; list one each, or write a single one with {index} in it", len(s.Peers), s.Count)
	}
	for i := range s.Peers {
		v.base(key+".peers["+strconv.Itoa(i)+"]", strings.ReplaceAll(s.Peers[i], ShardPlaceholder, "0"))
	}
	v.atLeast(key+".takeover", s.Takeover, time.Second)
}

func (v *validator) peers(w *Watch) {
	const key = "watch.peers"
	p := w.Peers
	if p == nil {
		return
	}
	if w.Mode != ModeLeader && w.Mode != ModeShard {
		v.say(key, "is for watch.mode: leader or shard; set that, or remove it")
		return
	}
	if p.TokenFile != "" && p.Username != "" {
		v.say(key+".tokenFile", "stands beside username (line %d); keep one", v.line(key+".username"))
	}
	if (p.Username == "") != (p.PasswordFile == "") {
		v.say(key, "needs both username and passwordFile, or none of them")
	}
	if strings.Contains(p.Username, ":") {
		v.say(key+".username", "has a colon, which basic authentication cannot carry")
	}
}

func (v *validator) canary(c *Canary) {
	const key = "watch.canary"
	if c == nil {
		return
	}
	v.atLeast(key+".interval", c.Interval, 5*time.Second)
	if err := queue.CheckName(c.Queue); err != nil {
		v.say(key+".queue", "%v", err)
	}
	if c.Account == "" {
		v.say(key+".account", "is missing; it is the name of the account that the canary tries")
		return
	}
	for i := range v.cfg.Accounts {
		a := &v.cfg.Accounts[i]
		if a.Name != c.Account {
			continue
		}
		for j := range a.Queues {
			if q := &a.Queues[j]; q.Name == c.Queue || q.PoisonQueue == c.Queue || q.Name+poisonSuffix == c.Queue {
				v.say(key+".queue", "%s is used by accounts[%d].queues[%d] (line %d); give the canary a queue of its own", v.shown(key+".queue", c.Queue), i, j, v.line("accounts["+strconv.Itoa(i)+"].queues["+strconv.Itoa(j)+"].name"))
				return
			}
		}
		return
	}
	v.say(key+".account", "%s is not the name of an account here", v.shown(key+".account", c.Account))
}

// base checks the base URL of a replica.
func (v *validator) base(key, s string) {
	if problem := urlFault(s); problem != "" {
		v.say(key, "%s", problem)
		return
	}
	if u, err := url.Parse(s); err == nil && (u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "" || strings.ContainsAny(s, "?#")) {
		v.say(key, "must be a scheme, a host and a port only, such as http://10.1.2.3:9780; credentials go under watch.peers")
	}
}

// isObject says whether Kubernetes takes s for a name.
func isObject(s string) bool {
	if s == "" || len(s) > 253 {
		return false
	}
	for part := range strings.SplitSeq(s, ".") {
		if part == "" || strings.Trim(part, "-") != part || strings.Trim(part, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			return false
		}
	}
	return true
}
