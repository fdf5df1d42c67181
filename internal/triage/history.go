package triage

import (
	"context"
	"time"

	"github.com/qwatch/qwatch/poison"
	"github.com/qwatch/qwatch/queue"
)

// Earlier is what the failure records know of a message before it was replayed, when it had another id.
type Earlier struct {
	MessageID      string          `json:"messageId"`
	ReplayedAt     time.Time       `json:"replayedAt"`         // when it was put back, with the next id
	Category       poison.Category `json:"category,omitempty"` // "" where no record tells any more
	Reason         string          `json:"reason,omitempty"`
	DequeueCount   int             `json:"dequeueCount,omitempty"`
	DeadLetteredAt *time.Time      `json:"deadLetteredAt,omitempty"`
	Attempts       []queue.Attempt `json:"attempts,omitempty"`
}

// MaxHistories is how many messages a command may ask the history of.
const MaxHistories = 32

// historyTimeout bounds how long the records of one message are waited for.
const historyTimeout = 5 * time.Second

// addHistory adds what the records tell, if they are to be asked; what they cannot tell keeps nothing back.
func (r *runner) addHistory(ctx context.Context, e *Entry) {
	if !r.c.History || r.q.History == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, historyTimeout)
	defer cancel()
	var err error
	if e.History, err = r.q.History(ctx, e.MessageID); err != nil {
		e.HistoryError = err.Error()
	}
}
