package config

import (
	"strings"
	"time"

	"github.com/qwatch/qwatch/queue"
)

// Queue is one queue with its effective settings.
type Queue struct {
	// Pos is where the queue stands in the file; the zero Pos for one found by discovery.
	Pos Pos `yaml:"-"`
	// Account is the name of the account the queue belongs to.
	Account string `yaml:"-"`
	// Name of the queue by the service's rules. Unique in its account.
	Name string `yaml:"name"`

	Settings `yaml:",inline"`

	// FromDefaults says which settings come from a default rather than from the queue itself.
	FromDefaults Inherited `yaml:"-"`

	// SharedPoison says that the poison queue is also another queue's poison queue, or is itself
	// among the account's configured queues, so that it must be watched as a queue of its own and not
	// for this one.
	SharedPoison bool `yaml:"-"`
}

// Inherited says of some settings whether they come from a default. What a queue's own metadata says
// beats those, and not the queue's own settings.
type Inherited struct{ Team, Tier, Objective bool }

// Settings are what can be said about a queue, by itself or by a default.
type Settings struct {
	// PoisonQueue is where dead-lettered messages go. Default: the name and "-poison"; a name of more
	// than 56 characters must set it. Empty when NoPoison is set.
	PoisonQueue string `yaml:"poisonQueue" cfg:"omitempty"`
	// NoPoison says that there is no poison queue, as for one that is itself a poison queue. Default:
	// false, but true for a queue without a consumer that is the poison queue of another one.
	NoPoison bool `yaml:"noPoison" cfg:"omitempty"`
	// Encoding of the text on the wire: none (the default), base64 or auto.
	Encoding queue.Encoding `yaml:"encoding"`
	// CreateIfMissing creates the main queue on first use. Default false.
	CreateIfMissing bool `yaml:"createIfMissing"`
	// CreatePoisonIfMissing creates the poison queue on first use. Default true.
	CreatePoisonIfMissing bool `yaml:"createPoisonIfMissing"`
	// PoisonTimeToLive of dead-lettered messages, at least 1s. Default 0, "never" in the file: they do not expire.
	PoisonTimeToLive time.Duration `yaml:"poisonTimeToLive" cfg:"never"`
	// TypeHeader is the header that carries the message's type. Default "message-type".
	TypeHeader string `yaml:"typeHeader"`
	// PropagateTraceContext carries the trace context with each message sent. Default false.
	PropagateTraceContext bool `yaml:"propagateTraceContext"`
	// Compress gzips bodies of at least CompressionThreshold bytes where that makes a message smaller.
	// Default false; what others compressed is read in any case.
	Compress bool `yaml:"compress" cfg:"unset"`
	// CompressionThreshold in bytes, only with Compress. Default 1024.
	CompressionThreshold int `yaml:"compressionThreshold" cfg:"omitempty"`
	// LargeMessages keeps the bodies that do not fit the queue in Blob storage. Nil: they are refused.
	LargeMessages *LargeMessages `yaml:"largeMessages"`
	// Encryption encrypts what is sent and decrypts what is received. Nil: off.
	Encryption *Encryption `yaml:"encryption"`
	// Objective for the time messages wait. Nil: none.
	Objective *Objective `yaml:"objective"`
	// Team that owns the queue. Default "": unknown.
	Team string `yaml:"team" cfg:"omitempty"`
	// Tier decides the severity of alerts: 1 (most important), 2 or 3. Default 0: not said.
	Tier int `yaml:"tier" cfg:"omitempty"`
	// MonitorOnly never calls a missing consumer a stall. Default false. A queue with a consumer
	// cannot set it, and does not take it from a default.
	MonitorOnly bool `yaml:"monitorOnly"`
	// CountsOnly reads the approximate count and never peeks, which needs no permission to read messages. Default false.
	CountsOnly bool `yaml:"countsOnly"`
	// Consumer handles the queue's messages. Nil: the queue is only watched. A default fills in the
	// settings of a consumer that the queue has, and never gives it one.
	Consumer *Consumer `yaml:"consumer"`
	// Scaling is what the scaler assumes about the consumers. Nil: nothing.
	Scaling *QueueScaling `yaml:"scaling"`
}

// Objective is a service level for the time messages wait.
type Objective struct {
	// TimeInQueue is how long a message may wait. Required, at least 1s.
	TimeInQueue time.Duration `yaml:"timeInQueue"`
	// Target is the share of messages that must keep it, between 0 and 1. Default 0.99.
	Target float64 `yaml:"target"`
}

