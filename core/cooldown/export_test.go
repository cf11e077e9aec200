package cooldown

// AfterHold reports whether the call has a slot, as those do that run after a hold.
func (p *Permit) AfterHold() bool { return p.slot != 0 }

const (
	DefaultName     = "default"
	DefaultMaxQueue = defaultMaxQueue
	DefaultMaxHold  = defaultMaxHold
	LongestHold     = longestHold
)
