// Package collector watches a fleet of queues and keeps what it saw.
//
// It owns discovery, polling (which queue, when, at what rate), the state and the verdicts that
// follow from it, and the watcher's metrics. It only ever reads: a poll is one request for the
// queue's properties and, where there is something to see, one peek. Everything that answers a
// question – the metrics, the page, the API, the scaler, the probes – reads a [Snapshot] and never
// calls storage.
//
// What a consumer does in this process is package processor's to tell; where metrics are
// served is internal/web's.
//
// # What is known, and for how long
//
// A failed poll is told at once (queue_up 0, [QueueState.Up]); the numbers of the last good
// one stay for three times the queue's effective interval and then go. There is no other
// staleness limit anywhere. A number that is not known is absent: it is never NaN and never
// a made-up zero. Two answers of the service are definite:
//
//   - A main queue that is not there is a failed poll (reason not_found); its numbers go at once.
//   - A poison queue that is not there is an empty one, because it is created when the first
//     message goes there: the poll succeeded, it does not exist, and it holds 0 messages. So the
//     first poison storm is a rise from 0 rather than a series born high.
//
// When the count can be read and the peek fails, as without permission to read messages, the
// poll failed: the count is new, and what comes from peeking is absent. A queue that is meant
// to be watched without that permission sets [Target.CountsOnly].
//
// # What it costs
//
// Main queues that are idle are polled at Config.IdleInterval; the others, and poison queues, at their
// interval. An empty queue is counted and, but for every tenth poll, not peeked at: the service's count
// is never too low. Each interval is shortened by up to a tenth at random. No account sees more
// than Config.RequestsPerSecond, retries and listings included; what does not fit is stretched.
package collector
