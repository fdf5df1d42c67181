package config

import (
	"strings"
	"time"
)

// Scaling is about the consumers in other processes, and about those of every queue that does not say itself.
type Scaling struct {
	// Peers is the host, or host:port, of a headless service that resolves to every consumer; several are
	// separated by commas. The port's default is 9780. Default: none.
	Peers string `yaml:"peers" cfg:"omitempty,mayBeEmpty"`
	// HandlingTime and Concurrency are as in QueueScaling, for queues that do not set them.
	HandlingTime time.Duration `yaml:"handlingTime" cfg:"omitempty"`
	Concurrency  int           `yaml:"concurrency" cfg:"omitempty"`
}

// QueueScaling is what the scaler's strategy drain assumes about a queue's consumers for as long as nobody
// can measure it.
type QueueScaling struct {
	// HandlingTime of one message, 1ms to 24h. Default: not known.
	HandlingTime time.Duration `yaml:"handlingTime" cfg:"omitempty"`
	// Concurrency is how many messages one replica handles at once, 1 to 10000. Default: the consumer's,
	// and 1 without one.
	Concurrency int `yaml:"concurrency" cfg:"omitempty"`
}

// Bounds of a handling time.
const (
	leastHandlingTime = time.Millisecond
	mostHandlingTime  = 24 * time.Hour
)

// PeerHosts returns the hosts of Peers.
func (s Scaling) PeerHosts() []string {
	var hosts []string
	for h := range strings.SplitSeq(s.Peers, ",") {
		if h = strings.TrimSpace(h); h != "" {
			hosts = append(hosts, h)
		}
	}
	return hosts
}

// ScalingOf returns how long a message of the queue takes, 0 when nobody says, and how many messages one
// replica handles at once.
func (c *Config) ScalingOf(q Queue) (handlingTime time.Duration, concurrency int) {
	handlingTime, concurrency = c.Scaling.HandlingTime, c.Scaling.Concurrency
	if q.Consumer != nil {
		concurrency = q.Consumer.Concurrency
	}
	if s := q.Scaling; s != nil {
		if s.HandlingTime != 0 {
			handlingTime = s.HandlingTime
		}
		if s.Concurrency != 0 {
			concurrency = s.Concurrency
		}
	}
	return handlingTime, max(1, concurrency)
}

func (v *validator) scaling() {
	s := v.cfg.Scaling
	for _, h := range s.PeerHosts() {
		if !isHost(h) {
			v.say("scaling.peers", "%s is not a host name, nor host:port; name the consumers' headless service", quote(v.marks["scaling.peers"].raw))
			break
		}
	}
	v.assumed("scaling", s.HandlingTime, s.Concurrency)
}

// assumed checks a handling time and a concurrency.
func (v *validator) assumed(key string, handlingTime time.Duration, concurrency int) {
	if at := key + ".handlingTime"; v.set(at) {
		v.atLeast(at, handlingTime, leastHandlingTime)
		if handlingTime > mostHandlingTime {
			v.say(at, "%s is too long; use %s or less", v.number(at, handlingTime), formatDuration(mostHandlingTime))
		}
	}
	if at := key + ".concurrency"; v.set(at) {
		v.atLeastOne(at, concurrency)
		if concurrency > maxConcurrency {
			v.say(at, "%s is too many; use %d or fewer", v.number(at, concurrency), maxConcurrency)
		}
	}
}
