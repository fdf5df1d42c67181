package forward

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/qwatch/qwatch/processor"
)

const (
	// exDataErr is EX_DATAERR of sysexits.h: the input is wrong, and will be the next time.
	exDataErr = 65
	// pipeDelay is how long a command that has ended may keep its standard error open, by children it
	// left behind.
	pipeDelay = time.Second
)

// ExecConfig describes a command handler.
type ExecConfig struct {
	// Command and its arguments. A name without a slash is looked up in PATH at each call. Required.
	Command []string
	// Dir the command runs in, and a relative Command is found from. Default: the process's.
	Dir string
	// Timeout of one call; then the command's process group is killed. Default 30 s.
	Timeout time.Duration
	// Env of the command, to which the facts about the message are added. Default: the process's,
	// when Exec is called.
	Env []string
}

// ExecHandler runs a command for each message. It is safe for concurrent use.
type ExecHandler struct {
	command []string
	dir     string
	timeout time.Duration
	env     []string
}

// Exec returns a handler that runs a command for each message, in a process group of its own, with the
// body on standard input and the facts about the message as QWATCH_ variables. Exit status 0
// completes, 65 dead-letters, anything else retries; the first line of standard error is the reason.
// A command that cannot be started is processor.Unavailable, so that it may be installed later; one
// that takes too long is context.DeadlineExceeded. The error joins every fault of the configuration.
func Exec(cfg ExecConfig) (*ExecHandler, error) {
	var errs []error
	if len(cfg.Command) == 0 || cfg.Command[0] == "" {
		errs = append(errs, errors.New("the handler's command is empty"))
	}
	for i, arg := range cfg.Command {
		if strings.ContainsRune(arg, 0) {
			errs = append(errs, fmt.Errorf("argument %d of the handler's command has a NUL character", i))
		}
	}
	if cfg.Timeout < 0 {
		errs = append(errs, fmt.Errorf("the handler's timeout %v is negative", cfg.Timeout))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = defaultTimeout
	}
	if cfg.Env == nil {
		cfg.Env = os.Environ()
	}
	h := &ExecHandler{command: append([]string(nil), cfg.Command...), dir: cfg.Dir, timeout: cfg.Timeout}
	for _, v := range cfg.Env {
		if !aboutMessage(v) {
			h.env = append(h.env, v)
		}
	}
	return h, nil
}

// aboutMessage says whether a variable would be taken for a fact about the message.
func aboutMessage(variable string) bool {
	name, _, _ := strings.Cut(variable, "=")
	switch name {
	case "QWATCH_ACCOUNT", "QWATCH_QUEUE", "QWATCH_MESSAGE_ID", "QWATCH_DEQUEUE_COUNT", "QWATCH_LAST_ATTEMPT", "QWATCH_INSERTED_AT",
		"QWATCH_CONTENT_TYPE", "QWATCH_TRACEPARENT", "QWATCH_TRACESTATE", "TRACEPARENT", "TRACESTATE":
		return true
	}
	return strings.HasPrefix(name, "QWATCH_HEADER_")
}

// Handle implements processor.Handler.
func (h *ExecHandler) Handle(ctx context.Context, m *processor.Message) error {
	call, cancel := context.WithTimeout(ctx, h.timeout)
	defer cancel()
	cmd := exec.CommandContext(call, h.command[0], h.command[1:]...)
	var line firstLine
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stderr = h.dir, h.environment(ctx, m), bytes.NewReader(m.Body), &line
	cmd.WaitDelay = pipeDelay
	ownGroup(cmd)
	defer dieWithUs(cmd)()
	if err := cmd.Start(); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("run %s: %w", h.command[0], context.Cause(ctx))
		}
		failed := &saidError{fmt.Sprintf("start %s: %s", h.command[0], whyNotStarted(err)), err}
		if errors.Is(err, syscall.E2BIG) {
			return failed // the message's headers are too large for an environment
		}
		return processor.Unavailable(failed)
	}
	_ = cmd.Wait() // the process's state tells more than its errors
	state := cmd.ProcessState
	switch {
	case state != nil && state.Success():
		return nil
	case state != nil && state.ExitCode() == exDataErr:
		return processor.Permanent(line.reason(state))
	case ctx.Err() != nil:
		return fmt.Errorf("run %s: %w", h.command[0], context.Cause(ctx))
	case call.Err() != nil:
		return &saidError{fmt.Sprintf("%s did not end within %v", h.command[0], h.timeout), context.DeadlineExceeded}
	default:
		return line.reason(state)
	}
}

