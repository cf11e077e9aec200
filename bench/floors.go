package bench

import (
	"context"
	"fmt"
	"hash/maphash"
	"math/bits"
	"net/http"
	"sync/atomic"
	"time"
)

// floorRows are the things that no implementation does without.
func floorRows(s Sizes) []Row {
	seed, base := maphash.MakeSeed(), time.Now()
	var word atomic.Int64
	row := func(name string, f func() Work) Row {
		return Row{Name: "floor: " + name, Subjects: []Subject{floorOf(name, f)}}
	}
	probe := row("table probe and CAS, with hash and clock, 100,000 keys", floorTake(s.Many, taking{n: 1}).Make)
	probe.Keys = s.Many
	return []Row{
		row("a turn with nothing in it", func() Work { return work(func(string) bool { return true }) }),
		row("monotonic clock", func() Work { return work(func(string) bool { return time.Since(base) >= 0 }) }),
		row("seeded hash of a key", func() Work { return work(func(key string) bool { return maphash.String(seed, key) != 0 }) }),
		row("CAS", func() Work {
			return work(func(string) bool { old := word.Load(); return word.CompareAndSwap(old, old+1) })
		}),
		row("table probe and CAS, with hash and clock, 1 key", floorTake(1, taking{n: 1}).Make),
		probe,
		row("context.WithTimeout", func() Work {
			return work(func(string) bool {
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				return ctx.Err() == nil
			})
		}),
		row("empty handler", func() Work { return serve(empty(), 0, false) }),
		row("empty handler with 4 fields", func() Work { return serve(withFields(empty(), 4), 4, false) }),
		row("stub transport", func() Work { return exchange(&stub{}, nil) }),
	}
}

// A floorTable is a GCRA in an open table of the right size: a hash with a seed, a
// probe, the clock and a CAS. It evicts nothing, cannot grow, has one limit, and
// returns a bool.
type floorTable struct {
	seed                maphash.Seed
	base                time.Time
	cells               []floorCell
	emission, tolerance int64
}

type floorCell struct {
	hash atomic.Uint64
	tat  atomic.Int64
}

// newFloorTable is for so many keys, each of which takes as much as t says.
func newFloorTable(keys int, t taking) *floorTable {
	emission, burst := int64(1), int64(1<<50)
	if t.refused {
		emission, burst = int64(time.Hour), 1
	}
	return &floorTable{
		seed: maphash.MakeSeed(), base: time.Now(), emission: emission, tolerance: emission * burst,
		cells: make([]floorCell, 2<<bits.Len(uint(keys-1))),
	}
}

func (t *floorTable) take(key string, n int64) bool {
	cell := t.find(maphash.String(t.seed, key) | 1)
	now := int64(time.Since(t.base))
	for {
		old := cell.tat.Load()
		next := max(old, now) + n*t.emission
		if next-now > t.tolerance {
			return false
		}
		if cell.tat.CompareAndSwap(old, next) {
			return true
		}
	}
}

func (t *floorTable) find(hash uint64) *floorCell {
	mask := uint64(len(t.cells) - 1)
	for i := hash >> 1; ; i++ {
		cell := &t.cells[i&mask]
		if has := cell.hash.Load(); has == hash || has == 0 && (cell.hash.CompareAndSwap(0, hash) || cell.hash.Load() == hash) {
			return cell
		}
	}
}

// floorTake is the floor of all that take a permit of a key.
func floorTake(keys int, t taking) Subject {
	return floorOf("table", func() Work {
		table := newFloorTable(keys, t)
		return work(func(key string) bool { return table.take(key, t.n) != t.refused })
	})
}

// withFields sets n fields whose text is there already.
func withFields(next http.Handler, n int) http.Handler {
	names, values := make([]string, n), make([][]string, n)
	for i := range n {
		names[i], values[i] = fmt.Sprintf("X-Ratelimit-Field%d", i), []string{"1073741824"}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		for i, name := range names {
			h[name] = values[i]
		}
		next.ServeHTTP(w, r)
	})
}
