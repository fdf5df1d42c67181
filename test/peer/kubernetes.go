package peer

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// APIServer starts Kubernetes' API server with its own etcd, and returns a kubeconfig for it. Nothing runs pods. It
// comes from test/kubernetes/install.sh.
func APIServer(t testing.TB) (kubeconfig string) {
	t.Helper()
	program, err := locate("kubernetes", "controlplane")
	if err != nil {
		t.Fatalf("find the API server: %v: test/kubernetes/install.sh builds it", err)
	}
	dir := t.TempDir()
	addrs := FreeAddresses(t, 3)
	p := Start(t, "kube-apiserver", exec.Command(program, "apiserver", dir, port(addrs[0]), port(addrs[1]), port(addrs[2])))
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	var last error
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		select {
		case <-p.done:
			t.Fatalf("kube-apiserver exited")
		default:
		}
		if last = ready(t.Context(), &client, "https://127.0.0.1:"+port(addrs[0])+"/readyz"); last == nil {
			return filepath.Join(dir, "kubeconfig")
		}
	}
	t.Fatalf("kube-apiserver is not ready: %v", last)
	return ""
}

func ready(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer admin") // of the control plane's own making
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	if err := resp.Body.Close(); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %s", resp.Status)
	}
	return nil
}