func whyNotStarted(err error) string {
	var errno syscall.Errno
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return "command not found in PATH"
	case errors.Is(err, exec.ErrDot):
		return "found in the current directory alone, which PATH does not count; write ./ before it"
	case errors.Is(err, fs.ErrNotExist):
		return "no such command or directory"
	case errors.Is(err, fs.ErrPermission):
		return "permission denied"
	case errors.As(err, &errno):
		return errno.Error()
	default:
		return "it cannot be run"
	}
}

// environment adds the facts about a message to the command's environment.
func (h *ExecHandler) environment(ctx context.Context, m *processor.Message) []string {
	q := m.Queue()
	env := append(h.env[:len(h.env):len(h.env)],
		"QWATCH_ACCOUNT="+withoutNUL(q.Account().Name()),
		"QWATCH_QUEUE="+q.Name(),
		"QWATCH_MESSAGE_ID="+withoutNUL(m.ID),
		"QWATCH_DEQUEUE_COUNT="+strconv.Itoa(m.DequeueCount),
		"QWATCH_LAST_ATTEMPT="+strconv.FormatBool(m.LastAttempt()),
		"QWATCH_INSERTED_AT="+m.InsertedAt.UTC().Format(time.RFC3339),
		"QWATCH_CONTENT_TYPE="+contentType(m),
	)
	if t := traceOf(ctx, m); t.Parent != "" {
		// TRACEPARENT is what OpenTelemetry's tools read.
		env = append(env, "QWATCH_TRACEPARENT="+t.Parent, "TRACEPARENT="+t.Parent)
		if t.State != "" {
			env = append(env, "QWATCH_TRACESTATE="+t.State, "TRACESTATE="+t.State)
		}
	}
	seen := map[string]bool{}
	for _, name := range names(m.Headers) {
		if key := variable(name); !seen[key] {
			seen[key] = true
			env = append(env, key+"="+withoutNUL(m.Headers[name]))
		}
	}
	return env
}

// variable is the environment variable of a message's header. Of headers whose variables are the same,
// the first by name is the one there is.
func variable(header string) string {
	return "QWATCH_HEADER_" + strings.Map(func(r rune) rune {
		switch {
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		default:
			return '_'
		}
	}, header)
}

// withoutNUL replaces the one character that an environment cannot carry.
func withoutNUL(s string) string { return strings.ReplaceAll(s, "\x00", "\uFFFD") }

// firstLine keeps the first line written to it that is not blank, and takes the rest in without keeping it.
type firstLine struct {
	buf  []byte
	done bool
}

// Write implements io.Writer; it never fails.
func (l *firstLine) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 && !l.done {
		line, rest, ended := bytes.Cut(p, []byte("\n"))
		l.buf = append(l.buf, line[:min(len(line), 2*maxReason-len(l.buf))]...)
		p = rest
		if ended {
			if l.done = len(bytes.TrimSpace(l.buf)) > 0; !l.done {
				l.buf = l.buf[:0]
			}
		}
	}
	return n, nil
}

// reason is what the command said, or else how it ended.
func (l *firstLine) reason(state *os.ProcessState) error {
	if said := oneLine(string(l.buf)); said != "" {
		return &saidError{text: said}
	}
	if state == nil {
		return &saidError{text: "the command's end is not known"}
	}
	return &saidError{text: "the command ended with " + state.String()}
}
