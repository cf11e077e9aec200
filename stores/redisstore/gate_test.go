package redisstore

import (
	"cmp"
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
			slots [2]gatestore.Slot // of the script and of the model
			draws []gatestore.Draw
		}
		var all []attempt
		inFlight := random.IntN(5)
		draws := func() []gatestore.Draw {
			unit := time.Duration(7+3*random.IntN(2)) * time.Millisecond // now and then another limit
			if random.IntN(8) > 0 {
				unit = 7 * time.Millisecond
			}
			d := []gatestore.Draw{{Key: vendor}, {Key: a, Spacing: unit, Unit: unit, Lead: 2 * unit}, {Key: b, Spacing: 300 * time.Millisecond, Unit: 100 * time.Millisecond}}
			return d[:1+random.IntN(3)]
		}
		both := func(op func(of gatestore.Table, which int) (any, error)) {
			got, err := op(table, 0)
			require.NoError(t, err)
			want, err := op(model, 1)
			require.NoError(t, err)
			require.Equal(t, want, got, "seed %d", seed)
		}
		pass := func(ask gatestore.Ask, one attempt) (found [2][]gatestore.Answer) {
			both(func(of gatestore.Table, which int) (any, error) {
				if ask.Mode == gatestore.Again {
					ask.Groups[0].ID = one.slots[which].ID
				}
				g, err := of.Pass(t.Context(), ask)
				found[which] = g.Answers
				all := slices.Clone(g.Answers)
				for i := range all {
					if all[i].Slots = slices.Clone(all[i].Slots); len(all[i].Slots) == 0 {
						all[i].Slots = nil
					}
					all[i].Again = all[i].Again.Truncate(time.Microsecond)
				}
				return gatestore.Grant{State: g.State, Answers: all}, err
			})
			return found
		}
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
					Process: process, Mode: gatestore.Pass, InFlight: inFlight, RoundTrip: 20 * time.Millisecond, Ahead: 40 * time.Millisecond,
					Late: random.IntN(4) == 0,
				}
				for range 1 + random.IntN(2) {
					ask.Groups = append(ask.Groups, gatestore.Group{Calls: 1 + random.IntN(4), Draws: draws()})
				}
				if kind == 3 {
					ask.Mode, ask.Ahead, ask.Late, ask.Groups = gatestore.Reserve, time.Minute, false, ask.Groups[:1]
				}
				found := pass(ask, one)
				for i, answer := range found[0] {
					for k, slot := range answer.Slots {
						all = append(all, attempt{[2]gatestore.Slot{slot, found[1][i].Slots[k]}, ask.Groups[i].Draws})
					}
				}
			case kind == 4:
				ask := gatestore.Ask{Process: process, Mode: gatestore.Again, InFlight: inFlight, RoundTrip: 20 * time.Millisecond}
				ask.Groups = []gatestore.Group{{Calls: 1, Draws: slices.Clone(one.draws)}}
				for i := range ask.Groups[0].Draws {
					ask.Groups[0].Draws[i].Generation = one.slots[0].Generations[i]
				}
				pass(ask, one)
			case kind < 8:
				e := gatestore.End{Draws: one.draws, Turn: random.IntN(3) > 0, Place: random.IntN(3) > 0, Success: random.IntN(4) > 0}
				back := random.IntN(3) > 0
				both(func(of gatestore.Table, which int) (any, error) {
					if e.Of = one.slots[which]; !back {
						e.Of.Tails = nil
					}
					state, _, err := of.Report(t.Context(), gatestore.Report{Process: process, Ends: []gatestore.End{e}})
					return state, err
				})
			case kind == 8:
				var holds []gatestore.Hold
				for i, d := range one.draws {
					holds = append(holds, gatestore.Hold{
						Key: d.Key, For: time.Duration(1+random.IntN(5000)) * time.Millisecond, Generation: one.slots[0].Generations[i], Halve: random.IntN(2) == 0,
					})
					if one.slots[1].ID%8 == 0 { // the process has decided by itself
						holds[i].Generation = math.MaxUint64
					}
				}
				both(func(of gatestore.Table, _ int) (any, error) {
					_, inForce, err := of.Report(t.Context(), gatestore.Report{Process: process, Holds: holds})
					return inForce, err
				})
			case random.IntN(4) == 0:
				keys := []gatestore.Key{a, b}[:random.IntN(3)]
				both(func(of gatestore.Table, _ int) (any, error) { return nil, of.Resume(t.Context(), keys) })
			default:
				both(func(of gatestore.Table, which int) (any, error) {
					state, _, err := of.Report(t.Context(), gatestore.Report{Process: process, Renew: []uint64{one.slots[which].ID}})
					return state, err
				})
			}
		}
	}
}

