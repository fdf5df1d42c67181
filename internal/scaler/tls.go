package scaler

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"
)

// TLSFiles are the PEM files of a TLS server. They are read again when they change.
type TLSFiles struct {
	CertFile, KeyFile string
	// ClientCAFile demands client certificates signed by one of its authorities. "": any client.
	ClientCAFile string
	// Logger gets a warning when what was read before stands, once for each change of the files. Nil discards.
	Logger *slog.Logger
}

// Config reads the files and returns the configuration that follows them. While a changed file cannot be
// read, what was read before stands.
func (f TLSFiles) Config() (*tls.Config, error) {
	l := &tlsLoader{files: f}
	if _, err := l.current(); err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return l.current()
		},
	}, nil
}

type tlsLoader struct {
	files TLSFiles

	mu     sync.Mutex
	config *tls.Config
	stamp  string
	spoilt string // the stamp of what could not be read, and was told of
}

func (l *tlsLoader) current() (*tls.Config, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	stamp := l.files.stamp()
	if l.config != nil && stamp == l.stamp {
		return l.config, nil
	}
	c, err := l.files.load()
	if err != nil {
		if l.config != nil {
			if l.files.Logger != nil && l.spoilt != stamp {
				l.files.Logger.Warn("the certificate cannot be read again; the one before stands", "component", "grpc", "error", err)
			}
			l.spoilt = stamp
			return l.config, nil // a file is being replaced, or was spoilt
		}
		return nil, err
	}
	l.config, l.stamp = c, stamp
	return c, nil
}

// stamp changes when a file does.
func (f TLSFiles) stamp() string {
	stamp := make([]string, 0, 3)
	for _, name := range []string{f.CertFile, f.KeyFile, f.ClientCAFile} {
		if info, err := os.Stat(name); err == nil {
			stamp = append(stamp, fmt.Sprint(info.ModTime().Format(time.RFC3339Nano), " ", info.Size()))
		}
	}
	return strings.Join(stamp, ";")
}

func (f TLSFiles) load() (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(f.CertFile, f.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("read certificate %s and key %s: %w", f.CertFile, f.KeyFile, err)
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2"}}
	if f.ClientCAFile == "" {
		return c, nil
	}
	text, err := os.ReadFile(f.ClientCAFile)
	if err != nil {
		return nil, fmt.Errorf("read the clients' authorities: %w", err)
	}
	c.ClientCAs, c.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
	if !c.ClientCAs.AppendCertsFromPEM(text) {
		return nil, errors.New("read the clients' authorities: " + f.ClientCAFile + " holds no certificate in PEM")
	}
	return c, nil
}
