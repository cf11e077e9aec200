package redisstore

import (
	"context"
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
)

// TestLargeProductsAreExact: a share of a window is more than a number of Lua can hold while
// it is computed.
func TestLargeProductsAreExact(t *testing.T) {
	t.Parallel()
	client := startServer(t).client(t)
	rng := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // a test is repeated by its seed
	text := strings.Replace(newScript("time.lua", "head.lua", "counter.lua").text, "  A.c = {", "  A.muldiv = muldiv\n  A.c = {", 1) + `
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
		s := accountScript(set)
		require.Same(t, s, accountScript(set))
		require.Less(t, len(s.text), 32_000)
		shas[s.sha] = true
	}
	require.Len(t, shas, 18)
}

// TestOneKeyAtOnceIsAsOneAfterTheOther: what is decided for one key in one command has the
// results, and leaves the value, of as many commands.
func TestOneKeyAtOnceIsAsOneAfterTheOther(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	client := startServer(t).virtual(t)
	s := newStore(t, client, Config{})
	rng := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test is repeated by its seed
	for name, all := range map[string][]ratelimit.Limit{
		"buckets": {ratelimit.TokenBucket(10, time.Hour, 20), ratelimit.TokenBucket(3, time.Hour, 7), ratelimit.TokenBucket(700, 24*time.Hour, 9)},
		"windows": {ratelimit.FixedWindow(10, time.Hour), ratelimit.FixedWindow(20, time.Hour), ratelimit.FixedWindow(9, 24*time.Hour), ratelimit.AlignedWindow(8, time.Hour)},
	} {
		table := newTable(s, name)
		var plans []*plan
		for _, l := range all {
			id, err := table.Plan(limits.Limit(l).Specs())
			require.NoError(t, err)
			plans = append(plans, planOf(id))
		}
		now := time.UnixMicro(epoch).AddDate(1, 0, 0)
		for range 1000 {
			now = now.Add(time.Duration(rng.Int64N(int64(2*time.Hour))) - 6*time.Minute) // the clock may go back
			s.clock = func() time.Time { return now }
			key := fmt.Sprint("k", rng.IntN(2))
			var together []*request
			var alone []int64
			for range 1 + rng.IntN(5) {
				kind := []limits.OpKind{limits.Take, limits.TakeAtMost, limits.Check, limits.Drain, limits.Reserve}[rng.IntN(5)]
				if name == "windows" && kind == limits.Reserve {
					kind = limits.Take
				}
				op := limits.Op{Kind: kind, Cost: rng.Int64N(12), MaxWait: time.Hour}
				p := plans[0]
				if rng.IntN(4) == 0 {
					p = plans[rng.IntN(len(plans))]
				}
				together = append(together, table.request(key, p, op))
				reply := run(t, s, table.request(key+" alone", p, op))
				alone = append(alone, reply[1:]...)
			}
			reply := run(t, s, together...)
			require.Equal(t, alone, reply[1:])
			name, other := together[0].key, table.request(key+" alone", plans[0], limits.Op{}).key
			require.Equal(t, client.Get(ctx, other).Val(), client.Get(ctx, name).Val())
			require.InDelta(t, client.PTTL(ctx, other).Val(), client.PTTL(ctx, name).Val(), float64(time.Minute))
		}
	}
}

// run sends requests of one script in one command.
func run(t *testing.T, s *Store, reqs ...*request) []int64 {
	t.Helper()
	var keys, args []any
	for _, req := range reqs {
		keys, args = append(keys, req.key), append(args, req.args...)
	}
	cmd := s.command(t.Context(), reqs[0].script, true, keys, args)
	require.NoError(t, s.client.Process(t.Context(), cmd))
	return cmd.Val()
}
