package forward_test

import (
	"bufio"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/qwatch/qwatch/internal/forward"
)

// dyingEnv makes the test binary a qwatch that is killed while its command runs.
const dyingEnv = "QWATCH_TEST_DYING"

// A command that outlived a killed qwatch would work on the message beside the next delivery of it.
func TestACommandDiesWithQwatch(t *testing.T) {
	if os.Getenv(dyingEnv) != "" {
		h, err := forward.Exec(forward.ExecConfig{Command: []string{"sh", "-c", "echo $$ >&3; exec sleep 60 3>&-"}, Timeout: time.Minute, Env: os.Environ()})
		if err != nil {
			t.Fatal(err)
		}
		deliver(t, h, options{body: "x"})
		return
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	parent := exec.Command(os.Args[0], "-test.run=^TestACommandDiesWithQwatch$")
	parent.Env = append(os.Environ(), dyingEnv+"=1")
	parent.ExtraFiles = []*os.File{w}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	for deadline := time.Now().Add(10 * time.Second); syscall.Kill(pid, 0) == nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			t.Fatal("the command lives on")
		}
	}
}
