package minheap_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/internal/minheap"
)

type element struct {
	minheap.Place

	n int
}

func (e *element) Before(o *element) bool { return e.n < o.n }

// A heap is like a slice that is sorted after each change. Equal elements have any order.
func TestModel(t *testing.T) {
	t.Parallel()
	var h minheap.Heap[*element]
	all := map[*element]bool{}
	remove := func(e *element) {
		h.Remove(e)
		h.Remove(e) // it does nothing
		delete(all, e)
	}
	check := func() {
		most, below := rand.IntN(50), 0
		for e := range h.All() {
			require.True(t, all[e])
			require.GreaterOrEqual(t, e.n, h.First().n)
			if e.n < most {
				below++
			}
		}
		require.Equal(t, len(all), h.Len())
		require.Equal(t, below, h.Count(func(e *element) bool { return e.n < most }))
	}
	for range 2000 {
		some := slices.Collect(maps.Keys(all))
		if i := rand.IntN(60); i < len(some) {
			remove(some[i])
		} else {
			e := &element{n: rand.IntN(50)}
			h.Add(e)
			all[e] = true
		}
		check()
	}
	for h.Len() > 0 {
		remove(h.First())
		check()
	}
}
