// Package chart holds the tests of what the Helm chart renders and refuses, by Helm's own code within the test. It is a
// module of its own because of what it needs. What takes Helm the program, an API server or KEDA is in
// ../kubernetes, and run by `make e2e`.
//
// By hand run it with -count=1: the chart lies outside of the module, so that go test does not see when it changes.
package chart
