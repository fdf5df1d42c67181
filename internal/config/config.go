// Package config reads qwatch.yaml into a Config: every default applied, every fault
// reported at once with file, line, path and cure.
//
// It owns the file's shape and the rules between its fields. What only the storage account
// can know (is the connection string sound, is the credential good) is left to package queue;
// Pos and At give such errors their place in the file. Nothing here opens a connection, and the
// files a configuration names are not opened either.
package config

import (
	"time"

	"github.com/qwatch/qwatch/queue"
)

// Config is the effective configuration: what the file says, with every default filled in.
// It is not changed after Load and Parse return it, so it may be shared.
type Config struct {
	// Accounts are the storage accounts and their queues. At least one is required.
	Accounts []Account `yaml:"accounts"`
	// Defaults are queue settings for every queue whose account and name match; the last match
	// wins, and what a queue says itself wins over all. They are already applied to the queues of
	// Accounts; QueueFor applies them to queues found by discovery.
	Defaults []Default `yaml:"defaults" cfg:"omitempty"`
	// Watch says how often and how hard the queues are polled.
	Watch Watch `yaml:"watch"`
	// Scaling is about the consumers in other processes.
	Scaling Scaling `yaml:"scaling" cfg:"omitempty"`
	// Server is about the listeners of qwatch itself.
	Server Server `yaml:"server"`
	// Telemetry is what is sent to an OpenTelemetry receiver. Nil: what the OTEL_ variables say, with
	// the defaults of Telemetry.
	Telemetry *Telemetry `yaml:"telemetry"`

	file  string
	marks map[string]mark
	rules []rule
}

// Account is one storage account. Exactly one way to sign in is set: ConnectionString,
// ConnectionStringFile, or Endpoint with one of SAS, SASFile, AccountKey, AccountKeyFile and Identity.
type Account struct {
	// Pos is where the account stands in the file.
	Pos Pos `yaml:"-"`
	// Name is the `account` label: 1 to 63 letters, digits, dots, underscores and hyphens. Unique.
	Name string `yaml:"name"`
	// ConnectionString of the account, or UseDevelopmentStorage=true.
	ConnectionString queue.Secret `yaml:"connectionString" cfg:"omitempty"`
	// ConnectionStringFile holds the connection string; read again when it changes.
	ConnectionStringFile string `yaml:"connectionStringFile" cfg:"path,omitempty"`
	// Endpoint is the queue endpoint, http or https.
	Endpoint string `yaml:"endpoint" cfg:"omitempty"`
	// AccountName is needed only when the endpoint's host does not tell it.
	AccountName string `yaml:"accountName" cfg:"omitempty"`
	// SAS is a shared access signature, with or without the leading question mark.
	SAS queue.Secret `yaml:"sas" cfg:"omitempty"`
	// SASFile holds the SAS; read again when it changes.
	SASFile string `yaml:"sasFile" cfg:"path,omitempty"`
	// AccountKey is a shared key of the account.
	AccountKey queue.Secret `yaml:"accountKey" cfg:"omitempty"`
	// AccountKeyFile holds the key; read again when it changes.
	AccountKeyFile string `yaml:"accountKeyFile" cfg:"path,omitempty"`
	// Identity signs in with Microsoft Entra ID. Nil: another way is used.
	Identity *Identity `yaml:"identity"`
	// Queues are the queues configured by name, each with its settings.
	Queues []Queue `yaml:"queues" cfg:"later,omitempty"`
	// Discovery finds further queues by listing the account. Nil: off.
	Discovery *Discovery `yaml:"discovery"`
}

// The kinds of identity.
const (
	IdentityDefault  = "default"  // the default chain: environment, workload, managed, developer tools
	IdentityWorkload = "workload" // a Kubernetes service account
	IdentityManaged  = "managed"  // the machine's managed identity
)

// Identity is a Microsoft Entra ID credential.
type Identity struct {
	// Type is IdentityDefault (the default), IdentityWorkload or IdentityManaged.
	Type string `yaml:"type"`
	// ClientID of a user-assigned identity or of the workload's application. Default: the environment's.
	ClientID string `yaml:"clientId" cfg:"omitempty"`
	// TenantID of the directory. Default: the environment's.
	TenantID string `yaml:"tenantId" cfg:"omitempty"`
}

func (i *Identity) setDefaults() { i.Type = IdentityDefault }

// Discovery finds queues by listing an account. The control queues of Durable Functions and of the
// WebJobs host are left out unless a pattern of Include spells "control", "workitems" or "azure-webjobs".
type Discovery struct {
	// Include are globs of queue names to watch. Default: all.
	Include []string `yaml:"include"`
	// Exclude are globs of queue names to leave out; they win over Include. Default: none.
	Exclude []string `yaml:"exclude" cfg:"omitempty"`
	// Interval between two listings. Default 5m, at least 10s.
	Interval time.Duration `yaml:"interval"`
	// MaxQueues bounds how many queues of the account are watched, configured ones included. Default 5000.
	MaxQueues int `yaml:"maxQueues"`
}

