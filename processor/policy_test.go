package processor_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/qwatch/qwatch/processor"
)

type validationError struct{ field string }

func (e validationError) Error() string { return e.field + " is missing" }

var errDuplicate = errors.New("order is already there")

func TestErrorPolicy(t *testing.T) {
	rules := []func(error) bool{processor.DeadLetterOn[validationError](), processor.DeadLetterIs(errDuplicate)}
	answer := func(a processor.Action) processor.ErrorPolicy {
		return processor.ErrorPolicy{Func: func(context.Context, *processor.Message, error) processor.Action { return a }}
	}
	tests := map[string]struct {
		policy    processor.ErrorPolicy
		err       error
		calls     int
		poison    int
		category  string
		failed    float64
		processed float64
		gap       time.Duration // between the first two calls, if not 5s
	}{
		"no policy retries":                        {processor.ErrorPolicy{}, errBroken, 3, 1, "max_dequeue", 3, 0, 0},
		"a type rule":                              {processor.ErrorPolicy{DeadLetter: rules}, validationError{"name"}, 1, 1, "handler", 1, 0, 0},
		"a type rule sees through wrapping":        {processor.ErrorPolicy{DeadLetter: rules}, fmt.Errorf("order: %w", validationError{"name"}), 1, 1, "handler", 1, 0, 0},
		"a value rule":                             {processor.ErrorPolicy{DeadLetter: rules}, errDuplicate, 1, 1, "handler", 1, 0, 0},
		"rules that do not match":                  {processor.ErrorPolicy{DeadLetter: rules}, errBroken, 3, 1, "max_dequeue", 3, 0, 0},
		"a function that completes":                {answer(processor.Action{Verdict: processor.Complete}), errDuplicate, 1, 0, "", 0, 1, 0},
		"a function that dead-letters":             {answer(processor.Action{Verdict: processor.DeadLetter}), errBroken, 1, 1, "handler", 1, 0, 0},
		"a function that retries":                  {answer(processor.Action{Verdict: processor.Retry}), errBroken, 3, 1, "max_dequeue", 3, 0, 0},
		"a function that retries later":            {answer(processor.Action{Verdict: processor.Retry, Delay: time.Minute}), errBroken, 3, 1, "max_dequeue", 3, 0, time.Minute},
		"a function that retries at once":          {answer(processor.Action{Delay: -1}), errBroken, 3, 1, "max_dequeue", 3, 0, -1},
		"a function that cannot decide":            {answer(processor.Action{Verdict: 99}), errBroken, 3, 1, "max_dequeue", 3, 0, 0},
		"rules come before the function":           {processor.ErrorPolicy{DeadLetter: rules, Func: answer(processor.Action{Verdict: processor.Complete}).Func}, errDuplicate, 1, 1, "handler", 1, 0, 0},
		"what the error says comes before rules":   {processor.ErrorPolicy{DeadLetter: rules}, processor.Discard(errDuplicate), 1, 0, "", 0, 1, 0},
		"what the error says comes before all":     {answer(processor.Action{Verdict: processor.Complete}), processor.Permanent(errBroken), 1, 1, "handler", 1, 0, 0},
		"a wish in a chain counts":                 {processor.ErrorPolicy{}, fmt.Errorf("x: %w", processor.Discard(nil)), 1, 0, "", 0, 1, 0},
		"a function that panics means retry":       {processor.ErrorPolicy{Func: func(context.Context, *processor.Message, error) processor.Action { panic("oops") }}, errBroken, 3, 1, "max_dequeue", 3, 0, 0},
		"a rule that panics means retry":           {processor.ErrorPolicy{DeadLetter: []func(error) bool{func(error) bool { panic("oops") }}}, errBroken, 3, 1, "max_dequeue", 3, 0, 0},
		"a function that ends its goroutine, too":  {processor.ErrorPolicy{Func: func(context.Context, *processor.Message, error) processor.Action { runtime.Goexit(); panic(0) }}, errBroken, 3, 1, "max_dequeue", 3, 0, 0},
		"a permanent wish without a cause is kept": {processor.ErrorPolicy{}, processor.Permanent(nil), 1, 1, "handler", 1, 0, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.send("m")
				cfg := fast(processor.Config{MaxDequeueCount: 3, Policy: test.policy, Retry: processor.RetryConfig{Jitter: processor.Off}})
				r.runFor(10*time.Minute, cfg, r.handle(func(context.Context, *processor.Message) error { return test.err }))
				if n := r.calls.count(); n != test.calls {
					t.Errorf("%d calls, want %d", n, test.calls)
				}
				r.left(0, test.poison)
				if test.poison > 0 {
					if rec := r.poisoned()[0]; rec.Category != test.category {
						t.Errorf("category %s, want %s", rec.Category, test.category)
					}
				}
				if test.calls > 1 {
					want := cmp.Or(test.gap, 5*time.Second)
					if gap := r.calls.gaps()[0]; gap != want && (want >= 0 || gap > time.Second) { // at once: with the next poll
						t.Errorf("delay %v, want %v", gap, want)
					}
				}
				r.counted(map[string]float64{"queue_messages_failed_total": test.failed, "queue_messages_processed_total": test.processed})
			})
		})
	}
}

func TestAPolicyThatPanicsIsLogged(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("m")
		r.runFor(time.Second, processor.Config{Policy: processor.ErrorPolicy{
			Func: func(context.Context, *processor.Message, error) processor.Action { panic("oops") },
		}}, r.handle(fail))
		if l := r.logged("error policy panicked; retrying the message", 1)[0]; l["level"] != "ERROR" || l["message_id"] == nil {
			t.Errorf("logged as %v", l)
		}
	})
}

func TestAPolicySeesMessageAndError(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("m")
		r.runFor(time.Second, processor.Config{Policy: processor.ErrorPolicy{
			Func: func(ctx context.Context, m *processor.Message, err error) processor.Action {
				if ctx.Err() != nil {
					t.Error("the policy's context is cancelled")
				}
				var panicked *processor.PanicError
				if string(m.Body) != "m" || !errors.As(err, &panicked) || !errors.Is(err, errBroken) || panicked.Stack == "" {
					t.Errorf("the policy got %q, %v", m.Body, err)
				}
				return processor.Action{Verdict: processor.Complete}
			},
		}}, r.handle(func(context.Context, *processor.Message) error { panic(errBroken) }))
		r.left(0, 0)
	})
}
