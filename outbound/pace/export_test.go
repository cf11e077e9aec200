package pace

// Lanes returns the number of keys that are kept.
func (p *Pacer) Lanes() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.lanes)
}
