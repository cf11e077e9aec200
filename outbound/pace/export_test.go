package pace

// Lanes returns the number of keys that are kept.
func (p *Pacer) Lanes() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.lanes)
}

// Lines returns the number of sub-keys that are kept of a key.
func (p *Pacer) Lines(key string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.lanes[key]; l != nil {
		return max(len(l.lines), len(l.turns))
	}
	return 0
}
