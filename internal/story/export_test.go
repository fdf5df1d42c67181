package story

// Expire has the next Fleet made anew.
func (r *Recorder) Expire() {
	r.cached.mu.Lock()
	defer r.cached.mu.Unlock()
	r.cached.fleet = nil
}

// Look takes one look.
func (r *Recorder) Look() { r.look(1) }
