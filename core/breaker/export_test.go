package breaker

func (g *Group) Overflow() *Breaker { return g.overflow }
