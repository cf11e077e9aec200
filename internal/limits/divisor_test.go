package limits

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDivisor(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	check := func(x, n int64) {
		d := newDivisor(n)
		if q, rest := d.of(x); q != x/n || rest != x%n {
			require.Equal(t, [2]int64{x / n, x % n}, [2]int64{q, rest}, "%d/%d", x, n)
		}
	}
	edges := []int64{0, 1, 2, 3, 5, 7, 10, 1<<32 - 1, 1 << 32, 1<<32 + 1, 1e9, 1e18, 1<<61 - 1, 1 << 61, 1 << 62, math.MaxInt64 - 1, math.MaxInt64}
	for _, x := range edges {
		for _, n := range edges[1:] {
			check(x, n)
			check(x/n*n, n)
			check(max(0, x/n*n-1), n)
		}
	}
	for range 200_000 {
		n := 1 + r.Int64()>>r.IntN(63)
		x := r.Int64() >> r.IntN(63)
		check(x, max(1, n))
		check(x/max(1, n)*max(1, n), max(1, n))
	}
}
