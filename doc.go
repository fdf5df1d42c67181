// Package qwatch is the root of the module and holds no code. The program is
// cmd/qwatch; as a library, start with package queue for accounts and messages,
// processor for the consume loop, collector for watching queues and health for probes.
package qwatch
