package redisstore

import (
	"context"
	"fmt"
	"math/big"
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/ratelimittest"
	"github.com/gresil/gresil/internal/redisserver"
)

// aclOfTheDocs are the rules of the three lines in the package documentation.
func aclOfTheDocs(t *testing.T) (alone, local, cluster []string) {
	t.Helper()
	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	var lines [][]string
	for _, m := range regexp.MustCompile(`(?m)^//\t((?:ACL SETUSER \S+ on >\S+ |)[~+&].*)$`).FindAllSubmatch(doc, -1) {
		words := strings.Fields(string(m[1]))
		if words[0] == "ACL" {
			words = words[5:]
		}
		lines = append(lines, words)
	}
	require.Len(t, lines, 3)
	return lines[0], lines[1], lines[2]
}

// TestACL: a user with these rules can do all that the store does, and one without any of
// them, except PING, cannot.
func TestACL(t *testing.T) {
	t.Parallel()
	alone, local, cluster := aclOfTheDocs(t)
	user := func(t *testing.T, servers []*redisserver.Server, rules []string) {
		t.Helper()
		for _, s := range servers {
			_, err := s.Do(append([]string{"acl", "setuser", "limiter", "reset", "on", ">secret"}, rules...)...)
			require.NoError(t, err)
		}
	}
	as := func(o *redis.Options) { o.Username, o.Password = "limiter", "secret" }
	t.Run("alone", func(t *testing.T) {
		t.Parallel()
		srv := startServer(t)
		user(t, []*redisserver.Server{srv.Server}, append(alone, local...))
		modes(t, func(t *testing.T, mode Mode) {
			t.Helper()
			require.NoError(t, allKinds(t, srv.client(t, as), mode))
		})
	})
	for i, rule := range append(alone, local...) {
		need := require.Error
		if rule == "+ping" {
			need = require.NoError // it is optional
		}
		t.Run("without "+rule, func(t *testing.T) {
			t.Parallel()
			srv := startServer(t)
			rules := append(append([]string{}, alone...), local...)
			user(t, []*redisserver.Server{srv.Server}, append(rules[:i], rules[i+1:]...))
			need(t, allKinds(t, srv.client(t, as), Strict))
		})
	}
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		servers, admin := startCluster(t, nil)
		user(t, servers, append(append(alone, local...), cluster...))
		require.NoError(t, admin.Close())
		client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: servers.Addrs(), ContextTimeoutEnabled: true, Username: "limiter", Password: "secret"})
		t.Cleanup(func() { _ = client.Close() })
		modes(t, func(t *testing.T, mode Mode) {
			t.Helper()
			require.NoError(t, allKinds(t, client, mode))
		})
	})
}

// allKinds does every operation under every kind of limit, and beats.
func allKinds(t *testing.T, client redis.UniversalClient, mode Mode) error {
	t.Helper()
	ctx := context.Background()
	s := newStore(t, client, Config{Mode: mode})
	if err := s.Check(ctx); err != nil {
		return err
	}
	for _, life := range []time.Duration{beatLife, 0} {
		if _, err := s.sendBeat(ctx, patient, life); err != nil {
			return err
		}
	}
	for name, l := range kinds(10, time.Hour) {
		limiter, err := ratelimit.New(ratelimit.Config{Name: name, Limit: l, Store: s, OnStoreError: ratelimit.Deny})
		if err != nil {
			return err
		}
		for i := range 3 {
			key := fmt.Sprint(mode, i)
			take, err := limiter.Take(ctx, key, 1)
			if err != nil {
				return err
			}
			if err := limiter.Refund(ctx, take); err != nil {
				return err
			}
			other := ratelimittest.Under(t, limiter, ratelimit.TokenBucket(10, time.Minute, 10)) // two kinds on one key
			for _, l := range []*ratelimit.Limiter{limiter, other, limiter} {
				if _, err := l.Take(ctx, key, 1); err != nil {
					return err
				}
			}
			if err := limiter.Reset(ctx, key); err != nil {
				return err
			}
		}
	}
	return nil
}

// TestLuaMulDiv: a share of a window is more than a number of Lua can hold while
// it is computed.
func TestLuaMulDiv(t *testing.T) {
	t.Parallel()
	client := startServer(t).client(t)
	rng := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // a test is repeated by its seed
	text := read("now.lua", "names.lua", "countermath.lua") + `
local q, r = muldiv(tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]))
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

// TestScripts: a server keeps each that it was sent.
func TestScripts(t *testing.T) {
	t.Parallel()
	shas := map[string]bool{manyScripts[algBucket]().sha: true, manyScripts[algWindow]().sha: true, beatScript().sha: true}
	for set := uint(1); set < 1<<len(algorithms); set++ {
		s := accountScript(set)
		require.Same(t, s, accountScript(set))
		require.Less(t, len(s.text), 32_000)
		shas[s.sha] = true
	}
	require.Len(t, shas, 18)
}

func TestScriptFlush(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, mode Mode) {
		t.Helper()
		client := startServer(t).client(t)
		table := open(t, newStore(t, client, Config{Mode: mode}), "flush")
		limits := kinds(1000, 1000*time.Hour) // no permit comes back meanwhile
		for round := range 20 {
			var wg sync.WaitGroup
			for name, l := range limits {
				for range 5 {
					wg.Go(func() { take(t, table, name, l, 1) })
				}
			}
			if round%2 == 0 {
				require.NoError(t, client.ScriptFlush(context.Background()).Err())
			}
			wg.Wait()
		}
		for name, l := range limits {
			require.EqualValues(t, 900, take(t, table, name, l, 0).Remaining, "%s: each take counted once", name)
		}
	})
}
