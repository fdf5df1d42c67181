// Package dedup does the work of a business key once, however often its message is delivered.
//
// A queue delivers at least once: a worker that dies after its work is committed and before its
// message is deleted leaves the message to the next one. [Middleware] takes a key from the message
// that names the business operation, and has a [Store] remember which keys are done, together with
// what the handler did and, if it wants, with a result. A message whose key is done is completed
// without calling the handler.
//
// What can be promised depends on where the effect lies:
//
//	store         effect                                        promise
//	SQL           written through Tx                            exactly once
//	SQL           anywhere else                                 at least once
//	Tables        added to Batch, in the key's partition        once
//	Tables        anywhere else                                 at least once
//	Memory        anywhere                                      for tests only: it forgets with the process
//
// "At least once" is narrower than without this package: the effect is repeated only when a worker
// dies, or loses its claim, between the effect and the record of it.
//
// With [SQL], the key is a row that the handler's own transaction inserts: a second worker waits for
// the first one's transaction, and a worker that dies takes its transaction along. With [Tables], the
// key is an entity that is claimed for a lease, which is renewed while the handler runs: a worker
// that dies blocks the key until its lease has lapsed, by the service's clock.
//
// A message whose key another worker has in hand is retried when that worker's claim can lapse, and
// on its last attempt waits instead, so that waiting alone never sends it to the poison queue.
//
// Business keys are kept by the stores, and appear in no log, metric or error.
//
// Keys must be kept for as long as a message of theirs can come again: its time on the queue, and its
// time on the poison queue, from which a message that was committed may still be replayed. Purge
// removes older ones.
package dedup
