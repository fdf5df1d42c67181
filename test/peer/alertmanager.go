package peer

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// An AlertmanagerServer is a running Alertmanager, Debian's 0.25.
type AlertmanagerServer struct {
	address string
}

// Alertmanager starts Alertmanager, without a cluster, on the given configuration file's
// text and waits until it is ready.
func Alertmanager(t testing.TB, config string) *AlertmanagerServer {
	t.Helper()
	program, err := debian("prometheus-alertmanager")
	if err != nil {
		t.Fatalf("start alertmanager: %v", err)
	}
	folder := t.TempDir()
	file := filepath.Join(folder, "alertmanager.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	_, addrs := Serve(t, "alertmanager", 1,
		func(addrs []string) *exec.Cmd {
			cmd := exec.Command(program, "--config.file="+file, "--storage.path="+filepath.Join(folder, "data"),
				"--web.listen-address="+addrs[0], "--cluster.listen-address=", "--log.level=warn")
			cmd.Dir = filepath.Join(filepath.Dir(program), "..", "..") // its templates' path is relative: install.sh
			return cmd
		},
		func(addrs []string) string { return "http://" + addrs[0] + "/-/ready" }, false)
	return &AlertmanagerServer{address: addrs[0]}
}

// URL returns where it serves.
func (a *AlertmanagerServer) URL() string { return "http://" + a.address }
