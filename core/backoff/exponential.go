package backoff

import (
	"cmp"
	"math"
	"time"

	"github.com/gresil/gresil/internal/validate"
)

// Exponential multiplies the wait before every retry:
// Initial × Multiplier^(n-1).
type Exponential struct {
	// Initial is the wait before the first retry. It must be above 0.
	Initial time.Duration
	// Multiplier is what each further retry multiplies the wait by, above 1.
	// If zero, it is 2.
	Multiplier float64
	// Max is the longest wait, at least Initial. If zero, there is no limit.
	Max time.Duration
	// Jitter spreads each wait d over d ± Jitter × d, but not above Max. It is
	// from 0 (none) to 1.
	Jitter float64
	// Rand returns numbers from [0,1) and must be safe for concurrent use.
	// If nil, math/rand/v2 is used.
	Rand func() float64
}

// Delay returns the wait before retry n, spread by Jitter.
func (s Exponential) Delay(n int, _ time.Duration) time.Duration {
	d := s.Initial
	if n > 1 {
		d = saturate(float64(s.Initial) * math.Pow(cmp.Or(s.Multiplier, 2), float64(n-1)))
	}
	return spread(capped(d, s.Max), s.Max, s.Jitter, s.Rand)
}

func (s Exponential) validate() error {
	check := validate.Of("backoff.Exponential")
	check.That(s.Initial > 0, "Initial", s.Initial, "must be > 0")
	check.That(s.Multiplier == 0 || finite(s.Multiplier) && s.Multiplier > 1, "Multiplier", s.Multiplier, "must be > 1 and finite (0 means 2)")
	checkMax(check, s.Max, "Initial", s.Initial)
	checkJitter(check, s.Jitter)
	return check.Err()
}
