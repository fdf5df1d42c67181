package table

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
)

// NoAction is an Error's Action when it is not about one action of a transaction.
const NoAction = -1

// Error is why a call failed. Its text is one line, and names neither address nor keys: an
// account's URL may carry a SAS, an entity's a business key.
type Error struct {
	Status int    // the service's answer; 0 when there was none
	Code   string // the service's
	Action int    // index of the action that a transaction was refused for, or NoAction

	cause error
}

// Error implements error.
func (e *Error) Error() string {
	var what string
	switch {
	case e.Status != 0:
		what = strings.TrimSpace(strconv.Itoa(e.Status) + " " + e.Code)
		if e.Code == string(aztables.TableNotFound) {
			what += ": create the table first"
		}
	case errors.Is(e.cause, context.DeadlineExceeded):
		what = "no answer in time"
	case errors.Is(e.cause, context.Canceled):
		what = context.Canceled.Error()
	default:
		what = oneLine(e.cause.Error())
	}
	if e.Action != NoAction {
		what = fmt.Sprintf("action %d: %s", e.Action, what)
	}
	return what
}

// Is and As reach the cause, which Unwrap must not: it would be printed.
func (e *Error) Is(target error) bool { return errors.Is(e.cause, target) }

// As implements what errors.As asks for.
func (e *Error) As(target any) bool { return errors.As(e.cause, target) }

// Exists says that an entity with the same keys is there.
func Exists(err error) bool { return has(err, http.StatusConflict, aztables.EntityAlreadyExists) }

// Missing says that the entity is not there, though its table is.
func Missing(err error) bool {
	f, ok := errors.AsType[*Error](err)
	return ok && f.Status == http.StatusNotFound && f.Code != string(aztables.TableNotFound)
}

// Changed says that the entity is another version than the condition allowed.
func Changed(err error) bool {
	f, ok := errors.AsType[*Error](err)
	return ok && f.Status == http.StatusPreconditionFailed
}

// Passing says that the failure may pass by itself, or that nobody knows what the service did.
func Passing(err error) bool {
	f, ok := errors.AsType[*Error](err)
	return ok && (f.Status == 0 || f.Status == http.StatusRequestTimeout || f.Status == http.StatusTooManyRequests || f.Status >= http.StatusInternalServerError)
}

func has(err error, status int, code aztables.TableErrorCode) bool {
	f, ok := errors.AsType[*Error](err)
	return ok && f.Status == status && f.Code == string(code)
}

// classify makes an *Error of whatever the SDK returned.
func classify(err error) error {
	if err == nil {
		return nil
	}
	f := &Error{Action: NoAction, cause: err}
	var answered *azcore.ResponseError
	if errors.As(err, &answered) {
		f.Status, f.Code = answered.StatusCode, answered.ErrorCode
		if answered.StatusCode == http.StatusAccepted { // a transaction's: the refusal lies inside
			f.refused(answered.RawResponse)
		}
		return f
	}
	var u *url.Error
	for errors.As(f.cause, &u) {
		f.cause = u.Err
	}
	return f
}

var (
	innerStatus  = regexp.MustCompile(`HTTP/1\.1 ([45]\d\d)`)
	innerCode    = regexp.MustCompile(`"code"\s*:\s*"(\w+)"`)
	innerMessage = regexp.MustCompile(`"value"\s*:\s*"(\d+):`)
)

// refused reads which action of a transaction the service refused, and why. The SDK returns no more
// than the whole answer, whose own status says accepted.
func (e *Error) refused(answer *http.Response) {
	e.Status, e.Action = http.StatusBadRequest, 0
	if answer == nil {
		return
	}
	body, err := runtime.Payload(answer) // the pipeline keeps it
	if err != nil {
		return
	}
	if m := innerStatus.FindSubmatch(body); m != nil {
		e.Status, _ = strconv.Atoi(string(m[1]))
	}
	if m := innerCode.FindSubmatch(body); m != nil {
		e.Code = string(m[1])
	}
	if m := innerMessage.FindSubmatch(body); m != nil {
		e.Action, _ = strconv.Atoi(string(m[1]))
	}
}

// oneLine makes a bounded line of an error's text.
func oneLine(s string) string {
	const enough = 300
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s[:min(len(s), 2*enough)], "\uFFFD")), " ")
	if len(s) > enough {
		s = strings.ToValidUTF8(s[:enough], "") + "…"
	}
	return s
}
