package forward

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
)

// The headers by which an answer says what becomes of the message.
const (
	headerOutcome = "Qwatch-Outcome"
	headerReason  = "Qwatch-Reason"
)

// judge reads what becomes of the message from an answer's status and headers.
func judge(resp *http.Response) error {
	said := fmt.Sprintf("handler answered %d", resp.StatusCode)
	if text := http.StatusText(resp.StatusCode); text != "" {
		said += " " + text
	}
	reason := oneLine(resp.Header.Get(headerReason))
	if reason == "" {
		reason = said
	}
	err := &saidError{text: reason}
	delay, asked := retryAfter(resp.Header, time.Now())

	if outcomes := resp.Header.Values(headerOutcome); len(outcomes) > 0 {
		switch outcome(outcomes) {
		case "complete":
			return nil
		case "dead-letter":
			return processor.Permanent(err)
		case "retry":
			if asked {
				return processor.RetryAfter(delay, err)
			}
			return err
		default:
			return &saidError{text: said + " with a " + headerOutcome + " that is not one of complete, retry and dead-letter"}
		}
	}
	switch code := resp.StatusCode; {
	case code >= 200 && code <= 299:
		return nil
	case code == http.StatusBadRequest, code == http.StatusRequestEntityTooLarge,
		code == http.StatusUnsupportedMediaType, code == http.StatusUnprocessableEntity,
		code == http.StatusRequestHeaderFieldsTooLarge: // a message's headers are the request's
		return processor.Permanent(err)
	case code == http.StatusTooManyRequests, code == http.StatusServiceUnavailable:
		if !asked {
			delay = -1 // the configured one
		}
		return processor.Throttled(delay, err)
	case code == http.StatusBadGateway: // a gateway that does not reach the handler
		err.cause = syscall.ECONNRESET
		return err
	case code == http.StatusGatewayTimeout:
		err.cause = context.DeadlineExceeded
		return err
	default:
		return err
	}
}

// outcome returns what all of the headers agree on, in lower case; "" when they do not.
func outcome(values []string) string {
	first := strings.ToLower(strings.TrimSpace(values[0]))
	for _, v := range values[1:] {
		if strings.ToLower(strings.TrimSpace(v)) != first {
			return ""
		}
	}
	return first
}

// retryAfter reads Retry-After: seconds or a date, at most what a message can be hidden. It is not asked
// when the header is absent, cannot be read, or names no delay: a message retried at once, over and
// over, would only use up its attempts.
func retryAfter(h http.Header, now time.Time) (delay time.Duration, asked bool) {
	value := strings.TrimSpace(h.Get("Retry-After"))
	if n, err := strconv.ParseUint(value, 10, 64); err == nil {
		delay = time.Duration(min(n, uint64(queue.MaxVisibility/time.Second))) * time.Second
	} else if len(value) > 18 && strings.Trim(value, "0123456789") == "" {
		delay = queue.MaxVisibility
	} else if at, err := http.ParseTime(value); err == nil {
		// The sender's own Date, where it is given, is free of the difference between the clocks.
		if date, err := http.ParseTime(h.Get("Date")); err == nil {
			now = date
		}
		delay = min(at.Sub(now), queue.MaxVisibility)
	}
	return delay, delay > 0
}