func (o *Objective) setDefaults() { o.Target = 0.99 }

// Consumer says how the messages of a queue are handled.
type Consumer struct {
	// Handler is what messages are given to. Required.
	Handler Handler `yaml:"handler"`
	// Concurrency is how many messages are handled at once, 1 to 10000. Default 1.
	Concurrency int `yaml:"concurrency"`
	// VisibilityTimeout is the lease of a message being handled, 1s to 7d in whole seconds. Default 1m.
	VisibilityTimeout time.Duration `yaml:"visibilityTimeout"`
	// Renew keeps renewing the lease while the handler runs. Default true.
	Renew bool `yaml:"renew"`
	// MaxRenewal is how long the lease is renewed; only with Renew. Default 0, "off" in the file: as long
	// as the handler runs.
	MaxRenewal time.Duration `yaml:"maxRenewal" cfg:"off"`
	// LongRunningWarning logs a handler that runs longer, once. Default 10m; 0, "off" in the file: never.
	LongRunningWarning time.Duration `yaml:"longRunningWarning" cfg:"off"`
	// MaxDequeueCount is how often a message is delivered before it is dead-lettered. Default 5.
	MaxDequeueCount int `yaml:"maxDequeueCount"`
	// MaxAge dead-letters a message that is older. Default 0, "off" in the file: any age is handled.
	MaxAge time.Duration `yaml:"maxAge" cfg:"off"`
	// Retry is the delay before a failed message is tried again.
	Retry Retry `yaml:"retry"`
	// Breaker stops receiving while handlers fail as a whole, so that an outage of what they call costs
	// no message its attempts. Default true.
	Breaker bool `yaml:"breaker"`
	// OutageRecord keeps the last outage in the queue's metadata, so that processes that have not seen it
	// spare the messages that have. Default true.
	OutageRecord bool `yaml:"outageRecord"`
	// BusinessKey names the operation that a message asks for, in poison and failure records and for
	// Idempotency. Default nil: none.
	BusinessKey *BusinessKey `yaml:"businessKey"`
	// FailureRecords keeps an inspection record of every dead-lettered message. Nil: off.
	FailureRecords *FailureRecords `yaml:"failureRecords"`
	// Idempotency does the operation of a business key once. Nil: at each delivery.
	Idempotency *Idempotency `yaml:"idempotency"`
	// RateLimit bounds how many messages are taken. Default nil: as many as can be handled.
	RateLimit *RateLimit `yaml:"rateLimit"`
	// EmptyBackoff is the pause between two receives of an empty queue.
	EmptyBackoff Backoff `yaml:"emptyBackoff"`
	// ErrorBackoffMax is the longest pause after a failed receive, at least 1s. Default 1m.
	ErrorBackoffMax time.Duration `yaml:"errorBackoffMax"`
	// DrainTimeout is how long running handlers may finish at shutdown. Default 30s.
	DrainTimeout time.Duration `yaml:"drainTimeout"`
}

func (c *Consumer) setDefaults() {
	*c = Consumer{
		Concurrency:        1,
		VisibilityTimeout:  time.Minute,
		Renew:              true,
		LongRunningWarning: 10 * time.Minute,
		MaxDequeueCount:    5,
		Retry:              Retry{Initial: 5 * time.Second, Max: 5 * time.Minute, Jitter: 0.1},
		EmptyBackoff:       Backoff{Min: time.Second, Max: 30 * time.Second},
		Breaker:            true,
		OutageRecord:       true,
		ErrorBackoffMax:    time.Minute,
		DrainTimeout:       30 * time.Second,
	}
}

// Retry is the delay before a failed message is tried again: Initial, doubling with each attempt up to Max.
type Retry struct {
	// Initial delay, at least 1s. Default 5s.
	Initial time.Duration `yaml:"initial"`
	// Max delay, at most 7d. Default 5m.
	Max time.Duration `yaml:"max"`
	// Jitter is the share of the delay by which it varies at random, 0 to 1. Default 0.1.
	Jitter float64 `yaml:"jitter"`
}

// RateLimit bounds how many messages are taken.
type RateLimit struct {
	// PerSecond is how many on average, above 0. Required.
	PerSecond float64 `yaml:"perSecond"`
	// Burst is how many at once, at least 1. Default 1.
	Burst int `yaml:"burst"`
}

