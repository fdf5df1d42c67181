// Package failures keeps an inspection record of every message that was dead-lettered: what a person
// needs to find out why, beyond what the poison copy has room for.
//
// A record holds the business key, the category and reason, the chain of errors, a panic's stack, every
// failed attempt whichever process made it, and, by choice, a readable copy of the body. There is one
// record for each source queue and message id, however many copies a crash left on the poison queue.
// [Tables] keeps them in a table beside the poison queue.
//
// A [Recorder] listens to a processor and writes to a [Store]. It never fails and never waits long: a
// record that cannot be written is logged and given up, and the message goes to the poison queue all the
// same.
package failures
