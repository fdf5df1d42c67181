package peer

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A PostgresServer is a running PostgreSQL, Debian's 15, with an empty database.
type PostgresServer struct {
	tree, data string
	address    string
}

// nobody is the user that PostgreSQL runs as when the tests are root's, whom it refuses.
const nobody = 65534

// Postgres starts PostgreSQL on a loopback address and waits until it accepts connections.
func Postgres(t testing.TB) *PostgresServer {
	t.Helper()
	tree, err := locate("postgres-15")
	if err != nil {
		t.Fatalf("start postgres: %v", err)
	}
	// Not below t.TempDir, which only its owner may enter.
	folder, err := os.MkdirTemp("", "qwatch-postgres-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
	})
	p := &PostgresServer{tree: tree, data: filepath.Join(folder, "data")}
	if os.Getuid() == 0 {
		// Neither may it enter the cache, below root's home.
		p.tree = filepath.Join(folder, "tree")
		err = errors.Join(linkTree(tree, p.tree), os.Mkdir(p.data, 0o700), os.Chown(p.data, nobody, nobody), os.Chmod(folder, 0o711))
		if err != nil {
			t.Fatal(err)
		}
	}
	if out, err := p.command("initdb", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--no-locale", "--no-sync").CombinedOutput(); err != nil {
		t.Fatalf("start postgres: initdb: %v\n%s", err, out)
	}
	p.start(t)
	return p
}

// DSN is where it serves, as drivers take it.
func (p *PostgresServer) DSN() string {
	return "postgres://postgres@" + p.address + "/postgres?sslmode=disable"
}

func (p *PostgresServer) command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(p.tree, "usr", "lib", "postgresql", "15", "bin", program), append([]string{"-D", p.data}, args...)...)
	cmd.Env = []string{"LD_LIBRARY_PATH=" + filepath.Join(p.tree, "lib"), "LC_ALL=C", "PATH=" + os.Getenv("PATH")}
	cmd.Dir = filepath.Dir(p.data)
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	return cmd
}

func (p *PostgresServer) start(t testing.TB) {
	t.Helper()
	for try := 1; ; try++ {
		p.address = FreeAddresses(t, 1)[0]
		process := Start(t, "postgres", p.command("postgres", "-p", port(p.address),
			"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=",
			"-c", "fsync=off", // only the workers are killed, never the machine
			"-c", "shared_buffers=16MB", "-c", "dynamic_shared_memory_type=mmap", "-c", "max_connections=60"))
		err := awaitLine(process, "database system is ready to accept connections")
		if err == nil {
			t.Cleanup(func() { // its own processes end with it, and none writes below the folder any more
				process.Signal(t, syscall.SIGQUIT)
				process.Wait(t, 10*time.Second)
			})
			return
		}
		process.Kill()
		if try == tries || !errors.Is(err, errExited) {
			t.Fatalf("start postgres: %v\n%s", err, process.Output())
		}
	}
}

// awaitLine returns nil once the process has said it on its standard error.
func awaitLine(p *Process, line string) error {
	for deadline := time.Now().Add(readyWithin); time.Now().Before(deadline); {
		if strings.Contains(p.Stderr(), line) {
			return nil
		}
		select {
		case <-p.done:
			return errExited
		case <-time.After(20 * time.Millisecond):
		}
	}
	return fmt.Errorf("it did not say %q within %v", line, readyWithin)
}

// linkTree makes a second tree of the same files, by links where the file system allows it.
func linkTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, relative)
		switch {
		case d.IsDir():
			return errors.Join(os.Mkdir(target, 0o755), os.Chmod(target, 0o755)) // whatever the umask
		case d.Type()&fs.ModeSymlink != 0:
			points, err := os.Readlink(path)
			if err != nil {
				return err
			}
			return os.Symlink(points, target)
		}
		if os.Link(path, target) == nil {
			return nil
		}
		return copyFile(path, target)
	})
}

func copyFile(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
