// Package queue is the client for Azure Storage queues that qwatch is built on.
//
// It owns accounts and sign-in, the wire text (encoding and envelope), leases and
// pop receipts, depth, and the classification of storage failures. It is the only
// package that imports the Azure SDK's azqueue. Poison handling lives in package
// poison, the consume loop in package processor.
package queue
