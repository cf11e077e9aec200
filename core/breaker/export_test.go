package breaker

func (g *Group) Overflow() *Breaker { return g.overflow.Load() }

// Timed reports whether the clock was read at the admission.
func (p *Permit) Timed() bool { return p.word&timed != 0 }
