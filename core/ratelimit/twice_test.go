package ratelimit_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
)

func TestAChainRefusesToChargeACountTwice(t *testing.T) {
	t.Parallel()
	store := core.Must(ratelimit.NewMemory(0))
	named := func(name string, limit ratelimit.Limit) *ratelimit.Limiter {
		return core.Must(ratelimit.New(ratelimit.Config{Name: name, Store: store, Limit: limit}))
	}
	a, b := named("a", ratelimit.PerHour(10)), named("b", ratelimit.PerHour(10))
	bucket := ratelimit.TokenBucket(5, time.Second, 5)
	for name, c := range map[string]struct {
		chain   ratelimit.Chain
		refused bool
	}{
		"two limiters":           {ratelimit.Chain{{Limiter: a, Key: "k"}, {Limiter: b, Key: "k"}}, false},
		"two keys":               {ratelimit.Chain{{Limiter: a, Key: "k"}, {Limiter: a, Key: "l"}}, false},
		"twice":                  {ratelimit.Chain{{Limiter: a, Key: "k"}, {Limiter: a, Key: "k"}}, true},
		"twice, not in a row":    {ratelimit.Chain{{Limiter: a, Key: "k"}, {Limiter: b, Key: "k"}, {Limiter: a, Key: "k"}}, true},
		"another tier":           {ratelimit.Chain{{Limiter: a, Key: "k"}, {Limiter: core.Must(a.WithLimit(ratelimit.PerHour(20))), Key: "k"}}, true},
		"another kind":           {ratelimit.Chain{{Limiter: a, Key: "k"}, {Limiter: core.Must(a.WithLimit(bucket)), Key: "k"}}, true},
		"a joined kind":          {ratelimit.Chain{{Limiter: a, Key: "k"}, {Limiter: core.Must(a.WithLimit(bucket.And(ratelimit.PerHour(9)))), Key: "k"}}, true},
		"of one name, one table": {ratelimit.Chain{{Limiter: a, Key: "k"}, {Limiter: named("a", ratelimit.PerHour(10)), Key: "k"}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			for method, run := range map[string]func() error{
				"Take": func() error { _, err := c.chain.Take(t.Context(), 1); return err },
				"Wait": func() error { _, err := c.chain.Wait(t.Context(), 1); return err },
				"look": func() error { _, err := c.chain.Take(t.Context(), 0); return err },
			} {
				before := core.Must(c.chain[0].Limiter.Peek(t.Context(), "k")).Remaining
				err := run()
				if !c.refused {
					require.NoError(t, err, method)
					continue
				}
				require.ErrorIs(t, err, core.ErrConfig, method)
				require.ErrorContains(t, err, "ratelimit.Chain[")
				require.Equal(t, before, core.Must(c.chain[0].Limiter.Peek(t.Context(), "k")).Remaining, "nothing is charged")
			}
			for _, l := range c.chain {
				require.NoError(t, l.Limiter.Reset(t.Context(), l.Key))
			}
		})
	}
}

// A wrapper has the tables of a store in memory.
type wrapper struct{ ratelimit.Store }

func TestLimitersOverOneTableShareItThroughAnyStore(t *testing.T) {
	t.Parallel()
	store := core.Must(ratelimit.NewMemory(0))
	a := core.Must(ratelimit.New(ratelimit.Config{Name: "a", Store: &wrapper{store}}))
	again := core.Must(ratelimit.New(ratelimit.Config{Name: "a", Store: &wrapper{store}}))
	_, err := ratelimit.Chain{{Limiter: a, Key: "k"}, {Limiter: again, Key: "k"}}.Take(t.Context(), 1)
	require.ErrorIs(t, err, core.ErrConfig, "one count, twice")
}
