package redisstore

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/internal/gatestore"
	"github.com/gresil/gresil/internal/gatestoretest"
	"github.com/gresil/gresil/internal/limits"
)

// The script decides as its model does.
func TestGateModel(t *testing.T) {
	t.Parallel()
	client := startServer(t).virtual(t)
	s := newStore(t, client, Config{})
	now := time.UnixMicro(epoch).Add(time.Hour)
	s.clock = func() time.Time { return now }
	vendor, a, b := gatestore.Key{Vendor: true}, gatestore.Key{Limit: "account", Key: "a"}, gatestore.Key{Limit: "account", Key: "b c#"}
	for seed := range uint64(30) {
		random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a test
		table, err := s.OpenGate(fmt.Sprint("vendor ", seed))
		require.NoError(t, err)
		model := gatestoretest.New(0, func() time.Duration { return now.Sub(time.UnixMicro(epoch)) }).Process(0)
		type attempt struct {
			ids   [2]uint64 // of the script and of the model
			draws []gatestore.Draw
			gens  []uint64
		}
		var all []attempt
		inFlight := random.IntN(5)
		draws := func() []gatestore.Draw {
			d := []gatestore.Draw{{Key: vendor}, {Key: a, Spacing: 7 * time.Millisecond, Lead: 14 * time.Millisecond}, {Key: b, Spacing: 300 * time.Millisecond}}
			return d[:1+random.IntN(3)]
		}
		both := func(op func(of gatestore.Table, which int) (any, error)) {
			got, err := op(table, 0)
			require.NoError(t, err)
			want, err := op(model, 1)
			require.NoError(t, err)
			require.Equal(t, want, got, "seed %d", seed)
		}
		both(func(of gatestore.Table, _ int) (any, error) { return of.Renew(t.Context(), "p0", nil) }) // it writes the value
		for range 300 {
			now = now.Add(time.Duration(random.IntN([]int{1000, 100_000, 4_000_000}[random.IntN(3)])) * time.Microsecond)
			process := fmt.Sprint("p", random.IntN(3))
			one := attempt{}
			if len(all) > 0 {
				one = all[random.IntN(len(all))]
			}
			switch kind := random.IntN(10); {
			case kind < 4 || len(all) == 0:
				ask := gatestore.Ask{
					Process: process, Mode: gatestore.Pass, Calls: 1 + random.IntN(4), Draws: draws(), InFlight: inFlight,
					RoundTrip: 20 * time.Millisecond, Ahead: 40 * time.Millisecond, Late: random.IntN(4) == 0,
				}
				if kind == 3 {
					ask.Mode, ask.Ahead, ask.Late = gatestore.Reserve, time.Minute, false
				}
				var found [2][]gatestore.Slot
				both(func(of gatestore.Table, which int) (any, error) {
					g, err := of.Pass(t.Context(), ask)
					for i := range g.Slots {
						found[which] = append(found[which], g.Slots[i])
						g.Slots[i].ID = 0
					}
					g.Again = g.Again.Truncate(time.Microsecond)
					return g, err
				})
				for i, slot := range found[0] {
					if ask.Mode == gatestore.Pass {
						all = append(all, attempt{[2]uint64{slot.ID, found[1][i].ID}, ask.Draws, slot.Generations})
					}
				}
			case kind == 4:
				ask := gatestore.Ask{Process: process, Mode: gatestore.Again, Calls: 1, Draws: slices.Clone(one.draws), InFlight: inFlight, RoundTrip: 20 * time.Millisecond}
				for i := range ask.Draws {
					ask.Draws[i].Generation = one.gens[i]
				}
				both(func(of gatestore.Table, which int) (any, error) {
					ask.ID = one.ids[which]
					g, err := of.Pass(t.Context(), ask)
					for i := range g.Slots {
						g.Slots[i].ID = 0
					}
					g.Again = g.Again.Truncate(time.Microsecond)
					return g, err
				})
			case kind < 8:
				e := gatestore.End{Generations: one.gens, Turn: random.IntN(3) > 0, Place: random.IntN(3) > 0, Success: random.IntN(4) > 0}
				for _, d := range one.draws {
					e.Keys = append(e.Keys, d.Key)
				}
				both(func(of gatestore.Table, which int) (any, error) {
					e.ID = one.ids[which]
					return of.End(t.Context(), []gatestore.End{e})
				})
			case kind == 8:
				var holds []gatestore.Hold
				for i, d := range one.draws {
					holds = append(holds, gatestore.Hold{
						Key: d.Key, For: time.Duration(1+random.IntN(5000)) * time.Millisecond, Generation: one.gens[i], Halve: random.IntN(2) == 0,
					})
					if one.ids[1]%8 == 0 { // the process has decided by itself
						holds[i].Generation = math.MaxUint64
					}
				}
				both(func(of gatestore.Table, _ int) (any, error) { return of.Hold(t.Context(), holds) })
			case random.IntN(4) == 0:
				both(func(of gatestore.Table, _ int) (any, error) {
					return nil, of.Resume(t.Context(), []gatestore.Key{vendor, a})
				})
			default:
				both(func(of gatestore.Table, which int) (any, error) {
					return of.Renew(t.Context(), process, []uint64{one.ids[which]})
				})
			}
		}
	}
}

