package ratelimit_test

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
)

// A modelCount is what a key has used of one limit: the list of its takes, from which
// everything is computed anew each time. It shares nothing with the code under test.
type modelCount struct {
	l        ratelimit.Limit
	epoch    int64 // Unix time of the time 0
	takes    []modelTake
	replaced bool // the limit was replaced by SetLimit, and has not been in force since
}

type modelTake struct{ at, n int64 }

// free returns the permits available at a time at or after the last take.
func (c *modelCount) free(t int64) int64 {
	period := int64(spec(c.l).Period)
	switch spec(c.l).Algorithm {
	case limits.TokenBucket:
		return c.bucket(t)
	case limits.SlidingCounter:
		return c.counter(t)
	case limits.FixedWindow:
		start, used := int64(-1), int64(0)
		for _, take := range c.takes {
			if start < 0 || take.at >= start+period {
				start, used = take.at, 0
				if spec(c.l).Aligned {
					start -= (start + c.epoch) % period
				}
			}
			used += take.n
		}
		if start < 0 || t >= start+period {
			used = 0
		}
		return spec(c.l).Permits - used
	case limits.SlidingWindow, limits.SlidingLog:
	}
	step := int64(1)
	if spec(c.l).Algorithm == limits.SlidingWindow {
		step = period / int64(spec(c.l).Segments)
	}
	used := int64(0)
	for _, take := range c.takes {
		if take.at/step*step+period > t {
			used += take.n
		}
	}
	return spec(c.l).Permits - used
}

func (c *modelCount) bucket(t int64) int64 {
	debt, last := new(big.Rat), int64(0)
	leak := func(to int64) {
		debt.Sub(debt, new(big.Rat).Mul(big.NewRat(to-last, 1), big.NewRat(spec(c.l).Permits, int64(spec(c.l).Period))))
		if debt.Sign() < 0 {
			debt = new(big.Rat)
		}
		last = to
	}
	for _, take := range c.takes {
		leak(take.at)
		debt.Add(debt, big.NewRat(take.n, 1))
	}
	leak(t)
	free := new(big.Rat).Sub(big.NewRat(spec(c.l).Burst, 1), debt)
	return new(big.Int).Div(free.Num(), free.Denom()).Int64()
}

func (c *modelCount) counter(t int64) int64 {
	period, start, before, used := int64(spec(c.l).Period), int64(0), int64(0), int64(0)
	roll := func(to int64) {
		for to >= start+period && (before > 0 || used > 0) {
			start, before, used = start+period, used, 0
		}
		if before == 0 && used == 0 {
			start = to
		}
	}
	for _, take := range c.takes {
		roll(take.at)
		used += take.n
	}
	roll(t)
	weight := new(big.Rat).Mul(big.NewRat(before, 1), big.NewRat(start+period-t, period))
	free := new(big.Rat).Sub(big.NewRat(spec(c.l).Permits-used, 1), weight)
	return new(big.Int).Div(free.Num(), free.Denom()).Int64()
}

func (c *modelCount) used(t int64) int64 { return limits.Limit(c.l).Capacity() - c.free(t) }

// take takes n permits, or as many as are available. A log that is full forgets the oldest.
func (c *modelCount) take(t, n int64) {
	if spec(c.l).Algorithm == limits.SlidingWindow || spec(c.l).Algorithm == limits.SlidingLog {
		n = min(n, spec(c.l).Permits)
		c.takes = slices.Clone(c.takes)
		for i := 0; c.free(t) < n; i++ {
			c.takes[i].n = max(0, c.takes[i].n-(n-c.free(t)))
		}
	}
	if n = min(n, c.free(t)); n > 0 {
		c.takes = append(c.takes, modelTake{t, n})
	}
}

// wait returns the time until n permits are available: by bisection, since without a take
// they do not become fewer.
func (c *modelCount) wait(t, n int64) int64 {
	low, high := t-1, t+3*int64(spec(c.l).Period)*(1+limits.Limit(c.l).Capacity()/spec(c.l).Permits)
	for high-low > 1 {
		if mid := low + (high-low)/2; c.free(mid) >= n {
			high = mid
		} else {
			low = mid
		}
	}
	return high - t
}

