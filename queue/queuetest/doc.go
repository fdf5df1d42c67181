// Package queuetest is an in-process Azure Queue service. It speaks the Queue REST
// protocol strictly: visibility, dequeue counts, time to live, pop receipts, limits,
// error codes, signatures and XML, with a clock of its own and fault injection.
//
// A [Server] is both a policy.Transporter, for clients that need no socket (and so run
// inside testing/synctest), and an http.Handler, for those that want one. It starts no
// goroutine, sleeps only to carry out an injected delay or hang, and never imports
// package testing, so that the demo and the emulator command can use it too.
//
// What it leaves out: CORS, logging and analytics settings, user delegation keys, and
// geo-replication. Where the service's documentation is silent the choices are:
//
//   - Messages come in order of the time they became visible, and within the same time in
//     the order in which they were sent, received or given back.
//   - Each message of a batch has its own pop receipt.
//   - An expired message counts in x-ms-approximate-messages-count until a receive or a
//     peek comes across it; by id it is gone at once.
//   - Text keeps every character: a carriage return is written as &#xD;, because a raw
//     one would be read as a line feed. A raw carriage return in a request is read as a
//     line feed, as XML demands.
//   - Bodies start with a byte order mark, as the service's do.
//   - Over a socket, net/http loses the case of metadata names; they are kept in lower case.
package queuetest
