package forward

import (
	"os/exec"
	"runtime"
	"syscall"
)

// dieWithUs has the kernel kill a command when this process dies without the time to do it. The kernel
// watches the thread that starts the command, so the goroutine keeps its thread until undo. What the
// command itself has started is not reached.
func dieWithUs(cmd *exec.Cmd) (undo func()) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	runtime.LockOSThread()
	return runtime.UnlockOSThread
}
