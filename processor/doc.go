// Package processor consumes a queue: one receive loop hands messages to a [Handler], keeps their
// leases, and settles them by what the handler returned.
//
// It owns the loop, concurrency, lease renewal, retries, the error policy, dead-lettering by rule,
// and a shutdown that loses nothing. The wire text and the leases themselves are package queue's,
// the poison record is package poison's.
//
// A [Processor] is built once by [New], which checks everything, and lives as long as its Run(ctx).
// Delivery is at least once: a lease can lapse and a delete can fail after the work is done, so
// handlers must stand seeing a message twice.
package processor
