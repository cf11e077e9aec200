package backoff

import (
	"time"

	"github.com/gresil/gresil/internal/validate"
)

// Constant waits equally long before every retry. Its zero value does not wait.
type Constant struct {
	// Wait is the wait before every retry, at least 0.
	Wait time.Duration
	// Jitter spreads each wait over Wait ± Jitter × Wait. It is from 0 (none) to 1.
	Jitter float64
	// Rand returns numbers from [0,1) and must be safe for concurrent use.
	// If nil, math/rand/v2 is used.
	Rand func() float64
}

// Delay returns Wait, spread by Jitter.
func (s Constant) Delay(int, time.Duration) time.Duration {
	return spread(max(0, s.Wait), 0, s.Jitter, s.Rand)
}

func (s Constant) validate() error {
	check := validate.Of("backoff.Constant")
	check.That(s.Wait >= 0, "Wait", s.Wait, "must be >= 0")
	checkJitter(check, s.Jitter)
	return check.Err()
}
