// Package cluster lets several replicas share the watching of a fleet: it says which of them watches a
// queue, and asks that one what another is asked.
//
// It owns the election of a leader, the shards and who of them is alive, and the asking between replicas.
// Polling is package collector's; what a question means, and its answer, are those of the packages that answer.
// Nothing here calls storage, and consumers have no part in it: they consume in every replica.
package cluster