func (r *RateLimit) setDefaults() { r.Burst = 1 }

// Backoff is a pause that doubles from Min to Max.
type Backoff struct {
	// Min is the first pause, at least 1ms. Default 1s.
	Min time.Duration `yaml:"min"`
	// Max is the longest pause. Default 30s.
	Max time.Duration `yaml:"max"`
}

// Handler is what messages are given to: exactly one of HTTP and Exec is set.
type Handler struct {
	HTTP *HTTPHandler `yaml:"http"`
	Exec *ExecHandler `yaml:"exec"`
}

// Timeout is how long one call of the handler may take.
func (h Handler) Timeout() time.Duration {
	switch {
	case h.HTTP != nil:
		return h.HTTP.Timeout
	case h.Exec != nil:
		return h.Exec.Timeout
	default:
		return 0
	}
}

const defaultHandlerTimeout = 30 * time.Second

// The forms of a CloudEvent over HTTP.
const (
	CloudEventsBinary     = "binary"     // attributes as headers, data as the body
	CloudEventsStructured = "structured" // one JSON document
)

// HTTPHandler posts each message to a URL.
type HTTPHandler struct {
	// URL to post to, http or https. A Secret, since it may hold credentials.
	URL queue.Secret `yaml:"url" cfg:"url"`
	// Timeout of one call, from connecting to the end of the answer. Default 30s.
	Timeout time.Duration `yaml:"timeout"`
	// CloudEvents sends the message as a CloudEvent: CloudEventsBinary or CloudEventsStructured.
	// Default "", "off" in the file: the bare body.
	CloudEvents string `yaml:"cloudEvents" cfg:"off"`
}

func (h *HTTPHandler) setDefaults() { h.Timeout = defaultHandlerTimeout }

// ExecHandler runs a command for each message.
type ExecHandler struct {
	// Command and its arguments; no shell is involved. Required.
	Command []string `yaml:"command" cfg:"raw"`
	// Dir the command runs in, and a relative command is found from. Default: the configuration file's directory.
	Dir string `yaml:"dir" cfg:"path,omitempty"`
	// Timeout of one call. Default 30s.
	Timeout time.Duration `yaml:"timeout"`
}

func (h *ExecHandler) setDefaults() { h.Timeout = defaultHandlerTimeout }

// Default gives settings to the queues that match.
type Default struct {
	// Match is a glob of queue names, or of account/queue when it holds a slash. Required.
	Match string `yaml:"match"`

	Settings `yaml:",inline"`
}

func (d *Default) setDefaults() { d.Settings = builtin() }

func builtin() Settings {
	return Settings{
		Encoding:              queue.EncodingNone,
		CreatePoisonIfMissing: true,
		TypeHeader:            "message-type",
	}
}

// maxConcurrency is the most that package processor takes.
const maxConcurrency = 10_000

const (
	poisonSuffix      = "-poison"
	maxDefaultPoisons = 63 - len(poisonSuffix) // the longest name whose default poison name fits
)

// QueueFor returns the effective settings of a queue: those of Accounts when it is configured there, else
// the defaults that match it, without a consumer, as for a queue found by discovery.
func (c *Config) QueueFor(account, name string) Queue {
	for _, a := range c.Accounts {
		if a.Name != account {
			continue
		}
		for _, q := range a.Queues {
			if q.Name == name {
				return q
			}
		}
	}
	q := Queue{Account: account, Name: name, Settings: builtin()}
	for i := range c.rules {
		if matches(c.rules[i].match, account, name) {
			c.rules[i].apply(&q.Settings, c.marks)
		}
	}
	q.Consumer = nil
	q.FromDefaults = Inherited{Team: true, Tier: true, Objective: true}
	q.settleCompression()
	switch {
	case q.PoisonQueue == name:
		q.PoisonQueue, q.NoPoison = "", true
	case q.NoPoison:
		q.PoisonQueue = ""
	case q.PoisonQueue == "" && len(name) > maxDefaultPoisons:
		q.NoPoison = true
	case q.PoisonQueue == "":
		q.PoisonQueue = name + poisonSuffix
	}
	return q
}

// matches applies a glob to the queue's name, or to account/queue when the glob holds a slash.
func matches(glob, account, name string) bool {
	if strings.Contains(glob, "/") {
		name = account + "/" + name
	}
	return globMatch(glob, name)
}
