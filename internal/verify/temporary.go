package verify

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/qwatch/qwatch/queue"
)

// prefix begins the names of temporary queues: qwatch-verify-TIME-PLACE-PID-RUN-N, and -poison behind it.
const prefix = "qwatch-verify-"

// old is longer than any run takes: what is older was left behind, whoever made it.
const old = 15 * time.Minute

// removeTimeout bounds the clean-up of a run that was interrupted.
const removeTimeout = 30 * time.Second

// Longest is how long Run takes at most with the default timeout.
const Longest = 3*defaultTimeout + removeTimeout

// errLeft is what could not be cleaned up.
var errLeft = errors.New("remove a temporary queue")

// temporary is the queues of one run.
type temporary struct {
	acct *queue.Account
	name string

	mu   sync.Mutex
	made []*queue.Queue
}

func newTemporary(acct *queue.Account) *temporary {
	run := strings.ToLower(rand.Text()[:6]) // another's of the same second, place and number is another's all the same
	here, _ := place(machine())
	return &temporary{acct: acct, name: prefix + base36(acct.Now().Unix()) + "-" + here + "-" + base36(int64(os.Getpid())) + "-" + run}
}

// machine tells where process numbers mean what they mean here: the host's name, its last start and the namespace
// of the numbers. What cannot be told is "".
func machine() (host, boot, namespace string) {
	host, _ = os.Hostname()
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	namespace, _ = os.Readlink("/proc/self/ns/pid")
	return host, strings.TrimSpace(string(id)), namespace
}

// place is a short name of a machine, and whether a process number from a place of that name can be looked up
// there: containers of one name, and with one process each, are places of their own.
func place(host, boot, namespace string) (name string, known bool) {
	h := sha256.Sum256([]byte(host + "\x00" + boot + "\x00" + namespace))
	return hex.EncodeToString(h[:placeBytes]), boot != "" && namespace != ""
}

const placeBytes = 6

// create makes the queue of a check. Its poison queue is made when it is needed.
func (t *temporary) create(ctx context.Context, i int) (*queue.Queue, error) {
	q, err := t.acct.Queue(t.name+"-"+strconv.Itoa(i), queue.Config{})
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	t.made = append(t.made, q)
	t.mu.Unlock()
	return q, q.Create(ctx)
}

// remove deletes every queue of the run.
func (t *temporary) remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	t.mu.Lock()
	defer t.mu.Unlock()
	var errs []error
	for _, q := range t.made {
		for _, q := range []*queue.Queue{q, q.Poison()} {
			if err := q.Delete(ctx); err != nil && !errors.Is(err, queue.ErrQueueNotFound) {
				errs = append(errs, fmt.Errorf("%w: %w", errLeft, err))
			}
		}
	}
	return errors.Join(errs...)
}

// sweep removes what runs that were killed left behind: on this machine those whose process is gone, all others,
// those of this process among them, when they are older than any run.
func sweep(ctx context.Context, acct *queue.Account, notice func(string)) error {
	here, known := place(machine())
	if !known {
		here = ""
	}
	for info, err := range acct.Queues(ctx, queue.ListOptions{Prefix: prefix}) {
		if err != nil {
			return err
		}
		if !leftBehind(info.Name, acct.Now(), here, alive) {
			continue
		}
		q, err := acct.Queue(info.Name, queue.Config{NoPoison: true})
		if err != nil {
			continue
		}
		switch err := q.Delete(ctx); {
		case err == nil:
			notice("removed " + info.Name + ", which a run that was killed left behind")
		case !errors.Is(err, queue.ErrQueueNotFound):
			return fmt.Errorf("remove what an earlier run left behind: %w", err)
		}
	}
	return nil
}

// leftBehind says whether a queue of that name belongs to a run that is over. Here is the name of this place, "" when
// it cannot be told from others.
func leftBehind(name string, now time.Time, here string, alive func(pid int) bool) bool {
	parts := strings.Split(strings.TrimSuffix(strings.TrimPrefix(name, prefix), "-poison"), "-")
	if !strings.HasPrefix(name, prefix) || len(parts) != 4 && len(parts) != 5 {
		return false // not one of ours
	}
	if len(parts) == 4 { // of an earlier version, whose places were not told apart
		parts = []string{parts[0], parts[1], parts[2], "", parts[3]}
	}
	began, err := strconv.ParseInt(parts[0], 36, 64)
	pid, perr := strconv.ParseInt(parts[2], 36, 32)
	_, nerr := strconv.ParseUint(parts[4], 10, 8)
	machine, herr := hex.DecodeString(parts[1])
	if errors.Join(err, perr, nerr, herr) != nil || len(machine) != 3 && len(machine) != placeBytes {
		return false
	}
	if now.Sub(time.Unix(began, 0)) > old {
		return true
	}
	return here != "" && parts[1] == here && int(pid) != os.Getpid() && !alive(int(pid))
}

// alive says whether a process of that number runs here.
func alive(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	if err = p.Signal(syscall.Signal(0)); err != nil {
		return errors.Is(err, os.ErrPermission)
	}
	// Killed, and not yet waited for, it is still there in a way.
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	_, after, found := strings.Cut(string(stat), ") ")
	return err != nil || !found || !strings.HasPrefix(after, "Z")
}

func base36(n int64) string { return strconv.FormatInt(n, 36) }
