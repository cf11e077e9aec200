package bulkhead

// KeyState returns the state of a key that is kept, without the number of its calls.
func (b *Bulkhead) KeyState(key string) Stats {
	c := &b.unkeyed
	if key != "" {
		c = b.open(key)
	}
	c.lock()
	defer c.unlock()
	return Stats{InFlight: c.limit - free(c.word.Load()), Limit: c.limit, Waiting: c.queue.Len()}
}