// A value is kept for as long as something that it says can matter.
func TestGateValues(t *testing.T) {
	t.Parallel()
	client := startServer(t).virtual(t)
	s := newStore(t, client, Config{})
	now := time.UnixMicro(epoch).Add(100 * time.Hour)
	s.clock = func() time.Time { return now }
	vendor, a := gatestore.Draw{Key: gatestore.Key{Vendor: true}}, gatestore.Draw{Key: gatestore.Key{Limit: "account", Key: "a"}}
	hold := func(of gatestore.Table, gen uint64, d time.Duration) time.Duration {
		_, holds, err := of.Report(t.Context(), gatestore.Report{Process: "p", Holds: []gatestore.Hold{{Key: a.Key, For: d, Generation: gen}}})
		require.NoError(t, err)
		return holds[0].For
	}
	pass := func(of gatestore.Table) gatestore.Answer {
		g, err := of.Pass(t.Context(), gatestore.Ask{Process: "p", Mode: gatestore.Pass, Groups: []gatestore.Group{{Calls: 1, Draws: []gatestore.Draw{vendor, a}}}})
		require.NoError(t, err)
		return g.Answers[0]
	}
	name := func(of gatestore.Table) string { return of.(*gateTable).key(a.Key) }

	probe, err := s.OpenGate("probe")
	require.NoError(t, err)
	hold(probe, math.MaxUint64, time.Millisecond)
	now = now.Add(time.Second)
	require.True(t, pass(probe).Slots[0].Probe)
	require.Greater(t, client.PTTL(t.Context(), name(probe)).Val(), 15*time.Second, "another probe follows, exactly one")

	lost, err := s.OpenGate("lost")
	require.NoError(t, err)
	hold(lost, math.MaxUint64, time.Millisecond)
	now = now.Add(time.Second)
	before := pass(lost).Slots[0].Generations[1]
	require.NoError(t, client.Del(t.Context(), name(lost)).Err())
	after := pass(lost).Slots[0].Generations[1]
	require.Equal(t, 3*time.Second, hold(lost, after, 3*time.Second))
	require.Equal(t, time.Minute, hold(lost, before, time.Minute), "the longest pause counts, also one of a call from before")

	back, err := s.OpenGate("clock")
	require.NoError(t, err)
	hold(back, math.MaxUint64, 3*time.Hour)
	now = now.Add(-time.Hour)
	require.True(t, pass(back).Held)
	require.NoError(t, back.Resume(t.Context(), nil))
	require.False(t, pass(back).Held)
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
	ask := gatestore.Ask{Process: "p", Mode: gatestore.Pass, Groups: []gatestore.Group{{Calls: 1, Draws: []gatestore.Draw{{Key: vendor}}}}, InFlight: 1, Ahead: time.Second}
	g, err := table.Pass(t.Context(), ask)
	require.NoError(t, err)
	require.Len(t, g.Answers[0].Slots, 1)
	_, _, err = table.Report(t.Context(), gatestore.Report{Process: "p", Holds: []gatestore.Hold{{Key: vendor, For: 3 * time.Second}}})
	require.NoError(t, err)
	now = now.Add(-time.Hour)
	for _, wait := range []time.Duration{3 * time.Second, 2 * time.Second, time.Second} {
		g, err = table.Pass(t.Context(), ask)
		require.NoError(t, err)
		require.True(t, g.Answers[0].Held)
		require.Equal(t, wait, g.Answers[0].Again)
		now = now.Add(time.Second)
	}
	g, err = table.Pass(t.Context(), ask)
	require.NoError(t, err)
	require.False(t, g.Answers[0].Held)
	require.True(t, g.Answers[0].Poll, "the place is still in use")
	now = now.Add(7 * time.Second)
	g, err = table.Pass(t.Context(), ask)
	require.NoError(t, err)
	require.Len(t, g.Answers[0].Slots, 1)
	require.True(t, g.Answers[0].Slots[0].Probe)
}