// What ends in the server ends when it would have if its clock had not gone back.
func TestGateClockGoesBack(t *testing.T) {
	t.Parallel()
	s := newStore(t, startServer(t).virtual(t), Config{})
	now := time.UnixMicro(epoch).Add(100 * time.Hour)
	s.clock = func() time.Time { return now }
	table, err := s.OpenGate("vendor")
	require.NoError(t, err)
	vendor := gatestore.Key{Vendor: true}
	ask := gatestore.Ask{Process: "p", Mode: gatestore.Pass, Calls: 1, Draws: []gatestore.Draw{{Key: vendor}}, InFlight: 1, Ahead: time.Second}
	g, err := table.Pass(t.Context(), ask)
	require.NoError(t, err)
	require.Len(t, g.Slots, 1)
	_, err = table.Hold(t.Context(), []gatestore.Hold{{Key: vendor, For: 3 * time.Second}})
	require.NoError(t, err)
	now = now.Add(-time.Hour)
	for _, wait := range []time.Duration{3 * time.Second, 2 * time.Second, time.Second} {
		g, err = table.Pass(t.Context(), ask)
		require.NoError(t, err)
		require.True(t, g.Held)
		require.Equal(t, wait, g.Again)
		now = now.Add(time.Second)
	}
	g, err = table.Pass(t.Context(), ask)
	require.NoError(t, err)
	require.False(t, g.Held)
	require.True(t, g.Poll, "the place is still in use")
	now = now.Add(7 * time.Second)
	g, err = table.Pass(t.Context(), ask)
	require.NoError(t, err)
	require.Len(t, g.Slots, 1)
	require.True(t, g.Slots[0].Probe)
}

func TestGateErrors(t *testing.T) {
	t.Parallel()
	client := startServer(t).client(t)
	s := newStore(t, client, Config{})
	table, err := s.OpenGate("vendor")
	require.NoError(t, err)
	require.NoError(t, client.Set(t.Context(), "gresil:{gate=vendor}", "mine", 0).Err())
	_, err = table.Renew(t.Context(), "p", nil)
	require.ErrorContains(t, err, "another program has written to the key")
	require.NoError(t, client.Del(t.Context(), "gresil:{gate=vendor}").Err())
	require.NoError(t, client.ScriptFlush(t.Context()).Err())
	_, err = table.Renew(t.Context(), "p", nil)
	require.NoError(t, err)
	require.InDelta(t, 10*time.Second, client.PTTL(t.Context(), "gresil:{gate=vendor}").Val(), float64(5*time.Second))
	require.NoError(t, table.Leave(t.Context(), "p"))
	require.Zero(t, client.Exists(t.Context(), "gresil:{gate=vendor}").Val())
	require.NoError(t, s.Close())
	_, err = table.Renew(t.Context(), "p", nil)
	require.ErrorIs(t, err, limits.ErrClosed)
	_, err = s.OpenGate("vendor")
	require.ErrorIs(t, err, limits.ErrClosed)
}
