package scaler_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/qwatch/qwatch/internal/scaler"
)

// pair makes a certificate that signs itself, and its key, both in PEM.
func pair(t *testing.T, name string) (cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{"qwatch"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}))
}

// shake lets a client and a server shake hands, and returns the name of the server's certificate.
func shake(t *testing.T, server, client *tls.Config) (string, error) {
	t.Helper()
	here, there := net.Pipe()
	defer here.Close()
	defer there.Close()
	s := tls.Server(there, server)
	done := make(chan error, 1)
	go func() { done <- s.Handshake() }()
	c := tls.Client(here, client)
	if err := c.Handshake(); err != nil {
		return "", err
	}
	if err := <-done; err != nil {
		return "", err
	}
	return c.ConnectionState().PeerCertificates[0].Subject.CommonName, nil
}

func TestTLSFilesAreFollowed(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		file := filepath.Join(folder, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	cert, key := pair(t, "first")
	var log bytes.Buffer
	files := scaler.TLSFiles{CertFile: write("c", cert), KeyFile: write("k", key), Logger: slog.New(slog.NewTextHandler(&log, nil))}
	config, err := files.Config()
	if err != nil {
		t.Fatal(err)
	}
	client := &tls.Config{InsecureSkipVerify: true, ServerName: "qwatch"} // the name is looked at
	if name, err := shake(t, config, client); err != nil || name != "first" {
		t.Errorf("%q, %v", name, err)
	}
	write("k", "spoilt ") // while the pair is being replaced, the one before stands
	if name, err := shake(t, config, client); err != nil || name != "first" {
		t.Errorf("with a key that is spoilt: %q, %v", name, err)
	}
	if _, err := shake(t, config, client); err != nil {
		t.Error(err)
	}
	if n := strings.Count(log.String(), "level=WARN"); n != 1 || !strings.Contains(log.String(), "the one before stands") {
		t.Errorf("%d warnings, want one:\n%s", n, &log)
	}
	cert, key = pair(t, "second one")
	write("c", cert)
	write("k", key)
	if name, err := shake(t, config, client); err != nil || name != "second one" {
		t.Errorf("after the change: %q, %v", name, err)
	}
}

func TestTLSDemandsTheClientsCertificate(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	names := map[string]string{}
	cert, key := pair(t, "server")
	clientCert, clientKey := pair(t, "keda")
	for name, text := range map[string]string{"c": cert, "k": key, "ca": clientCert, "none": "nothing"} {
		names[name] = filepath.Join(folder, name)
		if err := os.WriteFile(names[name], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config, err := scaler.TLSFiles{CertFile: names["c"], KeyFile: names["k"], ClientCAFile: names["ca"]}.Config()
	if err != nil {
		t.Fatal(err)
	}
	own := func(cert, key string) *tls.Config {
		t.Helper()
		p, err := tls.X509KeyPair([]byte(cert), []byte(key))
		if err != nil {
			t.Fatal(err)
		}
		// TLS 1.2: there the client learns of a refusal while it shakes hands.
		return &tls.Config{InsecureSkipVerify: true, ServerName: "qwatch", MaxVersion: tls.VersionTLS12, Certificates: []tls.Certificate{p}}
	}
	if name, err := shake(t, config, own(clientCert, clientKey)); err != nil || name != "server" {
		t.Errorf("%q, %v", name, err)
	}
	strangerCert, strangerKey := pair(t, "stranger")
	if _, err := shake(t, config, own(strangerCert, strangerKey)); err == nil {
		t.Error("a stranger's certificate is taken")
	}
	nobody := own(clientCert, clientKey)
	nobody.Certificates = nil
	if _, err := shake(t, config, nobody); err == nil {
		t.Error("no certificate is taken")
	}
	for what, files := range map[string]scaler.TLSFiles{
		"read certificate":         {CertFile: names["none"], KeyFile: names["k"]},
		"no such file":             {CertFile: names["c"], KeyFile: filepath.Join(folder, "gone")},
		"holds no certificate":     {CertFile: names["c"], KeyFile: names["k"], ClientCAFile: names["none"]},
		"the clients' authorities": {CertFile: names["c"], KeyFile: names["k"], ClientCAFile: filepath.Join(folder, "gone")},
	} {
		if _, err := files.Config(); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
