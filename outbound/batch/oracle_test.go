package batch_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/outbound/batch"
)

// An oracle is a store that looks through lists for everything.
type oracle struct {
	records []*known // in the order of their arrival
	marks   map[string]int
	paused  map[string]bool
	turns   []string // due options in the order of their turns
	serial  int
}

type known struct {
	n        int // sequence
	id       string
	option   string
	key      string
	held     bool
	content  int
	added    time.Time
	place    string // "pending", "failed", "gone", or the ID of a batch
	attempts int
}

type slot struct {
	id       string
	delivery int
	leased   bool
	until    time.Time
	ready    time.Time
}

func (o *oracle) in(option, place string) (found []*known) {
	for _, r := range o.records {
		if r.option == option && r.place == place {
			found = append(found, r)
		}
	}
	sort.SliceStable(found, func(i, j int) bool { return found[i].n < found[j].n })
	return found
}

// A game plays the same operations with a store and with the oracle.
type game struct {
	*testing.T
	*oracle
	store   batch.Store
	random  *rand.Rand
	batches map[string]*slot
	owner   map[string]string // option of a batch
}

const (
	oldAge     = 20 * time.Second
	gameRecord = 7 // the size of each
	gameSize   = 6 // FlushSize
)

func gameRules() batch.Rules {
	return batch.Rules{FlushSize: gameSize, MaxPending: 1000, MaxGroups: 100}
}

func (g *game) option() string { return string(rune('a' + g.random.IntN(4))) }

// due returns the due options that are not paused, after those that have become due by time have
// joined.
func (g *game) due() {
	type joining struct {
		at     time.Time
		option string
	}
	var all []joining
	now := time.Now()
	for id, s := range g.batches {
		if !s.until.After(now) && s.ready.IsZero() {
			s.ready = s.until
			all = append(all, joining{s.until, g.owner[id]})
		}
	}
	for _, option := range []string{"a", "b", "c", "d"} {
		if p := g.in(option, "pending"); len(p) > 0 && p[0].n > g.marks[option] && now.Sub(p[0].added) >= oldAge {
			g.marks[option] = g.serial
			all = append(all, joining{p[0].added.Add(oldAge), option})
		}
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].at.Before(all[j].at) })
	for _, j := range all {
		g.join(j.option)
	}
}

func (g *game) isDue(option string) bool {
	for id, s := range g.batches {
		if g.owner[id] == option && !s.ready.IsZero() {
			return true
		}
	}
	p := g.in(option, "pending")
	return len(p) > 0 && p[0].n <= g.marks[option]
}

// join puts an option where it belongs after a change.
func (g *game) join(option string) {
	there := slices.Contains(g.turns, option)
	want := g.isDue(option) && !g.paused[option]
	switch {
	case want && !there:
		g.turns = append(g.turns, option)
	case !want && there:
		g.turns = slices.DeleteFunc(g.turns, func(o string) bool { return o == option })
	}
}

func (g *game) add() {
	g.serial++
	r := &known{n: g.serial, id: fmt.Sprint("r", g.serial), option: g.option(), content: g.serial, added: time.Now(), place: "pending"}
	if g.random.IntN(3) == 0 {
		r.key, r.held = fmt.Sprint("k", g.random.IntN(3)), g.random.IntN(2) == 0
	}
	added, err := g.store.Add(g.Context(), "m", &batch.Record{ID: r.id, Option: r.option, Key: r.key, UntilDone: r.held, Payload: fmt.Append(nil, r.content), Size: gameRecord}, gameRules())
	require.NoError(g, err)
	for _, other := range g.records {
		holds := other.place == "pending" || other.held && other.place != "failed" && other.place != "gone"
		if r.key != "" && other.key == r.key && other.option == r.option && holds {
			if other.place == "pending" {
				other.content = r.content
			}
			require.Equal(g, batch.Added{ID: other.id, Replaced: true, Due: g.isDue(r.option)}, added)
			return
		}
	}
	g.records = append(g.records, r)
	if len(g.in(r.option, "pending")) >= gameSize {
		g.marks[r.option] = g.serial
	}
	g.join(r.option)
	require.Equal(g, batch.Added{ID: r.id, Due: g.isDue(r.option)}, added)
}