// A modelKey keeps a count for each limit that the key was charged under.
type modelKey struct {
	counts  []*modelCount
	joined  bool         // the last operation that changed the key was held to several limits
	changed []*modelRoot // since then
}

// A modelRoot is a SetLimit.
type modelRoot struct {
	limit    ratelimit.Limit
	at       int64
	replaced []ratelimit.Limit // since the beginning
}

func contains(l, part ratelimit.Limit) bool { return slices.Contains(parts(l), part) }

func pairs(a, b ratelimit.Limit) bool {
	return spec(a).Algorithm == spec(b).Algorithm && spec(a).Period == spec(b).Period && spec(a).Segments == spec(b).Segments && spec(a).Aligned == spec(b).Aligned
}

func (k *modelKey) find(l ratelimit.Limit) *modelCount {
	for _, c := range k.counts {
		if c.l == l {
			return c
		}
	}
	return nil
}

// carry adds the counts that a limit lacks, as of a time.
func (k *modelKey) carry(limit ratelimit.Limit, epoch, t int64) (added int) {
	parts := parts(limit)
	k.prune(t, func(c *modelCount, alive bool) bool {
		return c.replaced && contains(limit, c.l) || !alive && !contains(limit, c.l)
	})
	old := k.counts
	for _, part := range parts {
		if c := k.find(part); c != nil {
			c.replaced = false
			continue
		}
		paired, largest, unpaired := int64(-1), int64(0), int64(0)
		for _, c := range old {
			used, alone := c.used(t), true
			largest = max(largest, used)
			if pairs(c.l, part) {
				paired = max(paired, used)
			}
			for _, other := range parts {
				alone = alone && !pairs(c.l, other)
			}
			if alone {
				unpaired = max(unpaired, used)
			}
		}
		use := largest
		if len(parts) > 1 || k.joined {
			if use = unpaired; paired >= 0 {
				use = paired
			}
		}
		c := &modelCount{l: part, epoch: epoch}
		c.take(t, use)
		k.counts = append(k.counts, c)
		added++
	}
	k.prune(t, func(c *modelCount, _ bool) bool { return c.replaced })
	return added
}

// prune forgets counts that have recovered.
func (k *modelKey) prune(t int64, which func(c *modelCount, alive bool) bool) {
	alive := slices.ContainsFunc(k.counts, func(c *modelCount) bool { return c.used(t) > 0 })
	k.counts = slices.DeleteFunc(k.counts, func(c *modelCount) bool { return c.used(t) == 0 && which(c, alive) })
	k.joined = k.joined && alive
}

// change is SetLimit, as far as the key had something to carry over, of a limit that was replaced.
func (k *modelKey) change(r *modelRoot, epoch int64) (added int) {
	used, held := int64(0), false
	for _, c := range k.counts {
		held = held || slices.Contains(r.replaced, c.l)
		c.replaced = c.replaced || slices.Contains(r.replaced, c.l)
		used = max(used, c.used(r.at))
	}
	if used > 0 && held {
		added = k.carry(r.limit, epoch, r.at)
	}
	return added
}

// decide is a take of n permits.
func (k *modelKey) decide(limit ratelimit.Limit, epoch, t, n int64) (allowed bool, remaining, wait int64) {
	before, added := *k, 0
	k.counts = nil
	for _, c := range before.counts {
		again := *c
		k.counts = append(k.counts, &again)
	}
	defer func() {
		if !allowed && added == 0 { // it leaves all as it was
			*k = before
		}
	}()
	for _, c := range k.changed {
		added += k.change(c, epoch)
	}
	k.changed = nil
	added += k.carry(limit, epoch, t)
	parts := parts(limit)
	for _, part := range parts {
		if c := k.find(part); c.free(t) < n && c.wait(t, n) > wait {
			wait, remaining = c.wait(t, n), c.free(t)
		}
	}
	k.joined = len(parts) > 1
	if wait > 0 {
		return false, remaining, wait
	}
	for _, c := range k.counts {
		c.take(t, n)
	}
	remaining = 1 << 62
	for _, part := range parts {
		remaining = min(remaining, k.find(part).free(t))
	}
	return true, remaining, 0
}

