package web

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/qwatch/qwatch/internal/triage"
)

// cutOff is work that was ended from outside, in words that say by whom.
type cutOff struct {
	text string
	err  error
}

// Error implements error.
func (e *cutOff) Error() string { return e.text }

// Unwrap returns what the work said.
func (e *cutOff) Unwrap() error { return e.err }

// endReason is why an operator's work is ended by qwatch, or by somebody else.
type endReason struct{ text string }

// Error implements error.
func (e *endReason) Error() string { return e.text }

// errLeft is why work ends whose client is gone.
var errLeft = errors.New("the client went away")

// left is what it means that an answer cannot be written.
func left(err error) error {
	if err == nil {
		return nil
	}
	return &cutOff{errLeft.Error(), errors.Join(errLeft, err)}
}

// because says why an operator's work ended early, where its own words are only that it was canceled.
func because(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, errLeft) {
		return err
	}
	words := []string{context.Canceled.Error(), context.DeadlineExceeded.Error(), "no answer in time"} // the last: of a request to storage
	if !slices.ContainsFunc(words, func(w string) bool { return strings.Contains(err.Error(), w) }) {
		return err
	}
	switch cause := context.Cause(ctx); {
	case cause == nil:
		return err
	case errors.Is(cause, errEnding):
		return &cutOff{errEnding.Error() + ": this was ended at a step where nothing is lost; run it again when qwatch is back", err}
	case errors.As(cause, new(*endReason)):
		return &cutOff{cause.Error() + ": this was ended at a step where nothing is lost", err}
	case errors.Is(cause, context.DeadlineExceeded):
		return &cutOff{fmt.Sprintf("it was not over within %v: run it again to go on, or ask for a stream of events", longest), err}
	case errors.Is(cause, context.Canceled): // the HTTP server's word
		return left(err)
	}
	return err
}

// telling has events say why work ended early, and the log which message goes without a mark.
func (a *admin) telling(ctx context.Context, r *storageRequest, sink func(triage.Event) error) func(triage.Event) error {
	return func(e triage.Event) error {
		if e.Unmarked != "" {
			a.Logger.Warn("message is replayed without a mark", "account", r.PathValue("account"), "queue", r.PathValue("queue"), "message_id", clipID(e.Unmarked))
		}
		if e.Error != "" {
			e.Error = because(ctx, errors.New(e.Error)).Error()
		}
		return sink(e)
	}
}