func (g *game) lease() {
	g.serial++
	terms := batch.Terms{ID: fmt.Sprint("b", g.serial), MaxRecords: 4, MaxBytes: 3*gameRecord + g.random.IntN(2)*gameRecord, FlushAfter: oldAge, Lease: 10 * time.Second}
	got, _, err := g.store.Lease(g.Context(), "m", terms)
	require.NoError(g, err)
	if len(g.turns) == 0 {
		require.Empty(g, got.Records)
		return
	}
	option := g.turns[0]
	require.Equal(g, option, got.Option)
	g.turns = g.turns[1:]
	s := g.batches[got.ID]
	if s == nil {
		for id, other := range g.batches {
			require.False(g, g.owner[id] == option && !other.ready.IsZero(), "batch %s is due", id)
		}
		s = &slot{id: got.ID}
		g.batches[got.ID], g.owner[got.ID] = s, option
		p := g.in(option, "pending")
		for _, r := range p[:min(len(p), 4, terms.MaxBytes/gameRecord)] {
			r.place = got.ID
		}
	} else {
		require.False(g, s.ready.IsZero(), "batch %s is not due", got.ID)
		for id, other := range g.batches {
			require.False(g, g.owner[id] == option && !other.ready.IsZero() && other.ready.Before(s.ready), "batch %s is earlier", id)
		}
		require.Equal(g, s.leased, got.Expired)
	}
	s.delivery++
	s.leased, s.ready, s.until = true, time.Time{}, time.Now().Add(terms.Lease)
	require.Equal(g, s.delivery, got.Delivery)
	var want, have []string
	for _, r := range g.in(option, got.ID) {
		want = append(want, fmt.Sprintf("%s %d %d", r.id, r.content, r.attempts))
	}
	for _, r := range got.Records {
		have = append(have, fmt.Sprintf("%s %s %d", r.ID, r.Payload, r.Attempts))
	}
	require.Equal(g, want, have)
	g.join(option)
}

