// Package metric holds the table of every metric qwatch exports – name, help, type,
// unit, labels, buckets and owner, as data – and the constructors of those that are
// counted here: the consumer's, the storage requests' and the process's own. The
// watcher's are built by package collector from the same table.
//
// Nothing is global: every constructor takes the registerer it registers with, and the
// table is returned, never shared.
package metric

//go:generate go test -run ^TestDocumentation$ . -update
