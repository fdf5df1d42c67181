package processor_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/poison"
	"github.com/qwatch/qwatch/processor"
)

// trap is an error that panics when it is asked something.
type trap struct {
	unwrap, is, as func()
	texts          int // calls of Error that go well
}

func (e *trap) Error() string {
	if e.texts--; e.texts < 0 {
		panic("no text left")
	}
	return "a trap"
}

func (e *trap) Unwrap() error {
	if e.unwrap != nil {
		e.unwrap()
	}
	return nil
}

func (e *trap) Is(error) bool {
	if e.is != nil {
		e.is()
	}
	return false
}

func (e *trap) As(any) bool {
	if e.as != nil {
		e.as()
	}
	return false
}

// circle is an error that wraps itself.
type circle struct{}

func (*circle) Error() string   { return "round and round" }
func (e *circle) Unwrap() error { return e }

// loop is one that does so while it writes its text, too.
type loop struct{ err error }

func (e *loop) Error() string { return "again: " + e.err.Error() }
func (e *loop) Unwrap() error { return e.err }

func oh() { panic("oh") }

// An error that panics outside of the handler would end the process.
func TestAnErrorThatCannotBeExaminedIsAPanic(t *testing.T) {
	var typedNil *net.OpError
	endless := &loop{}
	endless.err = endless
	tests := map[string]struct {
		err      func() error
		category string // of the retry; "" when it is dead-lettered at once
		reason   string
	}{
		"a nil *net.OpError":            {func() error { return typedNil }, "panic", "handler panicked: its error, a *net.OpError, cannot be examined: runtime error: invalid memory address or nil pointer dereference"},
		"one that is wrapped":           {func() error { return fmt.Errorf("dial: %w", typedNil) }, "panic", "handler panicked: its error, a *fmt.wrapError, cannot be examined: runtime error: invalid memory address or nil pointer dereference"},
		"one among several":             {func() error { return errors.Join(errBroken, typedNil) }, "panic", "handler panicked: its error, a *errors.joinError, cannot be examined: runtime error: invalid memory address or nil pointer dereference"},
		"one that is permanent":         {func() error { return processor.Permanent(typedNil) }, "", "handler panicked: its error, a *processor.failure, cannot be examined: runtime error: invalid memory address or nil pointer dereference"},
		"one that was panicked with":    {func() error { panic(typedNil) }, "panic", "handler panicked: its error, a *processor.PanicError, cannot be examined: runtime error: invalid memory address or nil pointer dereference"},
		"Unwrap panics":                 {func() error { return &trap{texts: 9, unwrap: oh} }, "panic", "handler panicked: its error, a *processor_test.trap, cannot be examined: oh"},
		"Is panics":                     {func() error { return &trap{texts: 9, is: oh} }, "panic", "handler panicked: its error, a *processor_test.trap, cannot be examined: oh"},
		"As panics":                     {func() error { return &trap{texts: 9, as: oh} }, "panic", "handler panicked: its error, a *processor_test.trap, cannot be examined: oh"},
		"Error panics":                  {func() error { return &trap{} }, "panic", "handler panicked: its error, a *processor_test.trap, cannot be examined: no text left"},
		"Error panics the second time":  {func() error { return &trap{texts: 1} }, "handler", "a trap"},
		"it panics with itself":         {func() error { e := &trap{texts: 9}; e.unwrap = func() { panic(e) }; return e }, "panic", "handler panicked: its error, a *processor_test.trap, cannot be examined: a panic with a *processor_test.trap"},
		"it wraps itself":               {func() error { return &circle{} }, "panic", "handler panicked: its error, a *processor_test.circle, cannot be examined: it wraps more than 1000 errors"},
		"it wraps itself, text and all": {func() error { return endless }, "panic", "handler panicked: its error, a *processor_test.loop, cannot be examined: it wraps more than 1000 errors"},
		"permanently wrapping itself":   {func() error { return processor.Permanent(endless) }, "", "handler panicked: its error, a *processor.failure, cannot be examined: it wraps more than 1000 errors"},
		"panicking, wrapping itself":    {func() error { panic(endless) }, "panic", "handler panicked: its error, a *processor.PanicError, cannot be examined: it wraps more than 1000 errors"},
		"a whole tree":                  {func() error { return errors.Join(errBroken, fmt.Errorf("x: %w", processor.Unavailable(nil))) }, "transient", "the widget is broken x: no cause given"},
	}
	for name, tt := range tests {
		for how, batch := range map[string]bool{"": false, ", of a batch": true} {
			t.Run(name+how, func(t *testing.T) {
				bubble(t, func(t *testing.T, r *rig) {
					h, tr, calls := &hook{r: r}, &tracer{}, 0
					cfg := processor.Config{Tracer: tr, Failures: h, Retry: processor.RetryConfig{Initial: time.Second}}
					handle := func(context.Context, *processor.Message) error {
						if calls++; calls > 1 {
							return nil
						}
						return tt.err()
					}
					r.send("m")
					if batch {
						cfg.Policy.Func = func(context.Context, *processor.Message, error) processor.Action { return processor.Action{} }
						r.batchFor(time.Minute, processor.BatchConfig{Config: cfg}, func(ctx context.Context, all []*processor.Message) error { return handle(ctx, all[0]) })
					} else {
						r.runFor(time.Minute, cfg, r.handle(handle))
					}
					if tt.category == "" {
						r.left(0, 1)
						if got := r.poisoned()[0]; got.Reason != tt.reason || got.Category != "handler" {
							t.Errorf("%s: reason %q, want %q", got.Category, got.Reason, tt.reason)
						}
						return
					}
					r.left(0, 0)
					l := r.logged("handler failed; the message is retried", 1)[0]
					if diff := cmp.Diff([]any{tt.category, tt.reason}, []any{l["category"], l["error"]}); diff != "" {
						t.Errorf("(-want +got):\n%s", diff)
					}
					if got := tr.endings[0]; got.ErrorType != tt.category || got.Reason != tt.reason {
						t.Errorf("traced as %+v", got)
					}
				})
			})
		}
	}
}

