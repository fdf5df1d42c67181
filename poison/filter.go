package poison

import (
	"slices"
	"strings"
	"time"
)

// Filter chooses among what is dead-lettered. The zero value chooses everything; what is set must all
// hold.
type Filter struct {
	// Categories are the ones to choose; none: any.
	Categories []Category
	// Reason is a part of the reason, whatever its case.
	Reason string
	// IDs are ids of original messages, or of their copies on the poison queue.
	IDs []string
	// OlderThan and NewerThan bound how long ago the message was dead-lettered, by the service's clock;
	// 0: no bound.
	OlderThan, NewerThan time.Duration
	// Match, if set, must be true as well. The entry must not be kept; see Body for typed bodies.
	Match func(*Entry) bool
}

// Chooses says whether the filter chooses an entry, now being the service's time.
func (f Filter) Chooses(e *Entry, now time.Time) bool {
	age := now.Sub(e.Time())
	switch {
	case len(f.Categories) > 0 && !slices.Contains(f.Categories, e.Category),
		f.Reason != "" && !strings.Contains(strings.ToLower(e.Reason), strings.ToLower(f.Reason)),
		len(f.IDs) > 0 && !slices.Contains(f.IDs, e.MessageID) && !slices.Contains(f.IDs, e.PoisonMessageID),
		f.OlderThan > 0 && age < f.OlderThan,
		f.NewerThan > 0 && age > f.NewerThan:
		return false
	}
	return f.Match == nil || f.Match(e)
}
