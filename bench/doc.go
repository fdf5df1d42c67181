// Package bench measures what qwatch's consumer costs beside a loop written by hand on the raw SDK.
//
// Only its tests hold code. Run it with "make bench"; docs/performance.md explains the figures.
package bench
