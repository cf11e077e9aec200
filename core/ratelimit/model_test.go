package ratelimit_test

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/ratelimittest"
)

// TestTwoLimitsInTurns is how a key behaves whose limit changes with every operation.
func TestTwoLimitsInTurns(t *testing.T) {
	t.Parallel()
	for seed := range uint64(400) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 21))
			pair := ratelimittest.RandomPair(rng)
			table := core.Must(openMemory(t).Open("turns"))
			var plans [2]*limits.Plan
			for i, l := range pair {
				plans[i] = core.Must(table.Plan(limits.Limit(l).Specs()))
			}
			start := time.Now()
			ratelimittest.CheckTurns(t, rng, pair, func(now time.Duration, which int, op limits.Op) limits.Result {
				time.Sleep(now - time.Since(start))
				r, err := table.Apply(t.Context(), "k", plans[which], op)
				require.NoError(t, err)
				return r
			})
		})
	}
}
