// Package poison owns what happens to messages that cannot be processed: the record of why, the
// move to the poison queue, the listing of what lies there, and its way back or out.
//
// A move copies first and deletes second, so that a crash in between leaves a second copy, never
// none. Copies of one message share the original's id in their record, by which every reader here
// takes them for one entry.
package poison
