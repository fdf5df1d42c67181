package collector

// NewSeeded is New with what is random decided by a seed.
func NewSeeded(cfg Config, seed uint64) (*Collector, error) { return newCollector(cfg, seed) }

// OwnershipOf reads metadata.
func OwnershipOf(metadata map[string]string) (Ownership, []string) { return ownershipOf(metadata) }
