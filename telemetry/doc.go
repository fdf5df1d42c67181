// Package telemetry tells OpenTelemetry what the queues do: spans of each message processed and, on
// request, of each receive and send, and the metrics of the messaging conventions under their own names.
//
// [New] gives one value that is both a queue.Tracer, for queue.Config, and a processor.Tracer, for
// processor.Config. It owns names and attributes; what becomes of spans and measurements is the
// providers', which the program sets up. Nothing else imports this package but the program itself, so
// that a user without OpenTelemetry does not link it.
//
// The spans:
//
//   - Queue.Process (consumer), for each message that a processor takes up, and for each batch. It joins
//     the trace of the message's sender and links to it; a batch's is linked to every sender's. Events
//     tell when a message was renewed, completed, abandoned or dead_lettered. The handler's context
//     carries it, and so does what the handler sends to queues that propagate the trace context.
//   - Queue.Read (client), for each receive, and Queue.Send (producer), for each send: with Config.All.
//
// They carry queue.name, queue.message_id, queue.dequeue_count and queue.outcome, and the attributes of
// the messaging conventions; one that failed has an error status, and error.type. The metrics, with
// Config.Metrics, are messaging.client.sent.messages, messaging.client.consumed.messages,
// messaging.process.duration and messaging.client.operation.duration (sends, receives, settlements).
package telemetry