// Whatever limits follow each other, by SetLimit, by With or both, a key is decided as the
// model has it: the same takes are granted, as many permits remain, and the wait is the same.
func TestChangedLimitsAreAsTheModelHasThem(t *testing.T) {
	t.Parallel()
	checkAgainstModel(t, 9)
}

func checkAgainstModel(t *testing.T, seeds uint64) {
	t.Helper()
	second, minute := time.Second, time.Minute
	single := []ratelimit.Limit{
		ratelimit.FixedWindow(10, minute), ratelimit.FixedWindow(4, minute), ratelimit.FixedWindow(20, second), ratelimit.TokenBucket(10, second, 7), ratelimit.TokenBucket(3, minute, 12),
		ratelimit.SlidingWindow(9, minute, 6), ratelimit.SlidingWindow(5, second, 2), ratelimit.SlidingCounter(8, minute), ratelimit.SlidingCounter(15, second), ratelimit.SlidingLog(6, minute),
		ratelimit.SlidingLog(30, second), ratelimit.AlignedWindow(10, minute),
	}
	joined := []ratelimit.Limit{
		ratelimit.FixedWindow(10, minute).And(ratelimit.TokenBucket(10, second, 5)), ratelimit.FixedWindow(30, minute).And(ratelimit.SlidingLog(4, second)),
		ratelimit.TokenBucket(5, second, 8).And(ratelimit.SlidingCounter(12, minute)), ratelimit.FixedWindow(12, minute), ratelimit.TokenBucket(20, second, 20),
	}
	for seed := range seeds {
		among := single
		if seed%3 == 0 {
			among = joined
		}
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 14)) //nolint:gosec // a test is repeated by its seed
			limit := func() ratelimit.Limit { return among[rng.IntN(len(among))] }
			root := limit()
			l := newLimiter(t, ratelimit.Config{Limit: root})
			base := time.Now()
			keys := map[string]*modelKey{"a": {}, "b": {}}
			var log []string
			var replaced []ratelimit.Limit
			for range 150 {
				switch rng.IntN(5) {
				case 0:
					time.Sleep(time.Duration(rng.Int64N(int64(minute))))
				case 1:
					time.Sleep(time.Duration(rng.Int64N(int64(second))))
				}
				now := int64(time.Since(base))
				if rng.IntN(12) == 0 {
					if next := limit(); next != root {
						replaced = append(slices.DeleteFunc(slices.Clone(replaced), func(l ratelimit.Limit) bool { return contains(next, l) }), parts(root)...)
						root = next
						setLimit(t, l, root)
						for _, k := range keys {
							k.changed = append(slices.Clone(k.changed), &modelRoot{root, now, replaced})
						}
						log = append(log, fmt.Sprintf("%v SetLimit %v", time.Since(base), root))
					}
				}
				in, by := l, root
				if seed%2 == 0 && rng.IntN(3) == 0 {
					by = among[rng.IntN(2)]
					in = core.Must(l.WithLimit(by))
				}
				key := []string{"a", "b"}[rng.IntN(2)]
				n := 1 + rng.Int64N(limits.Limit(by).Capacity())
				if rng.IntN(4) == 0 { // by a look the count does not change
					mustPeek(t, in, key)
				}
				r := take(t, in, key, n)
				allowed, remaining, wait := keys[key].decide(by, base.UnixNano(), now, n)
				log = append(log, fmt.Sprintf("%v %s take %d of %v: %+v", time.Since(base), key, n, by, r))
				require.Equal(t, []any{allowed, remaining, time.Duration(wait)}, []any{r.Allowed, r.Remaining, r.RetryAfter},
					"seed %d: %s", seed, strings.Join(log[max(0, len(log)-12):], "\n"))
			}
		})
	}
}
