package redisstore

import (
	"context"
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLargeProductsAreExact: a share of a window is more than a number of Lua can hold while
// it is computed.
func TestLargeProductsAreExact(t *testing.T) {
	t.Parallel()
	client := startServer(t).client(t)
	rng := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // a test is repeated by its seed
	text := strings.Replace(newScript("decide/head.lua", "decide/counter.lua").text, "  A.c = {", "  A.muldiv = muldiv\n  A.c = {", 1) + `
local q, r = A.muldiv(tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]))
return {q, r}`
	for range 2000 {
		c := 1 + rng.Int64N(1<<(1+rng.IntN(48)))
		a := rng.Int64N(c + 1)
		b := rng.Int64N(1 << (1 + rng.IntN(48)))
		got, err := client.Eval(context.Background(), text, []string{"k"}, "1", a, b, c).Int64Slice()
		require.NoError(t, err)
		q, r := new(big.Int).DivMod(new(big.Int).Mul(big.NewInt(a), big.NewInt(b)), big.NewInt(c), new(big.Int))
		require.Equal(t, []int64{q.Int64(), r.Int64()}, got, fmt.Sprint(a, b, c))
	}
}

// TestScriptsAreFew: a server keeps each that it was sent.
func TestScriptsAreFew(t *testing.T) {
	t.Parallel()
	shas := map[string]bool{bucketScript().sha: true, windowScript().sha: true, beatScript().sha: true}
	for set := uint(1); set < 1<<len(algorithms); set++ {
		s := decideScript(set)
		require.Same(t, s, decideScript(set))
		require.Less(t, len(s.text), 32_000)
		shas[s.sha] = true
	}
	require.Len(t, shas, 18)
}
