//go:build drill

package test_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/qwatch/qwatch/test/peer"
)

// The main listener wants a certificate and a password: KEDA's metrics-api scaler gets in with the trigger that `qwatch keda
// generate` makes of the web configuration, and with nothing less.
func TestDrillKEDASignsInToTheAPI(t *testing.T) {
	client := kedaClient(t)
	azurite := peer.Azurite(t)
	send(t, createQueue(t, openAccount(t, azurite), "orders"), bodies("order", 3, marker))
	ca, dir := peer.NewAuthority(t), t.TempDir()
	server, serverKey := ca.Issue(t)
	// let-keda-in
	const web = `tls_server_config: {cert_file: cert.pem, key_file: key.pem, client_ca_file: ca.pem, client_auth_type: RequireAndVerifyClientCert}
basic_auth_users: {keda: $2a$04$FbxB5geh.INDKm21Cd1jZOmubKzViTWNZhkExrPHa.CoFolYHcQXe}
`
	for name, text := range map[string]string{"ca.pem": ca.PEM, "cert.pem": server, "key.pem": serverKey, "web.yaml": web} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	env := "ORDERS_CONNECTION_STRING=" + azurite.ConnectionString()
	s := serveWith(t, scaledConfig, fmt.Sprintf("webConfigFile: %q", filepath.Join(dir, "web.yaml")), env)
	r := run(t, []string{env}, "keda", "generate", "-c", s.config, "orders/orders", "--scaler", "metrics-api", "--strategy", "all", "--address", strings.TrimPrefix(s.main, "http://"))
	if r.status != 0 || strings.Contains(r.stderr, "webConfigFile") {
		t.Fatalf("status %d\n%s", r.status, r.stderr)
	}
	cert, key := ca.Issue(t)
	all := map[string]string{"ca": ca.PEM, "cert": cert, "key": key, "username": "keda", "password": "let-keda-in"}
	for parameter := range all {
		if !strings.Contains(r.stdout, "parameter: "+parameter+"\n") {
			t.Errorf("the TriggerAuthentication lacks %s:\n%s", parameter, r.stdout)
		}
	}
	good := kedaTrigger{Type: "metrics-api", Metadata: triggerMetadata(r.stdout), Auth: all}
	wrong, basic, anonymous := good, good, good
	wrong.Auth = maps.Clone(all)
	wrong.Auth["password"] = "let-me-in"
	basic.Metadata, anonymous.Metadata = maps.Clone(good.Metadata), maps.Clone(good.Metadata)
	basic.Metadata["authMode"] = "basic"
	delete(anonymous.Metadata, "authMode")
	ask := func() []kedaResult { return askKEDA(t, client, good, wrong, basic, anonymous) }
	results := ask()
	eventually(t, 20*time.Second, "the queue has been polled", func() bool { results = ask(); return results[0].Error == "" })
	for i, r := range results {
		if ok := i == 0; ok != (r.Error == "" && r.Value == 3 && r.Active) {
			t.Errorf("%d: %+v", i, r)
		}
		if strings.Contains(r.Error, "let-") {
			t.Errorf("%d: a password is in the error", i)
		}
	}
}

// triggerMetadata is the metadata of the one trigger of generated objects.
func triggerMetadata(objects string) map[string]string {
	_, triggers, _ := strings.Cut(objects, "\n  triggers:\n")
	out := map[string]string{}
	for line := range strings.Lines(triggers) {
		if field, ok := strings.CutPrefix(line, "        "); ok {
			k, v, _ := strings.Cut(strings.TrimSpace(field), ": ")
			out[k] = strings.Trim(v, `"`)
		}
	}
	return out
}
