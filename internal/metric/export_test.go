package metric

import "time"

// Age moves the beginning of an account's bill into the past.
func (b *Bill) Age(account string, d time.Duration) {
	a := (*b.accounts.Load())[account]
	a.mu.Lock()
	defer a.mu.Unlock()
	a.past[0].at = a.past[0].at.Add(-d)
}
