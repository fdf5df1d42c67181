package web

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"
)

// Action is something that somebody did through the API: an entry of the audit log.
type Action struct {
	At        time.Time
	Operator  string // the token's name
	Operation string // pause, resume, peek, send, clear, list, read-body, export, replay, delete, purge, import, stop, verify
	Account   string
	Queue     string // the main queue's name; "" for what is about an account
	MessageID string // "" for what is about a queue as a whole
	// NewMessageID is what a replayed or sent message is called now.
	NewMessageID string
	Messages     int // how many it was about, once that is known; 0 where MessageID says it
	// PoisonMessageID is what the copy on the poison queue is called, where there is one.
	PoisonMessageID string
	Error           string // why it ended early
	Left            bool   // it ended early because the client went away
	Addr            string // the client's
}

// audit writes a line of the audit log, which names who did what to which message, and tells whoever
// else wants to know. It is written when something is done, not when it is tried; refusals have their own lines.
func (h *handler) audit(r *http.Request, a Action) {
	a.At, a.Addr = time.Now(), r.RemoteAddr
	a.MessageID, a.NewMessageID = clipID(a.MessageID), clipID(a.NewMessageID) // a record says what it likes
	if cause := context.Cause(r.Context()); a.Error != "" && (errors.Is(cause, errEnding) || errors.As(cause, new(*endReason))) && !strings.HasPrefix(a.Error, cause.Error()) {
		a.Error = cause.Error() + ": " + a.Error
	}
	attrs := []any{"operation", a.Operation, "account", a.Account}
	if a.Queue != "" {
		attrs = append(attrs, "queue", a.Queue)
	}
	attrs = append(attrs, "operator", a.Operator, "addr", a.Addr)
	if a.MessageID != "" {
		attrs = append(attrs, "message_id", a.MessageID)
	}
	if a.PoisonMessageID != "" && a.PoisonMessageID != a.MessageID {
		attrs = append(attrs, "poison_message_id", a.PoisonMessageID)
	}
	if a.NewMessageID != "" {
		attrs = append(attrs, "new_message_id", a.NewMessageID)
	}
	if a.Messages > 0 {
		attrs = append(attrs, "messages", a.Messages)
	}
	if a.Error != "" {
		h.Logger.Warn("operator command ended early", append(attrs, "error", a.Error)...)
	} else {
		h.Logger.Info("operator command", attrs...)
	}
	if h.Audited != nil {
		h.Audited(a)
	}
}

// maxID is how much of an id the log has. The service's own have 36 bytes.
const maxID = 128

// clipID bounds an id that a message's record gave it.
func clipID(id string) string {
	if len(id) <= maxID {
		return id
	}
	return strings.ToValidUTF8(id[:maxID], "") + "…"
}
