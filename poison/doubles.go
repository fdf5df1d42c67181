package poison

import "fmt"

// same returns the message of that key among those that say they are the same one; nil when there is none.
func (l *logical) same(key identity) *logical {
	for l != nil && l.key != key {
		l = l.other
	}
	return l
}

// ids are those that the selection names.
func (t *task) ids() map[string]bool {
	ids := make(map[string]bool, len(t.s.Filter.IDs))
	for _, id := range t.s.Filter.IDs {
		ids[id] = true
	}
	return ids
}

// doubles leaves messages alone of which it is not clear which one is meant: several, of different contents, say they
// are the one that was named by its original id. The same goes for a replay where it cannot be told whether they
// are copies. Whoever names a copy has said which.
func (t *task) doubles(l *logical) {
	if l.other == nil {
		return
	}
	n, unsure := 0, false
	for o := l; o != nil; o = o.other {
		n++
		unsure = unsure || o.unsure
	}
	for ; l != nil; l = l.other {
		switch {
		case !l.chosen || l.named:
		case unsure && t.sends:
			t.skip(l, fmt.Sprintf("%d messages say they are this one, and it cannot be told whether they are copies, for one cannot be read; name one by its poisonMessageId", n))
		case len(t.s.Filter.IDs) > 0:
			t.skip(l, fmt.Sprintf("%d messages of different contents say they are this one; name the one that is meant by its poisonMessageId", n))
		}
	}
}