// The usage of a key, its slots and its turns are as old as before.
func TestGateUsageWhenClockGoesBack(t *testing.T) {
	t.Parallel()
	s := newStore(t, startServer(t).virtual(t), Config{})
	now := time.UnixMicro(epoch).Add(100 * time.Hour)
	s.clock = func() time.Time { return now }
	vendor := gatestore.Draw{Key: gatestore.Key{Vendor: true}}
	draw := gatestore.Draw{Key: gatestore.Key{Limit: "account", Key: "a"}, Spacing: time.Minute, Unit: time.Minute}
	for name, row := range map[string]struct {
		mode  gatestore.Mode
		late  bool
		n     int                                              // calls that pass before
		then  func(of gatestore.Table, slots []gatestore.Slot) // after that
		unit  time.Duration
		after time.Duration // since the clock has gone back
		want  time.Duration // until the next one
	}{
		"tail": {n: 1, want: time.Minute},
		"last": {n: 1, unit: 30 * time.Second, want: 30 * time.Second},
		"pace": {n: 1, late: true, want: time.Minute - 12500*time.Microsecond},
		"spare": {mode: gatestore.Reserve, n: 3, then: func(of gatestore.Table, slots []gatestore.Slot) {
			back := slots[1]
			back.Tails[0] = 0
			_, _, err := of.Report(t.Context(), gatestore.Report{Process: "p", Ends: []gatestore.End{{Of: back, Draws: []gatestore.Draw{vendor, draw}}}})
			require.NoError(t, err)
		}, want: time.Minute},
		"out": {then: func(of gatestore.Table, _ []gatestore.Slot) {
			_, _, err := of.Report(t.Context(), gatestore.Report{Process: "p", Holds: []gatestore.Hold{{Key: draw.Key, For: time.Second}}})
			require.NoError(t, err)
			now = now.Add(time.Second)
			ask := gatestore.Ask{Process: "p", Mode: gatestore.Pass, Groups: []gatestore.Group{{Calls: 1, Draws: []gatestore.Draw{vendor, {Key: draw.Key}}}}}
			g, err := of.Pass(t.Context(), ask)
			require.NoError(t, err)
			require.True(t, g.Answers[0].Slots[0].Probe)
		}, after: 10 * time.Second},
	} {
		table, err := s.OpenGate(name)
		require.NoError(t, err)
		d := draw
		ask := gatestore.Ask{Process: "p", Mode: cmp.Or(row.mode, gatestore.Pass), Late: row.late, Ahead: time.Hour}
		if row.mode == "" {
			ask.Ahead = 0
		}
		pass := func(n int) gatestore.Answer {
			ask.Groups = []gatestore.Group{{Calls: n, Draws: []gatestore.Draw{vendor, d}}}
			g, err := table.Pass(t.Context(), ask)
			require.NoError(t, err, name)
			return g.Answers[0]
		}
		var slots []gatestore.Slot
		if row.n > 0 {
			slots = pass(row.n).Slots
			require.Len(t, slots, row.n, name)
		}
		if row.then != nil {
			row.then(table, slots)
		}
		now = now.Add(-time.Hour)
		if row.unit > 0 {
			d.Spacing, d.Unit = row.unit, row.unit
		}
		ask.Mode, ask.Ahead = gatestore.Pass, 0
		pass(1)
		now = now.Add(row.after)
		require.Equal(t, row.want, pass(1).Again, name)
	}
}

func TestGateErrors(t *testing.T) {
	t.Parallel()
	client := startServer(t).client(t)
	s := newStore(t, client, Config{})
	table, err := s.OpenGate("vendor")
	require.NoError(t, err)
	require.NoError(t, client.Set(t.Context(), "gresil:{gate=vendor}", "mine", 0).Err())
	_, _, err = table.Report(t.Context(), gatestore.Report{Process: "p"})
	require.ErrorContains(t, err, "another program has written to the key")
	require.NoError(t, client.Del(t.Context(), "gresil:{gate=vendor}").Err())
	require.NoError(t, client.ScriptFlush(t.Context()).Err())
	_, _, err = table.Report(t.Context(), gatestore.Report{Process: "p"})
	require.NoError(t, err)
	require.InDelta(t, 10*time.Second, client.PTTL(t.Context(), "gresil:{gate=vendor}").Val(), float64(5*time.Second))
	_, _, err = table.Report(t.Context(), gatestore.Report{Process: "p", Leave: true})
	require.NoError(t, err)
	require.Zero(t, client.Exists(t.Context(), "gresil:{gate=vendor}").Val())
	require.NoError(t, s.Close())
	_, _, err = table.Report(t.Context(), gatestore.Report{Process: "p"})
	require.ErrorIs(t, err, limits.ErrClosed)
	_, err = s.OpenGate("vendor")
	require.ErrorIs(t, err, limits.ErrClosed)
}
