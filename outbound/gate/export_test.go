package gate

// Classes returns how many groups of calls a gate with a Store knows.
func (g *Gate) Classes() int {
	defer g.lock()()
	return len(g.classes)
}
