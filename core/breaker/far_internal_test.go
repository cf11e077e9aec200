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

// TestARateThatIsExactlyReachedIsNotFar: a rate times its calls can be rounded up, as 0.07 × 100 is.
func TestARateThatIsExactlyReachedIsNotFar(t *testing.T) {
	t.Parallel()
	for percent := 1; percent <= 100; percent++ {
		for calls := 100; calls <= 1000; calls += 100 {
			rules := rulesOf(&Config{FailureRate: float64(percent) / 100, Window: calls, MinCalls: calls, SlowCall: time.Second, SlowRate: float64(percent) / 100})
			n := percent * calls / 100
			for _, c := range []counts{{calls: calls, failures: n}, {calls: calls, slow: n}} {
				failing, slow := rules.reached(&c)
				require.True(t, failing || slow, "%d %% of %d", percent, calls)
				require.False(t, rules.far(&c), "%d %% of %d", percent, calls)
			}
		}
	}
}
