package ratelimit_test

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/stores/denycache"
	"github.com/gresil/gresil/stores/share"
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

func TestAWrappedStoreIsTheStoreThatItWraps(t *testing.T) {
	t.Parallel()
	store := core.Must(ratelimit.NewMemory(0))
	wrapped := core.Must(denycache.New(store, denycache.Config{}))
	stores := []ratelimit.Store{store, wrapped, core.Must(denycache.New(wrapped, denycache.Config{})), core.Must(share.New(store, share.Config{}))}
	for i, one := range stores {
		for j, other := range stores {
			first := core.Must(ratelimit.New(ratelimit.Config{Store: one}))
			_, err := ratelimit.New(ratelimit.Config{Store: other})
			require.ErrorIs(t, err, core.ErrConfig, "no name, stores %d and %d", i, j)
			require.NoError(t, first.Close())

			a, b := core.Must(ratelimit.New(ratelimit.Config{Name: "a", Store: one})), core.Must(ratelimit.New(ratelimit.Config{Name: "a", Store: other}))
			_, err = ratelimit.Chain{{Limiter: a, Key: "k"}, {Limiter: b, Key: "k"}}.Take(t.Context(), 1)
			require.ErrorIs(t, err, core.ErrConfig, "a chain, stores %d and %d", i, j)
			c := core.Must(ratelimit.New(ratelimit.Config{Name: "c", Store: other}))
			_, err = ratelimit.Chain{{Limiter: a, Key: "k"}, {Limiter: c, Key: "k"}}.Take(t.Context(), 1)
			require.NoError(t, err, "tables of two names")
		}
	}
}

func TestLimitersWithoutANameDoNotShareAStore(t *testing.T) {
	t.Parallel()
	store := core.Must(ratelimit.NewMemory(0))
	open := func(name string) (*ratelimit.Limiter, error) {
		return ratelimit.New(ratelimit.Config{Name: name, Store: store})
	}
	refused := func(name string) {
		t.Helper()
		_, err := open(name)
		var bad *core.ConfigError
		require.ErrorAs(t, err, &bad)
		require.Equal(t, "ratelimit.Config.Name", bad.Field)
		require.Contains(t, bad.Reason, "must be another name")
	}
	first := core.Must(open(""))
	refused("")
	refused("default")
	other := core.Must(open("other"))
	again := core.Must(open("other")) // which says that they share
	require.EqualValues(t, 999, core.Must(other.Take(t.Context(), "k", 1)).Remaining)
	require.EqualValues(t, 998, core.Must(again.Take(t.Context(), "k", 1)).Remaining)
	core.Must(ratelimit.New(ratelimit.Config{}))
	core.Must(ratelimit.New(ratelimit.Config{}))
	core.Must(ratelimit.New(ratelimit.Config{Store: core.Must(ratelimit.NewMemory(0))}))

	require.NoError(t, first.Close())
	require.NoError(t, first.Close())
	named := core.Must(open("default"))
	second := core.Must(open("default"))
	refused("")
	require.NoError(t, named.Close())
	refused("")
	require.NoError(t, second.Close())
	registry := &core.Registry{}
	core.Must(ratelimit.New(ratelimit.Config{Registry: registry}))
	_, err := ratelimit.New(ratelimit.Config{Store: store, Registry: registry})
	require.ErrorContains(t, err, "already registered", "and what was not made has no claim")
	core.Must(open(""))
}

func TestALimiterThatIsDroppedGivesItsNameBack(t *testing.T) {
	t.Parallel()
	store := core.Must(ratelimit.NewMemory(0))
	core.Must(ratelimit.New(ratelimit.Config{Store: store}))
	for range 1000 {
		runtime.GC()
		if _, err := ratelimit.New(ratelimit.Config{Store: store}); err == nil {
			return
		}
	}
	t.Error(errors.New("the name is still in use"))
}

// A wrapper has the tables of a store in memory.
type wrapper struct{ ratelimit.Store }

// A maker makes a new table each time.
type maker struct{ ratelimit.Store }

func (maker) Open(name string) (limits.Table, error) {
	return core.Must(ratelimit.NewMemory(0)).Open(name)
}

func TestLimitersOverOneTableShareItThroughAnyStore(t *testing.T) {
	t.Parallel()
	store := core.Must(ratelimit.NewMemory(0))
	first := core.Must(ratelimit.New(ratelimit.Config{Store: store}))
	_, err := ratelimit.New(ratelimit.Config{Store: &wrapper{store}})
	require.ErrorIs(t, err, core.ErrConfig, "the table has a limiter without a name")
	require.NoError(t, first.Close())
	second := core.Must(ratelimit.New(ratelimit.Config{Store: &wrapper{store}}))
	_, err = ratelimit.New(ratelimit.Config{Store: store})
	require.ErrorIs(t, err, core.ErrConfig)
	require.NoError(t, second.Close())
	core.Must(ratelimit.New(ratelimit.Config{Store: store}))

	fresh := &maker{}
	core.Must(ratelimit.New(ratelimit.Config{Store: fresh}))
	_, err = ratelimit.New(ratelimit.Config{Store: fresh})
	require.ErrorIs(t, err, core.ErrConfig, "the store has one")

	a := core.Must(ratelimit.New(ratelimit.Config{Name: "a", Store: &wrapper{store}}))
	again := core.Must(ratelimit.New(ratelimit.Config{Name: "a", Store: &wrapper{store}}))
	_, err = ratelimit.Chain{{Limiter: a, Key: "k"}, {Limiter: again, Key: "k"}}.Take(t.Context(), 1)
	require.ErrorIs(t, err, core.ErrConfig, "one count, twice")
}
