package web_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/qwatch/qwatch/internal/web"
)

// authority signs certificates of a test and writes them as files.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	template := certificate(name)
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	a.key = a.write("ca", template, template, nil)
	a.cert = a.read("ca")
	return a
}

func certificate(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		DNSNames: []string{name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
}

// write signs a certificate, by itself when the authority has no key yet, and writes it and its key.
func (a *authority) write(file string, template, parent *x509.Certificate, by *ecdsa.PrivateKey) *ecdsa.PrivateKey {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	if by == nil {
		by = key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), by)
	if err != nil {
		a.t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{file + ".crt": {Type: "CERTIFICATE", Bytes: der}, file + ".key": {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(filepath.Join(a.dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
	return key
}

func (a *authority) read(file string) *x509.Certificate {
	a.t.Helper()
	text, err := os.ReadFile(filepath.Join(a.dir, file+".crt"))
	if err != nil {
		a.t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert
}

// sign makes a certificate for a name and returns it as a client holds it.
func (a *authority) sign(name string) tls.Certificate {
	a.t.Helper()
	a.write(name, certificate(name), a.cert, a.key)
	pair, err := tls.LoadX509KeyPair(filepath.Join(a.dir, name+".crt"), filepath.Join(a.dir, name+".key"))
	if err != nil {
		a.t.Fatal(err)
	}
	return pair
}

// protected serves a handler with a web configuration and returns its host and port.
func protected(t *testing.T, config, text string) string {
	t.Helper()
	return protect(t, config, text, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "inside") }))
}

func protect(t *testing.T, config, text string, h http.Handler) string {
	t.Helper()
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := web.CheckWebConfig(config); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := web.NewServer(h, nil)
	done := make(chan error, 1)
	go func() { done <- web.Serve(server, l, config, nil) }()
	t.Cleanup(func() {
		if err := server.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("serve: %v", err)
		}
	})
	return l.Addr().String()
}

// visit asks for a page and returns its status; 0 when there is none.
func visit(t *testing.T, url string, config *tls.Config, user, password string) (status int, text string, err error) {
	t.Helper()
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	defer client.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if user != "" {
		r.SetBasicAuth(user, password)
	}
	resp, err := client.Do(r)
	if err != nil {
		return 0, "", err
	}
	return resp.StatusCode, body(t, resp), resp.Body.Close()
}

func TestClientCertificatesAreDemandedAndChecked(t *testing.T) {
	t.Parallel()
	ours, theirs := newAuthority(t, "ours"), newAuthority(t, "theirs")
	ours.sign("server")
	address := protected(t, filepath.Join(ours.dir, "web.yaml"), `
tls_server_config: {cert_file: server.crt, key_file: server.key, client_ca_file: ca.crt, client_auth_type: RequireAndVerifyClientCert}
`)
	roots := x509.NewCertPool()
	roots.AddCert(ours.cert)
	for name, tt := range map[string]struct {
		url      string
		certs    []tls.Certificate
		min, max uint16
		works    bool
	}{
		"a client with a certificate of ours":    {certs: []tls.Certificate{ours.sign("grafana")}, works: true},
		"a client without a certificate":         {},
		"a client with another authority's":      {certs: []tls.Certificate{theirs.sign("grafana")}},
		"a client that speaks no TLS":            {url: "http://"},
		"a client that speaks only an old TLS":   {certs: []tls.Certificate{ours.sign("old")}, min: tls.VersionTLS10, max: tls.VersionTLS11},
		"a client that speaks the newest of TLS": {certs: []tls.Certificate{ours.sign("new")}, min: tls.VersionTLS13, works: true},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.url == "" {
				tt.url = "https://"
			}
			status, text, err := visit(t, tt.url+address+"/", &tls.Config{RootCAs: roots, Certificates: tt.certs, MinVersion: tt.min, MaxVersion: tt.max}, "", "")
			if works := err == nil && status == 200; works != tt.works || strings.Contains(text, "inside") != tt.works {
				t.Errorf("answered %d %q, %v; want it to work: %v", status, text, err, tt.works)
			}
		})
	}

	t.Run("a certificate that was renewed is served without a restart", func(t *testing.T) {
		before := ours.read("server").SerialNumber
		ours.sign("server")
		var seen *big.Int
		config := &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{ours.sign("late")}, VerifyConnection: func(s tls.ConnectionState) error {
			seen = s.PeerCertificates[0].SerialNumber
			return nil
		}}
		if status, _, err := visit(t, "https://"+address+"/", config, "", ""); status != 200 || seen.Cmp(before) == 0 {
			t.Errorf("answered %d, %v, with certificate %v, which was replaced", status, err, seen)
		}
	})
}

func TestPasswordsAreAskedForAndReadAgain(t *testing.T) {
	t.Parallel()
	config := filepath.Join(t.TempDir(), "web.yaml")
	users := func(password string) string {
		hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
		if err != nil {
			t.Fatal(err)
		}
		return "basic_auth_users: {ann: " + string(hash) + "}\n"
	}
	address := protected(t, config, users("first"))
	expect := func(user, password string, want int) {
		t.Helper()
		if status, _, err := visit(t, "http://"+address+"/", nil, user, password); status != want {
			t.Errorf("%s with password %q: %d, %v, want %d", user, password, status, err, want)
		}
	}
	expect("ann", "first", 200)
	expect("ann", "wrong", 401)
	expect("bob", "first", 401)
	expect("", "", 401)
	if err := os.WriteFile(config, []byte(users("second")), 0o600); err != nil {
		t.Fatal(err)
	}
	expect("ann", "first", 401)
	expect("ann", "second", 200)
}

func TestAWebConfigurationThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, tt := range map[string]struct{ text, part string }{
		"a key that does not exist":         {"basic_auth_users:\n  ann: SECRET\nsecret: SECRET\n", "line 3: it is not a web configuration"},
		"certificates that are not there":   {"tls_server_config: {cert_file: a.crt, key_file: a.key}\n", "a.crt"},
		"authorities without a policy":      {"tls_server_config: {cert_file: a.crt}\n", "missing one of key or key_file"},
		"a password that is not a hash":     {"basic_auth_users: {ann: SECRET-SECRET}\n", "hash"},
		"text that is no YAML":              {"a: [SECRET\n", "line 1: it is not a web configuration"},
		"a policy for clients nobody knows": {"tls_server_config: {cert: x, key: y, client_auth_type: SECRET}\n", "X509KeyPair"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, "web.yaml")
			if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			err := web.CheckWebConfig(path)
			if err == nil || !strings.Contains(err.Error(), tt.part) || strings.Contains(err.Error(), "SECRET") {
				t.Errorf("error %v, want one with %q and nothing of the file", err, tt.part)
			}
		})
	}
}

func TestTheListenerSaysOnlyWhatGoesWrong(t *testing.T) {
	t.Parallel()
	config := filepath.Join(t.TempDir(), "web.yaml")
	if err := os.WriteFile(config, []byte("http_server_config: {http2: false}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	server := web.NewServer(http.NotFoundHandler(), nil)
	done := make(chan error, 1)
	go func() { done <- web.Serve(server, l, config, slog.New(slog.NewTextHandler(&log, nil))) }()
	if status, _, err := visit(t, "http://"+l.Addr().String(), nil, "", ""); status != 404 {
		t.Errorf("answered %d, %v", status, err)
	}
	if err := server.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-done; !errors.Is(err, http.ErrServerClosed) || log.Len() > 0 {
		t.Errorf("serve: %v; it said %s", err, &log)
	}
}
