package main

import (
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/qwatch/qwatch/internal/config"
	"github.com/qwatch/qwatch/internal/scaler/manifest"
)

// listenerAsks is what a web configuration demands of those who ask the main listener.
type listenerAsks struct {
	tls, certificate, password bool
}

// readWebConfig reads a web configuration of the exporter toolkit; ok is false for one that cannot be read here.
func readWebConfig(path string) (asks listenerAsks, ok bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return listenerAsks{}, false
	}
	var c struct {
		TLS   map[string]any    `yaml:"tls_server_config"`
		Users map[string]string `yaml:"basic_auth_users"`
	}
	if yaml.Unmarshal(text, &c) != nil {
		return listenerAsks{}, false
	}
	asks = listenerAsks{tls: len(c.TLS) > 0, password: len(c.Users) > 0}
	switch c.TLS["client_auth_type"] {
	case "RequireAnyClientCert", "RequireAndVerifyClientCert":
		asks.certificate = true
	}
	return asks, true
}

// auth is how KEDA has to sign in for that.
func (a listenerAsks) auth() string {
	var ways []string
	if a.certificate {
		ways = append(ways, manifest.AuthTLS)
	}
	if a.password {
		ways = append(ways, manifest.AuthBasic)
	}
	if ways == nil {
		return manifest.AuthNone
	}
	return strings.Join(ways, ",")
}

// kedaAuth fills in how KEDA's metrics-api scaler asks the main listener, where the flags do not say, and warns of what
// will be refused.
func (c *cli) kedaAuth(o *manifest.Options, cfg *config.Config) {
	file := cfg.Server.WebConfigFile
	if o.Scaler != manifest.ScalerAPI || file == "" {
		return
	}
	at := cfg.At("server.webConfigFile")
	asks, ok := readWebConfig(file)
	if !ok {
		if o.Auth == "" || o.Auth == manifest.AuthNone {
			c.warn(at + ": it cannot be read here, and the API may ask for TLS or a password: say with --auth")
		}
		return
	}
	o.Scheme = "http"
	if asks.tls {
		o.Scheme = "https"
	}
	needs := asks.auth()
	if o.Auth == "" {
		o.Auth = needs
	}
	ways := strings.Split(o.Auth, ",")
	for way := range strings.SplitSeq(needs, ",") {
		if way != manifest.AuthNone && !slices.Contains(ways, way) {
			c.warn(at + ": the listener asks for " + needs + ", and with --auth " + o.Auth + " it will refuse KEDA")
			break
		}
	}
	if asks.password && !asks.tls {
		c.warn(at + ": without tls_server_config the password crosses the network in plain text")
	}
}
