// Command controlplane is the part of Kubernetes that the drills need, as one program: the API server with its
// own etcd, and kube-controller-manager with the controllers that follow a scale. There is no kubelet and no
// scheduler: objects are real, pods are not.
//
//	controlplane apiserver DIR PORT ETCD_PORT ETCD_PEER_PORT
//	controlplane controller-manager [kube-controller-manager's flags]
//
// The API server writes DIR/kubeconfig, listens on the loopback interface alone and ends on SIGTERM.
package main

import (
	"fmt"
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	manager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

const usage = `usage: controlplane apiserver DIR PORT ETCD_PORT ETCD_PEER_PORT
       controlplane controller-manager [FLAGS]`

func main() {
	os.Exit(run(os.Args[1:]))
}

func run(args []string) int {
	switch {
	case len(args) == 5 && args[0] == "apiserver":
		s := store{dir: args[1], port: args[2], clients: args[3], peers: args[4]}
		if err := s.prepare(); err != nil {
			fmt.Fprintln(os.Stderr, "controlplane:", err)
			return 1
		}
		cmd := apiserver.NewAPIServerCommand()
		cmd.SetArgs(s.apiserverArgs())
		return cli.Run(cmd)
	case len(args) > 0 && args[0] == "controller-manager":
		cmd := manager.NewControllerManagerCommand()
		cmd.SetArgs(args[1:])
		return cli.Run(cmd)
	default:
		fmt.Fprintln(os.Stderr, usage)
		return 2
	}
}
