// Package kube holds the drills of the Helm chart against the real things: Helm, the types of Kubernetes, KEDA and the
// Prometheus operator, an API server, and the whole of KEDA with a real queue. It is a module of its own because
// of what it needs; `make e2e` runs it, and install.sh builds its peers.
//
// No kubelet runs here: objects are accepted and scaled, and no pod starts. What only a kubelet could show
// (helm test, probes, the mounted configuration) stays unproved.
package kube
