package gate

// Ready returns how many calls are looked at, and Wakes how many scopes wake one.
func (g *Gate) Ready() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.ready.len()
}

func (g *Gate) Wakes() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.wakes)
}

// Buckets returns how many keys have the name of a bucket.
func (g *Gate) Buckets() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.buckets)
}
