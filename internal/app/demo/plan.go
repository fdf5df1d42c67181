// Package demo runs qwatch on an embedded queue service with generated traffic, through
// the same configuration, processors and endpoints as a real run.
//
// It owns the traffic: which queues there are, what is sent to them and how their
// handlers behave. Nothing in it is needed to run qwatch on real storage.
package demo

import (
	"bytes"
	"fmt"
	"text/template"
	"time"
)

// account is the demo's `account` label.
const account = "demo"

// drainTimeout is short, so that Ctrl-C is quick.
const drainTimeout = 2 * time.Second

// handlerTimeout bounds a call of a handler.
const handlerTimeout = 30 * time.Second

// character is one queue of the demo: how it is fed, how it is handled and what there
// is to see.
type character struct {
	name   string
	kind   string // a word or two
	expect string // what to look for

	every    time.Duration // between sends; 0: none
	burst    int           // messages a send
	delay    time.Duration // of each message
	mangled  float64       // share of messages that no reader can read
	consumed bool

	concurrency int
	visibility  time.Duration
	retry       time.Duration // first retry delay
	work        [2]time.Duration
	transient   float64 // share of attempts that fail for now
	permanent   float64 // share of messages that fail for good
}

// characters are the demo's queues.
func characters() []character {
	return []character{
		{
			name: "orders", kind: "steady", expect: "five a second, handled at once",
			every: 200 * time.Millisecond, burst: 1, consumed: true,
			concurrency: 4, visibility: 30 * time.Second, retry: 2 * time.Second,
			work: [2]time.Duration{10 * time.Millisecond, 80 * time.Millisecond}, transient: 0.01,
		},
		{
			name: "emails", kind: "bursty", expect: "150 at once every 20 s: depth jumps, then drains",
			every: 20 * time.Second, burst: 150, consumed: true,
			concurrency: 8, visibility: 30 * time.Second, retry: 2 * time.Second,
			work: [2]time.Duration{150 * time.Millisecond, 500 * time.Millisecond},
		},
		{
			name: "reports", kind: "slow handler", expect: "runs 3 to 9 s on a lease of 4 s: watch the renewals",
			every: 4 * time.Second, burst: 1, consumed: true,
			concurrency: 3, visibility: 4 * time.Second, retry: 5 * time.Second,
			work: [2]time.Duration{3 * time.Second, 9 * time.Second},
		},
		{
			name: "payments", kind: "poisonous", expect: "some are refused, some cannot be read: they end in payments-poison",
			every: 500 * time.Millisecond, burst: 1, mangled: 0.02, consumed: true,
			concurrency: 2, visibility: 30 * time.Second, retry: time.Second,
			work: [2]time.Duration{20 * time.Millisecond, 120 * time.Millisecond}, permanent: 0.05,
		},
		{
			name: "shipping", kind: "flaky", expect: "a third of the attempts fail and are retried",
			every: time.Second, burst: 1, consumed: true,
			concurrency: 2, visibility: 30 * time.Second, retry: time.Second,
			work: [2]time.Duration{30 * time.Millisecond, 200 * time.Millisecond}, transient: 0.35,
		},
		{
			name: "reminders", kind: "delayed", expect: "hidden for 30 s after they are sent: counted, not visible",
			every: 3 * time.Second, burst: 1, delay: 30 * time.Second, consumed: true,
			concurrency: 1, visibility: 30 * time.Second, retry: 2 * time.Second,
			work: [2]time.Duration{5 * time.Millisecond, 20 * time.Millisecond},
		},
		{
			name: "audit", kind: "nobody consumes", expect: "only watched: the backlog and its age grow",
			every: 2 * time.Second, burst: 1,
		},
	}
}

// configuration is the file the demo runs with, and leaves for other commands to use
// while it runs.
var configuration = template.Must(template.New("qwatch.yaml").Parse(`# Written by "qwatch demo"; it is removed when the demo ends.
accounts:
  - name: {{.Account}}
    connectionString: {{.ConnectionString}}
    queues:
{{- range .Characters}}
      - name: {{.Name}}
{{- if .Consumed}}
        objective: {timeInQueue: 1m}
        consumer:
          handler:
            http: {url: "{{$.Handlers}}/{{.Name}}", timeout: {{$.Timeout}}}
          concurrency: {{.Concurrency}}
          visibilityTimeout: {{.Visibility}}
          retry: {initial: {{.Retry}}, max: 10s}
          drainTimeout: {{$.Drain}}
{{- end}}
{{- end}}
watch: {interval: 2s, idleInterval: 2s, patience: 30s}
server: {listen: "{{.Listen}}", probes: "{{.Probes}}", grpc: "{{.GRPC}}"{{with .Tokens}}, tokensFile: "{{.}}"{{end}}}
scaling: {handlingTime: 1s}
`))

// fileCharacter is what the template reads of a character.
type fileCharacter struct {
	Name              string
	Consumed          bool
	Concurrency       int
	Visibility, Retry time.Duration
}

// configFile writes the configuration for a service, a handler server and listeners.
func configFile(connection, handlers, listen, probes, grpc, tokens string) ([]byte, error) {
	chars := characters()
	data := struct {
		Account, ConnectionString, Handlers, Listen, Probes, GRPC, Tokens string
		Drain, Timeout                                                    time.Duration
		Characters                                                        []fileCharacter
	}{account, connection, handlers, listen, probes, grpc, tokens, drainTimeout, handlerTimeout, make([]fileCharacter, 0, len(chars))}
	for _, c := range chars {
		data.Characters = append(data.Characters, fileCharacter{c.name, c.consumed, c.concurrency, c.visibility, c.retry})
	}
	var b bytes.Buffer
	if err := configuration.Execute(&b, data); err != nil {
		return nil, fmt.Errorf("write the demo's configuration: %w", err)
	}
	return b.Bytes(), nil
}