func (d *Discovery) setDefaults() {
	*d = Discovery{Include: []string{"*"}, Interval: 5 * time.Minute, MaxQueues: 5000}
}

// Watch says how often and how hard the queues are polled.
type Watch struct {
	// Interval between two polls of a queue. Default 1m, at least 1s.
	Interval time.Duration `yaml:"interval"`
	// IdleInterval between two polls of a main queue that is idle. Default 5m, or Interval when
	// that is longer; at least Interval. Poison, unhealthy and scaled queues keep Interval.
	IdleInterval time.Duration `yaml:"idleInterval"`
	// PoisonIdleInterval between two polls of a poison queue that has been empty for some time, while
	// its main queue is idle; at least Interval. Default 0: Interval, or three times that in accounts of more
	// than 1,000 queues.
	PoisonIdleInterval time.Duration `yaml:"poisonIdleInterval" cfg:"omitempty"`
	// RequestsPerSecond bounds the watcher's requests to one account, retries included. Default 100.
	RequestsPerSecond float64 `yaml:"requestsPerSecond"`
	// Patience is how long a visible message may go untouched until the queue counts as stalled; what
	// else statuses wait for goes with it. Default 10m, at least 1s.
	Patience time.Duration `yaml:"patience"`
	// Series is SeriesFull (the default) or SeriesCompact.
	Series string `yaml:"series"`
	// PricePer10kTransactions of storage, in any currency, for the estimated bill. Default 0: none is made.
	PricePer10kTransactions float64 `yaml:"pricePer10kTransactions" cfg:"omitempty"`
	// Mode is how several replicas share the watching: ModeSingle (also ""), ModeLeader or ModeShard. Default: ModeSingle.
	Mode string `yaml:"mode" cfg:"omitempty"`
	// Leader is set with ModeLeader only.
	Leader *Leader `yaml:"leader"`
	// Shard is set with ModeShard only.
	Shard *Shard `yaml:"shard"`
	// Peers says how the replicas talk to each other. Nil: in plain, without credentials.
	Peers *Peers `yaml:"peers"`
	// Canary measures a message's way through storage. Nil: off.
	Canary *Canary `yaml:"canary"`
}

// The sets of series about watched queues.
const (
	SeriesFull    = "full"
	SeriesCompact = "compact" // for large fleets: without series that are nearly always 0
)

// Off is what an address is when its listener is turned off: "off" in the file.
const Off = ""

// Server is about the listeners of qwatch itself.
type Server struct {
	// Listen is the address of the page, metrics and API. Default ":9780".
	Listen string `yaml:"listen"`
	// Probes is the address of the plain HTTP probes. Default ":9781". Off: only on the main listener.
	Probes string `yaml:"probes" cfg:"off"`
	// GRPC is the address of the KEDA scaler and of gRPC health. Default ":9782". Off: none.
	GRPC string `yaml:"grpc" cfg:"off"`
	// WebConfigFile is a web configuration of the Prometheus exporter toolkit: TLS and basic
	// authentication of the main listener. Default: plain HTTP.
	WebConfigFile string `yaml:"webConfigFile" cfg:"path,omitempty"`
	// TokensFile holds the named tokens and their roles. Default: nobody has the operator role.
	TokensFile string `yaml:"tokensFile" cfg:"path,omitempty"`
	// GRPCTLS turns on TLS for the gRPC listener. Nil: plain text.
	GRPCTLS *GRPCTLS `yaml:"grpcTLS"`
	// StrictReadiness makes /readyz fail where it would only report a degraded state. Default false.
	StrictReadiness bool `yaml:"strictReadiness"`
}

// GRPCTLS is the TLS configuration of the gRPC listener.
type GRPCTLS struct {
	// CertFile and KeyFile are the server's certificate chain and key in PEM; both are required.
	CertFile string `yaml:"certFile" cfg:"path"`
	KeyFile  string `yaml:"keyFile" cfg:"path"`
	// ClientCAFile, when set, demands client certificates signed by one of its authorities.
	ClientCAFile string `yaml:"clientCAFile" cfg:"path,omitempty"`
}

func defaultConfig() Config {
	return Config{
		Watch: Watch{
			Interval: time.Minute, IdleInterval: 5 * time.Minute, RequestsPerSecond: 100,
			Patience: 10 * time.Minute, Series: SeriesFull,
		},
		Server: Server{Listen: ":9780", Probes: ":9781", GRPC: ":9782"},
	}
}
