package peer

import (
	"fmt"
	"os/exec"
	"syscall"
	"testing"
)

// The account that Azurite serves, with the key everybody knows.
const (
	AccountName = "devstoreaccount1"
	AccountKey  = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)

// An AzuriteServer is a running Azurite. It keeps its data on disk: a restart finds it again.
type AzuriteServer struct {
	script, location   string
	blob, queue, table string // host:port
	process            *Process
}

// Azurite starts Azurite and waits until it answers.
//
// It is a contract peer, not a load target: a delete takes longer the more messages the
// account holds, so keep it below 1,000.
func Azurite(t testing.TB) *AzuriteServer {
	t.Helper()
	script, err := azuriteScript()
	if err != nil {
		t.Fatalf("start azurite: %v", err)
	}
	a := &AzuriteServer{script: script, location: t.TempDir()}
	a.process, _ = Serve(t, "azurite", 3,
		func(addrs []string) *exec.Cmd {
			a.blob, a.queue, a.table = addrs[0], addrs[1], addrs[2]
			return a.command()
		},
		func([]string) string { return a.QueueURL() }, true)
	return a
}

func (a *AzuriteServer) command() *exec.Cmd {
	return exec.Command("node", a.script, "--silent", "--disableTelemetry",
		"--skipApiVersionCheck", // without it, Azurite refuses the SDK's newer API versions
		"--location", a.location,
		"--blobPort", port(a.blob), "--queuePort", port(a.queue), "--tablePort", port(a.table))
}

// BlobURL returns the account's blob endpoint.
func (a *AzuriteServer) BlobURL() string { return "http://" + a.blob + "/" + AccountName }

// QueueURL returns the account's queue endpoint.
func (a *AzuriteServer) QueueURL() string { return "http://" + a.queue + "/" + AccountName }

// TableURL returns the account's table endpoint.
func (a *AzuriteServer) TableURL() string { return "http://" + a.table + "/" + AccountName }

// ConnectionString signs in to the account with its key.
func (a *AzuriteServer) ConnectionString() string {
	return fmt.Sprintf("DefaultEndpointsProtocol=http;AccountName=%s;AccountKey=%s;BlobEndpoint=%s;QueueEndpoint=%s;TableEndpoint=%s;",
		AccountName, AccountKey, a.BlobURL(), a.QueueURL(), a.TableURL())
}

// Kill ends Azurite with SIGKILL: its ports refuse connections from then on.
func (a *AzuriteServer) Kill() { a.process.Kill() }

// Restart starts Azurite again after Kill, on the same ports and data, and waits until it answers.
func (a *AzuriteServer) Restart(t testing.TB) {
	t.Helper()
	a.process.Kill()
	a.process = Start(t, "azurite", a.command())
	if err := awaitHTTP(a.process, a.QueueURL(), true); err != nil {
		t.Fatalf("restart azurite: %v\n%s", err, a.process.Output())
	}
}

// Freeze stops Azurite with SIGSTOP: connections open, and nothing answers.
func (a *AzuriteServer) Freeze(t testing.TB) {
	t.Helper()
	a.process.Signal(t, syscall.SIGSTOP)
}

// Thaw lets a frozen Azurite run on.
func (a *AzuriteServer) Thaw(t testing.TB) {
	t.Helper()
	a.process.Signal(t, syscall.SIGCONT)
}