// settle settles a batch at random: each record is done, fails, is tried again, or is in one of two parts.
func (g *game) settle() {
	if len(g.batches) == 0 {
		return
	}
	ids := make([]string, 0, len(g.batches))
	for id := range g.batches {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	s := g.batches[ids[g.random.IntN(len(ids))]]
	delivery := s.delivery - g.random.IntN(5)/4
	option, members := g.owner[s.id], g.in(g.owner[s.id], s.id)
	settlement := batch.Settlement{ID: s.id, Delivery: delivery, MaxFailed: 1000}
	var again, other []int
	choices := g.random.IntN(4)
	for i := range members {
		switch g.random.IntN(choices + 1) {
		case 1:
			settlement.Failed = append(settlement.Failed, i)
		case 2:
			again = append(again, i)
		case 3:
			other = append(other, i)
		}
	}
	g.serial++
	halfID := fmt.Sprint("p", g.serial)
	after := time.Duration(g.random.IntN(15)) * time.Second
	next := map[string]*slot{}
	part := func(id string, records []int, after time.Duration, attempt bool) {
		if len(records) > 0 {
			settlement.Parts = append(settlement.Parts, batch.Part{ID: id, Records: records, After: after, Attempt: attempt})
			next[id] = &slot{id: id, until: time.Now().Add(after)}
		}
	}
	part(s.id, again, after, true)
	part(halfID, other, 0, false)
	err := g.store.Settle(g.Context(), "m", settlement)
	if !s.leased || delivery != s.delivery {
		require.ErrorIs(g, err, batch.ErrLeaseLost)
		return
	}
	require.NoError(g, err)
	delete(g.batches, s.id)
	for i, r := range members {
		switch {
		case slices.Contains(again, i):
			r.attempts++
		case slices.Contains(other, i):
			r.place = halfID
		case slices.Contains(settlement.Failed, i):
			g.serial++
			r.n, r.place = g.serial, "failed" // the order of Retry
		default:
			r.place = "gone"
		}
	}
	for id, n := range next {
		if id == s.id {
			n.delivery = s.delivery
		}
		if !n.until.After(time.Now()) {
			n.ready = time.Now()
		}
		g.batches[id], g.owner[id] = n, option
	}
	g.join(option)
}

func (g *game) control() {
	option := g.option()
	switch g.random.IntN(5) {
	case 0:
		require.NoError(g, g.store.Flush(g.Context(), "m", option))
		g.marks[option] = g.serial
	case 1, 2:
		g.paused[option] = !g.paused[option]
		require.NoError(g, g.store.Pause(g.Context(), "m", option, g.paused[option], 100))
	case 3:
		failed := g.in(option, "failed")
		n, err := g.store.Retry(g.Context(), "m", option)
		require.NoError(g, err)
		require.Equal(g, len(failed), n)
		for _, r := range failed {
			g.serial++
			r.n, r.place, r.key, r.attempts = g.serial, "pending", "", 0
		}
		if n > 0 {
			g.marks[option] = g.serial
		}
	case 4:
		if g.random.IntN(5) == 0 {
			g.delete(option)
		}
	}
	g.join(option)
}

func (g *game) delete(option string) {
	removed := slices.Concat(g.in(option, "pending"), g.in(option, "failed"))
	for id, s := range g.batches {
		if g.owner[id] == option && (!s.leased || !s.ready.IsZero()) {
			removed = append(removed, g.in(option, id)...)
			delete(g.batches, id)
		}
	}
	n, err := g.store.Delete(g.Context(), "m", option)
	require.NoError(g, err)
	require.Equal(g, len(removed), n)
	for _, r := range removed {
		r.place = "gone"
	}
	for _, r := range g.records {
		if r.option == option {
			r.key = "" // all keys are free
		}
	}
	g.paused[option] = false
}

// check compares the figures.
func (g *game) check() {
	g.due()
	state, err := g.store.Ready(g.Context(), "m", oldAge)
	require.NoError(g, err)
	require.Equal(g, len(g.turns) > 0, state.Due)
	listing, err := g.store.Groups(g.Context(), "m", 100)
	require.NoError(g, err)
	records := 0
	for _, option := range []string{"a", "b", "c", "d"} {
		want := batch.GroupInfo{Option: option, Paused: g.paused[option], Due: g.isDue(option)}
		want.Pending, want.Failed = len(g.in(option, "pending")), len(g.in(option, "failed"))
		for id, s := range g.batches {
			if g.owner[id] == option && s.leased {
				want.InFlight += len(g.in(option, id))
			} else if g.owner[id] == option {
				want.Retrying += len(g.in(option, id))
			}
		}
		records += want.Pending + want.InFlight + want.Retrying
		i := slices.IndexFunc(listing.Groups, func(i batch.GroupInfo) bool { return i.Option == option })
		if want == (batch.GroupInfo{Option: option}) {
			require.Negative(g, i, "group %s has nothing", option)
			continue
		}
		have := listing.Groups[i]
		require.Equal(g, want, batch.GroupInfo{
			Option: have.Option, Paused: have.Paused, Due: have.Due, Pending: have.Pending, Failed: have.Failed, InFlight: have.InFlight, Retrying: have.Retrying,
		})
	}
	require.Equal(g, records, state.Records)
}

func randomOperations(t *testing.T, seed uint64, steps int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := &game{
			T: t, oracle: &oracle{marks: map[string]int{}, paused: map[string]bool{}}, store: batch.NewMemory(),
			random: rand.New(rand.NewPCG(seed, 3)), batches: map[string]*slot{}, owner: map[string]string{},
		}
		for range steps {
			time.Sleep(time.Microsecond) // no two times are equal
			g.check()
			switch n := g.random.IntN(20); {
			case n < 9:
				g.add()
			case n < 12:
				g.lease()
			case n < 16:
				g.settle()
			case n < 17:
				g.control()
			default:
				time.Sleep(time.Duration(g.random.IntN(8000))*time.Millisecond + time.Duration(g.random.IntN(1e6)))
			}
		}
	})
}

func TestTheMemoryDoesAsASimpleOracle(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		randomOperations(t, seed, 600)
	}
}