// What was examined is still the handler's error to those that hear of it.
func TestTheHandlersOwnErrorReachesItsHooks(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		h := &errorsHook{}
		var asked error
		r.send("m")
		r.runFor(time.Minute, fast(processor.Config{MaxDequeueCount: 2, Failures: h, Policy: processor.ErrorPolicy{
			Func: func(_ context.Context, _ *processor.Message, err error) processor.Action {
				asked = err
				return processor.Action{}
			},
		}}), r.handle(func(context.Context, *processor.Message) error { return validationError{"name"} }))
		want := validationError{"name"}
		if asked != want || len(h.errs) != 2 || h.errs[0] != want || h.errs[1] != want {
			t.Errorf("the policy was asked about %#v, the hook heard of %#v", asked, h.errs)
		}
	})
}

// errorsHook notes the errors it hears of.
type errorsHook struct{ errs []error }

func (h *errorsHook) Failed(_ context.Context, _ *processor.Message, _ string, err error, _ time.Time, _ time.Duration) {
	h.errs = append(h.errs, err)
}

func (h *errorsHook) DeadLettered(_ context.Context, _ *processor.Message, _ poison.Category, _ string, err error, _ time.Time, _ time.Duration) {
	h.errs = append(h.errs, err)
}

func (h *errorsHook) Recovered(context.Context, *processor.Message) {}

// The prober's errors are as little to be trusted as the handler's.
func TestAProbersErrorThatCannotBeExamined(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		var typedNil *net.AddrError // its text is "<nil>"
		var odd *oddError
		probes := []error{typedNil, odd, &trap{}, &circle{}}
		calls := 0
		h := probed{r.handle(func(context.Context, *processor.Message) error {
			if calls++; calls <= 3 {
				return processor.Unavailable(nil)
			}
			return nil
		}), func() (err error) {
			if len(probes) == 0 {
				return nil
			}
			err, probes = probes[0], probes[1:]
			return err
		}}
		r.fill(3)
		r.runFor(10*time.Minute, processor.Config{}, h)
		r.left(0, 0)
		if len(probes) > 0 {
			t.Errorf("%d errors were not asked for", len(probes))
		}
	})
}

// oddError is an error whose text panics when it is nil.
type oddError struct{ text string }

func (e *oddError) Error() string { return e.text }
