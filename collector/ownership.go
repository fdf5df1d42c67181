package collector

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Ownership is who is called about a queue, and what it is to keep.
type Ownership struct {
	Team           string        // default: nobody
	Tier           int           // 1 is the most important; default 0: none
	Objective      time.Duration // how long a message may wait; default 0: none
	ObjectiveRatio float64       // share of messages within Objective, in (0, 1); default 0: none
}

// The keys of a queue's own metadata that say to whom it belongs. They hold where the Target does not say.
const (
	MetadataTeam      = "qwatch_team"      // up to 63 letters, digits, spaces and any of ._/@-
	MetadataTier      = "qwatch_tier"      // 1, 2 or 3
	MetadataObjective = "qwatch_objective" // a duration, such as 90s, 5m, 1h30m or 2d: one second to thirty days
)

const (
	maxTeam      = 63
	maxTier      = 3
	maxObjective = 30 * 24 * time.Hour
	// usualRatio is the share that an objective from metadata asks for where nothing else says.
	usualRatio = 0.99
	// ownershipHolds is how long an ownership from metadata is kept at the least: each one makes a
	// series of its own, and a value that somebody writes anew with every message must not.
	ownershipHolds = 10 * time.Minute
)

// ownershipOf reads what metadata says. What is not valid is passed over, and told in faults, which do not show it.
func ownershipOf(metadata map[string]string) (o Ownership, faults []string) {
	if len(metadata) == 0 {
		return o, nil
	}
	read := func(key, want string, take func(string) bool) {
		if value, ok := metadata[key]; ok && !take(strings.TrimSpace(value)) {
			faults = append(faults, fmt.Sprintf("metadata %s is not %s", key, want))
		}
	}
	read(MetadataTeam, "the name of a team: up to 63 letters, digits, spaces and any of ._/@-", func(s string) bool {
		if !isTeam(s) {
			return false
		}
		o.Team = s
		return true
	})
	read(MetadataTier, "a tier: 1, 2 or 3", func(s string) bool {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > maxTier {
			return false
		}
		o.Tier = n
		return true
	})
	read(MetadataObjective, "a duration from 1s to 30d, such as 5m", func(s string) bool {
		d, ok := parseObjective(s)
		if ok {
			o.Objective = d
		}
		return ok
	})
	return o, faults
}

func isTeam(s string) bool {
	for i := range len(s) {
		c := s[i]
		alnum := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !alnum && (i == 0 || strings.IndexByte(" ._/@-", c) < 0) {
			return false
		}
	}
	return s != "" && len(s) <= maxTeam
}

// parseObjective reads Go's durations, and days before them.
func parseObjective(s string) (time.Duration, bool) {
	var days time.Duration
	if n, rest, ok := strings.Cut(s, "d"); ok {
		whole, err := strconv.ParseUint(n, 10, 8)
		if err != nil {
			return 0, false
		}
		days, s = time.Duration(whole)*24*time.Hour, rest
	}
	var d time.Duration
	if s != "" || days == 0 {
		var err error
		if d, err = time.ParseDuration(s); err != nil || d < 0 {
			return 0, false
		}
	}
	d += days
	return d, d >= time.Second && d <= maxObjective
}

// owned returns the target with the ownership that holds: what it says itself, else what the queue's metadata
// says, else its Fallback: itself, where that changes nothing.
func (t *Target) owned(metadata Ownership) *Target {
	if metadata == (Ownership{}) && t.Fallback == (Ownership{}) {
		return t
	}
	o := t.with(metadata)
	return &o
}

func (t Target) with(metadata Ownership) Target {
	if t.Team == "" {
		t.Team = metadata.Team
	}
	if t.Team == "" {
		t.Team = t.Fallback.Team
	}
	if t.Tier == 0 {
		t.Tier = metadata.Tier
	}
	if t.Tier == 0 {
		t.Tier = t.Fallback.Tier
	}
	ratio := func(ratios ...float64) float64 {
		for _, r := range ratios {
			if r > 0 {
				return r
			}
		}
		return usualRatio
	}
	switch {
	case t.Objective > 0:
	case metadata.Objective > 0:
		t.Objective, t.ObjectiveRatio = metadata.Objective, ratio(t.ObjectiveRatio, t.Fallback.ObjectiveRatio)
	case t.Fallback.Objective > 0:
		t.Objective, t.ObjectiveRatio = t.Fallback.Objective, ratio(t.ObjectiveRatio, t.Fallback.ObjectiveRatio)
	}
	return t
}

// own takes in what the queue's metadata says, for the queue and its poison queue. It returns what is to
// be logged. The account's lock is held.
func (a *account) own(w *watch, old, r *reading, now time.Time) []line {
	if w.kind == KindPoison && w.pair != nil {
		return nil // its main queue's holds
	}
	o, faults := ownershipOf(r.metadata)
	var lines []line
	if _, before := ownershipOf(old.metadata); len(faults) > 0 && strings.Join(before, "; ") != strings.Join(faults, "; ") {
		lines = append(lines, metadataLine(w, faults))
	}
	if o == w.owner || !w.ownerAt.IsZero() && now.Sub(w.ownerAt) < ownershipHolds {
		return lines
	}
	w.owner, w.ownerAt = o, now
	l := newLabeller()
	for _, each := range []*watch{w, w.pair} {
		if each == nil {
			continue
		}
		s := *each.spec.Load()
		s.target = s.given.owned(o)
		s.labels = l.sets(&s)
		each.spec.Store(&s)
	}
	return lines
}
