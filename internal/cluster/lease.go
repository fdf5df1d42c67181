package cluster

import (
	"fmt"
	"os"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// namespaceFile is where Kubernetes tells a pod its namespace.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// LeaseConfig names a Lease of Kubernetes.
type LeaseConfig struct {
	// Namespace of the Lease. Default: the pod's, or the kubeconfig's.
	Namespace string
	// Name of the Lease. Required.
	Name string
	// Kubeconfig is a file that tells how to reach the API. Default: the pod's service account.
	Kubeconfig string
	// Timeout of one request. Default 5s.
	Timeout time.Duration
}

// NewLease returns what makes locks on a Lease, for LeaderConfig.Lock. It makes no request.
func NewLease(cfg LeaseConfig) (func(identity string) resourcelock.Interface, error) {
	conf, namespace, err := reach(cfg.Kubeconfig)
	if err != nil {
		return nil, err
	}
	if cfg.Namespace != "" {
		namespace = cfg.Namespace
	}
	if namespace == "" {
		return nil, fmt.Errorf("the namespace of lease %s is not known", cfg.Name)
	}
	conf.Timeout = cfg.Timeout
	if conf.Timeout == 0 {
		conf.Timeout = 5 * time.Second
	}
	conf.UserAgent, conf.WarningHandler = "qwatch", rest.NoWarnings{}
	conf.ContentType, conf.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	client, err := coordination.NewForConfig(conf)
	if err != nil {
		return nil, fmt.Errorf("reach the Kubernetes API: %w", err)
	}
	return func(identity string) resourcelock.Interface {
		return &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: cfg.Name},
			Client:     client,
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		}
	}, nil
}

// reach returns how to talk to the API, and the namespace that goes with that.
func reach(kubeconfig string) (*rest.Config, string, error) {
	if kubeconfig == "" {
		conf, err := rest.InClusterConfig()
		if err != nil {
			return nil, "", fmt.Errorf("this is not a pod with a service account: %w", err)
		}
		namespace, _ := os.ReadFile(namespaceFile) // absent: it must be named
		return conf, strings.TrimSpace(string(namespace)), nil
	}
	loaded := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: kubeconfig}, &clientcmd.ConfigOverrides{})
	conf, err := loaded.ClientConfig()
	if err != nil {
		return nil, "", fmt.Errorf("read kubeconfig: %w", err)
	}
	namespace, _, err := loaded.Namespace()
	if err != nil {
		return nil, "", fmt.Errorf("read kubeconfig: %w", err)
	}
	return conf, namespace, nil
}
