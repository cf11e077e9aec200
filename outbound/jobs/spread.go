package jobs

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/internal/validate"
)

// RandomSpread returns the strategy that draws each wait anew from the time between shortest and
// longest. It is for Queue.Spread, if the calls over a limit are to spread over the next minute
// instead of taking their slots. Of bad arguments, Config.Validate returns an error.
func RandomSpread(shortest, longest time.Duration) backoff.Strategy {
	return randomSpread{shortest, longest}
}

type randomSpread struct{ shortest, longest time.Duration }

func (s randomSpread) Next(int, time.Duration) time.Duration {
	if s.longest <= s.shortest {
		return max(0, s.shortest)
	}
	return s.shortest + rand.N(s.longest-s.shortest) //nolint:gosec // no secret
}

// Shortest is for internal/jitter.
func (s randomSpread) Shortest() time.Duration { return max(0, s.shortest) }

// Validate is called by that of a Config.
func (s randomSpread) Validate() error {
	check := validate.Of("backoff.RandomSpread")
	check.That(s.shortest >= 0, "Shortest", s.shortest, "must be >= 0")
	check.That(s.longest >= s.shortest, "Longest", s.longest, fmt.Sprintf("must be >= the shortest, %v", s.shortest))
	return check.Err()
}
