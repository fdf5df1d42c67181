// Package test proves qwatch against real programs: the built binary as users run it, real
// Azurite, real Prometheus. It is a module of its own, so that what only tests need
// never becomes a dependency of the program. Package peer starts the programs.
package test
