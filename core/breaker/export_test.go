package breaker

// For the tests of this package.
const (
	DefaultName         = "default"
	DefaultOpenTime     = defaultOpenTime
	DefaultTrialTimeout = defaultTrialTimeout
	MaxWindow           = maxWindow
	MaxTrials           = maxTrials
	MinWindowTime       = minWindowTime
)

func (g *Group) Overflow() *Breaker { return g.overflow }
func (b *Breaker) Key() string      { return b.key }
