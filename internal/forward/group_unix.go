//go:build unix

package forward

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// ownGroup runs a command in a process group of its own, which is killed as a whole: what a shell
// started ends with it, and a terminal's Ctrl-C, meant for qwatch, does not reach it.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		if errors.Is(err, syscall.ESRCH) {
			return os.ErrProcessDone
		}
		return err
	}
}
