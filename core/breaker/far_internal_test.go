package breaker

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestAWindowThatReachesAThresholdIsNeverFar: the short way of a recorded call never keeps a
// breaker closed that the rates would open.
func TestAWindowThatReachesAThresholdIsNeverFar(t *testing.T) {
	t.Parallel()
	r, reached, far := rand.New(rand.NewPCG(1, 2)), 0, 0
	for range 200_000 {
		cfg := Config{FailureRate: float64(1+r.IntN(1000)) / 1000, Window: 1 + r.IntN(200)}
		cfg.MinCalls = 1 + r.IntN(cfg.Window)
		if r.IntN(3) == 0 {
			cfg.SlowCall, cfg.SlowRate = time.Second, float64(1+r.IntN(100))/100
		}
		if r.IntN(4) == 0 {
			cfg.Failures, cfg.FailureRate = 1+r.IntN(20), 0
		}
		rules := rulesOf(&cfg)
		c := counts{calls: r.IntN(cfg.Window + 1)}
		c.failures, c.slow = r.IntN(c.calls+1), r.IntN(c.calls+1)
		failing, slow := rules.reached(&c)
		if failing || slow {
			reached++
			require.False(t, rules.far(&c), "%+v %+v", cfg, c)
		} else if rules.far(&c) {
			far++
		}
	}
	require.Greater(t, reached, 1000)
	require.Greater(t, far, 1000)
}
