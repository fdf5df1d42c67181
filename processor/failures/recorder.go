package failures

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/qwatch/qwatch/poison"
	"github.com/qwatch/qwatch/processor"
)

// Hook is what a processor tells about messages that fail. Its calls return soon, without an error and
// without a panic, whatever happens; the processor keeps the message's lease meanwhile. They are made
// concurrently. A time of zero, and a nil error, mean that the handler was not called.
type Hook interface {
	// Failed is called after a failed attempt at a message that will be retried. The category is that of
	// queue_message_retries_total.
	Failed(ctx context.Context, m *processor.Message, category string, err error, started time.Time, took time.Duration)
	// DeadLettered is called when the poison copy is safe and the original not yet deleted: a crash in
	// between has the message delivered, and dead-lettered, again.
	DeadLettered(ctx context.Context, m *processor.Message, category poison.Category, reason string, err error, started time.Time, took time.Duration)
	// Recovered is called when a message was completed that had been delivered before.
	Recovered(ctx context.Context, m *processor.Message)
}

// Options tune a Recorder. The zero value is usable.
type Options struct {
	// Key tells the business key. An error or a panic of its own means that there is none. Default: none.
	Key func(*processor.Message) (string, error)
	// MaxBody keeps a copy of up to so many bytes of the body, or of the wire text where the body cannot
	// be read: 0 to 256 KiB. Default 0: none.
	MaxBody int
	// Worker names this process in attempts. Default: host name and process id.
	Worker string
	// Timeout bounds a write, which the message waits for. For half a minute after a failed write it is a
	// second at most, so that a storage outage does not hold the poison moves up. Default 5 s.
	Timeout time.Duration
	// Logger is told when records cannot be written, and when they can again. Default: discard.
	Logger *slog.Logger
}

const (
	hurryFor    = 30 * time.Second
	hurriedTime = time.Second
)

// Recorder writes what a processor tells it to a store. It is safe for concurrent use by any number of
// processors.
type Recorder struct {
	store Store
	opts  Options

	mu     sync.Mutex
	failed time.Time // when a write last failed
	lost   int       // writes since the last that worked
}

var _ Hook = (*Recorder)(nil)

// NewRecorder returns a recorder. The error joins every fault of the options.
func NewRecorder(store Store, opts Options) (*Recorder, error) {
	opts = opts.WithDefaults()
	var errs []error
	if store == nil {
		errs = append(errs, errors.New("there is no store"))
	}
	if opts.MaxBody < 0 || opts.MaxBody > MaxBody {
		errs = append(errs, fmt.Errorf("a body of up to %d bytes is outside 0 to %d", opts.MaxBody, MaxBody))
	}
	if opts.Timeout < 0 {
		errs = append(errs, fmt.Errorf("timeout %v is negative: every write has a deadline", opts.Timeout))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("failure records: %w", err)
	}
	return &Recorder{store: store, opts: opts}, nil
}

// WithDefaults returns the options with every default filled in.
func (o Options) WithDefaults() Options {
	if o.Worker == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown"
		}
		o.Worker = fmt.Sprintf("%s/%d", host, os.Getpid())
	}
	if o.Timeout == 0 {
		o.Timeout = 5 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Failed implements Hook.
func (r *Recorder) Failed(ctx context.Context, m *processor.Message, category string, err error, started time.Time, took time.Duration) {
	r.write(ctx, m, func(ctx context.Context) error {
		return r.store.Attempted(ctx, m.Queue().Name(), m.ID, r.attempt(m, category, err, started, took))
	})
}

// DeadLettered implements Hook.
func (r *Recorder) DeadLettered(ctx context.Context, m *processor.Message, category poison.Category, reason string, err error, started time.Time, took time.Duration) {
	r.write(ctx, m, func(ctx context.Context) error {
		f := Failure{
			Queue: m.Queue().Name(), MessageID: m.ID, BusinessKey: r.key(m),
			Category: category, Reason: oneLine(reason, maxReason), Causes: Causes(err),
			DequeueCount: m.DequeueCount, InsertedAt: m.InsertedAt, DeadLetteredAt: m.Queue().Account().Now(),
			TraceParent: m.TraceParent, Body: r.body(m),
		}
		f.Panic, f.Stack = panicked(err)
		if !started.IsZero() {
			f.Attempts = []Attempt{r.attempt(m, string(category), err, started, took)}
		}
		return r.store.Record(ctx, f)
	})
}

// Recovered implements Hook.
func (r *Recorder) Recovered(ctx context.Context, m *processor.Message) {
	if m.DequeueCount < 2 {
		return
	}
	r.write(ctx, m, func(ctx context.Context) error {
		return r.store.Recovered(ctx, m.Queue().Name(), m.ID)
	})
}

func (r *Recorder) attempt(m *processor.Message, category string, err error, started time.Time, took time.Duration) Attempt {
	a := Attempt{Number: m.DequeueCount, At: started, Took: took, Category: category, Worker: r.opts.Worker}
	if err != nil {
		a.Error = oneLine(err.Error(), maxMessage)
	}
	return a
}

// key asks for the business key. What goes wrong there is the message's fault, not a reason to lose the record.
func (r *Recorder) key(m *processor.Message) (key string) {
	if r.opts.Key == nil {
		return ""
	}
	defer func() {
		if recover() != nil {
			key = ""
		}
	}()
	key, err := r.opts.Key(m)
	if err != nil {
		return ""
	}
	return cut(key, maxKey)
}

func (r *Recorder) body(m *processor.Message) *Body {
	if r.opts.MaxBody == 0 {
		return nil
	}
	data := m.Body
	if m.Err != nil {
		data = []byte(m.Text)
	}
	b := &Body{Data: data, Size: len(data)}
	if n := r.opts.MaxBody; len(data) > n {
		for utf8.Valid(data) && n > 0 && !utf8.RuneStart(data[n]) {
			n--
		}
		b.Data = data[:n]
	}
	return b
}

// write writes within bounds, and tells once when that fails and when it works again.
func (r *Recorder) write(ctx context.Context, m *processor.Message, do func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.patience())
	defer cancel()
	err := func() (err error) {
		defer func() {
			if v := recover(); v != nil {
				err = fmt.Errorf("the failure store panicked: %v", v)
			}
		}()
		return do(ctx)
	}()
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err != nil:
		if r.lost++; r.lost == 1 {
			q := m.Queue()
			r.opts.Logger.Error("failure record not written; the message goes its way without",
				"account", q.Account().Name(), "queue", q.Name(), "message_id", m.ID, "error", oneLine(err.Error(), maxMessage))
		}
		r.failed = time.Now()
	case r.lost > 0:
		r.opts.Logger.Info("failure records are written again", "failures", r.lost)
		r.lost = 0
	}
}

func (r *Recorder) patience() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lost > 0 && time.Since(r.failed) < hurryFor {
		return min(r.opts.Timeout, hurriedTime)
	}
	return r.opts.Timeout
}
