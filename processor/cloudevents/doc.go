// Package cloudevents handles queue messages that are events: CloudEvents 1.0 in structured JSON, and
// Event Grid's own schema, told apart by their shape.
//
// [Handler] gives events of one type of data to a function, [NewRouter] events of several types to one
// function each. What comes out is a processor.Handler, with all that a processor does: return nil to
// complete, an error to retry. It owns reading and checking events; the queue's encoding, compression
// and serializer are package queue's. Event Grid writes Base64 to storage queues unless its subscription
// says otherwise: consume such a queue with queue.EncodingBase64 or queue.EncodingAuto.
//
// A message usually holds one event. One that holds a JSON array of them, the CloudEvents batch format,
// is read as a whole first: one event in it that cannot be read or routed sends the message to the
// poison queue with no event handled. Then every event is handled, one after another in the array's
// order, whatever became of those before; an empty array completes. The message is settled once, by
// the errors of all: if one of them is retried, all are handled again, so that handlers must stand
// events they have seen.
package cloudevents
