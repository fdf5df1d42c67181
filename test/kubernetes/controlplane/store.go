package main

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/server/v3/embed"
)

// adminToken is the credential of the one user there is. The server listens on the loopback interface alone.
const adminToken = "admin"

// store is the API server's folder and ports, and the etcd that runs inside this process.
type store struct {
	dir, port, clients, peers string
}

// prepare writes keys, tokens and the kubeconfig, and starts etcd.
func (s store) prepare() error {
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return err
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return fmt.Errorf("make the key that signs service account tokens: %w", err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return err
	}
	err = errors.Join(
		s.write("sa.key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})),
		s.write("sa.pub", pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})),
		s.write("tokens.csv", []byte(adminToken+",admin,1,system:masters\n")),
		s.write("kubeconfig", fmt.Appendf(nil, kubeconfig, s.port, adminToken)),
	)
	if err != nil {
		return err
	}
	return s.startEtcd()
}

const kubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:%s", insecure-skip-tls-verify: true}}]
users: [{name: u, user: {token: %s}}]
contexts: [{name: x, context: {cluster: c, user: u, namespace: default}}]
current-context: x
`

func (s store) write(name string, data []byte) error {
	return os.WriteFile(filepath.Join(s.dir, name), data, 0o600)
}

func (s store) startEtcd() error {
	clients := []url.URL{{Scheme: "http", Host: "127.0.0.1:" + s.clients}}
	peers := []url.URL{{Scheme: "http", Host: "127.0.0.1:" + s.peers}}
	cfg := embed.NewConfig()
	cfg.Dir = filepath.Join(s.dir, "etcd")
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = clients, clients
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = peers, peers
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.LogLevel = "error"
	cfg.UnsafeNoFsync = true
	etcd, err := embed.StartEtcd(cfg)
	if err != nil {
		return fmt.Errorf("start etcd: %w", err)
	}
	<-etcd.Server.ReadyNotify()
	return nil
}

func (s store) apiserverArgs() []string {
	in := func(name string) string { return filepath.Join(s.dir, name) }
	return []string{
		"--etcd-servers=http://127.0.0.1:" + s.clients,
		"--bind-address=127.0.0.1", "--secure-port=" + s.port, "--cert-dir=" + in("certs"),
		"--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none",
		"--service-cluster-ip-range=10.0.0.0/24",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + in("sa.pub"),
		"--service-account-signing-key-file=" + in("sa.key"),
		"--token-auth-file=" + in("tokens.csv"),
		"--authorization-mode=RBAC", "--disable-admission-plugins=ServiceAccount", "--allow-privileged=true",
	}
}
