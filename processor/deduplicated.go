package processor

// Deduplicated counts, for a middleware such as package dedup's, that the message's business key was
// looked up, and whether its work was found done before. Call it once a delivery.
func (m *Message) Deduplicated(hit bool) {
	if m.d != nil {
		m.d.p.metrics.Deduplicated(hit)
	}
}
