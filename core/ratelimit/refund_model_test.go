package ratelimit

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/internal/limits"
)

// A use is permits that were granted: when they can be used, and what refunds them, if they were not
// refunded yet. A refund gives back as much as the store likes, but the use does not count from then on.
type use struct {
	at, n    int64
	take     Result
	refunded bool
}

// uses are what was granted of one key. It shares nothing with the code under test.
type uses struct {
	epoch int64 // the time 0 of the table, in ns since 1970
	all   []*use
	ends  map[Limit]int64 // of the window that the latest use is in
}

// add adds a use, which is not before any other, and reports whether it keeps to a limit: whether no more
// than that is in use in any interval that ends with it.
func (u *uses) add(l Limit, at int64, take Result) (keeps bool) {
	if at >= u.ends[l] {
		if u.ends[l] = at + int64(spec(l).Period); spec(l).Aligned {
			u.ends[l] -= (u.epoch + at) % int64(spec(l).Period)
		}
	}
	if n := len(u.all); n == 0 || u.all[n-1].take.Receipt != take.Receipt {
		u.all = append(u.all, &use{at: at, n: take.Permits, take: take})
	}
	sum := int64(0)
	for _, from := range slices.Backward(u.all) {
		if from.refunded {
			continue
		}
		permits, period, away := spec(l).Permits, int64(spec(l).Period), at-from.at
		counts := away < period
		switch spec(l).Algorithm {
		case limits.TokenBucket:
			if from.take.Wait > 0 {
				away++ // its time was rounded up
			}
			if sum += from.n; (sum-limits.Limit(l).Capacity())*period > permits*away {
				return false
			}
			continue
		case limits.FixedWindow:
			counts = from.at >= u.ends[l]-period
		case limits.SlidingWindow:
			counts = away+from.at%(period/int64(spec(l).Segments)) < period
		case limits.SlidingCounter: // no period has more than two windows, of which one is weighted
			permits *= 2
		case limits.SlidingLog:
		}
		if counts {
			sum += from.n
		}
		if sum > permits {
			return false
		}
	}
	return true
}

// A refundCase is under what takes are refunded.
type refundCase struct {
	limits  []Limit // take turns
	reserve bool
	evict   bool
}

// run takes and refunds at random. It returns how many permits of the refunded takes could be missing from the
// key, and how many of them were given back.
func (c *refundCase) run(t *testing.T, rng *rand.Rand, steps int) (missing, back int64) {
	t.Helper()
	maxKeys := 0
	if c.evict {
		maxKeys = 1
	}
	tab, ids := newTestTable(t, maxKeys, c.limits...)
	model, now := &uses{epoch: tab.base.UnixNano(), ends: map[Limit]int64{}}, int64(0)
	l, id := c.limits[0], ids[0]
	apply := func(key string, op limits.Op) Result { return mustApply(t, tab, time.Duration(now), key, id, op) }
	for range steps {
		if rng.IntN(2) == 0 {
			now += max(1, int64(spec(l).Period)/(4*spec(l).Permits)) * rng.Int64N(6)
		}
		if i := rng.IntN(len(ids)); rng.IntN(4) == 0 {
			l, id = c.limits[i], ids[i]
		}
		if c.evict && rng.IntN(4) == 0 {
			apply("another", limits.Op{Cost: limits.Limit(l).Capacity()})
		}
		open := slices.DeleteFunc(slices.Clone(model.all), func(u *use) bool { return u.refunded })
		if len(open) > 0 && rng.IntN(5) < 2 {
			u := open[max(0, len(open)-1-rng.IntN(6))]
			u.refunded = true
			before := apply("k", limits.Op{})
			after := apply("k", limits.Op{Kind: limits.Refund, Cost: u.n, Receipt: u.take.Receipt})
			missing += min(u.n, before.Limit-before.Remaining)
			back += after.Remaining - before.Remaining
			continue
		}
		op := limits.Op{Cost: 1 + rng.Int64N(limits.Limit(l).Capacity())}
		switch rng.IntN(6) {
		case 0:
			op.Kind = limits.TakeAtMost
		case 1:
			op.Kind = limits.Drain
		case 2:
			if c.reserve {
				op.Kind, op.MaxWait = limits.Reserve, spec(l).Period*2
			}
		}
		if r := apply("k", op); r.Permits > 0 {
			for _, part := range parts(l) {
				require.True(t, model.add(part, now+int64(r.Wait), r), "%v at %d: %+v %+v", part, now, op, r)
			}
		}
	}
	return missing, back
}

// TestRefundsMintNothing: whatever is taken and refunded, the permits that were not refunded are no more
// than the limit allows.
func TestRefundsMintNothing(t *testing.T) {
	t.Parallel()
	second := time.Second
	bucket, thirds, many := TokenBucket(1, second, 4), TokenBucket(3, second, 5), TokenBucket(100, second, 100)
	window, alignedWindow, log := FixedWindow(4, second), AlignedWindow(4, second), SlidingLog(4, second)
	sliding, counter := SlidingWindow(4, second, 4), SlidingCounter(4, second)
	for name, c := range map[string]refundCase{
		"bucket":           {limits: []Limit{bucket}},
		"bucket reserved":  {limits: []Limit{bucket}, reserve: true},
		"bucket evicted":   {limits: []Limit{bucket}, evict: true},
		"bucket of thirds": {limits: []Limit{thirds}},
		"bucket of many":   {limits: []Limit{many}},
		"window":           {limits: []Limit{window}},
		"aligned evicted":  {limits: []Limit{alignedWindow}, evict: true},
		"aligned":          {limits: []Limit{alignedWindow}},
		"aligned turns":    {limits: []Limit{alignedWindow, AlignedWindow(3, second), AlignedWindow(7, second)}},
		"sliding":          {limits: []Limit{sliding}},
		"sliding reserved": {limits: []Limit{sliding}, reserve: true},
		"sliding turns":    {limits: []Limit{sliding, SlidingWindow(3, second, 4), SlidingWindow(7, second, 4)}},
		"log":              {limits: []Limit{log}},
		"log reserved":     {limits: []Limit{log}, reserve: true},
		"log evicted":      {limits: []Limit{log}, evict: true},
		"log turns":        {limits: []Limit{log, SlidingLog(3, second), SlidingLog(7, second)}},
		"counter":          {limits: []Limit{counter}},
		"joined":           {limits: []Limit{bucket.And(log).And(alignedWindow)}},
		"joined reserved":  {limits: []Limit{bucket.And(log)}, reserve: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var missing, back int64
			for seed := range uint64(300) {
				m, b := c.run(t, rand.New(rand.NewPCG(seed, 5)), 60) //nolint:gosec // a test is repeated by its seed
				missing, back = missing+m, back+b
			}
			t.Logf("given back: %d of %d (%d%%)", back, missing, 100*back/missing)
		})
	}
}

// FuzzRefunds is TestRefundsMintNothing for any bucket and log.
func FuzzRefunds(f *testing.F) {
	f.Add(int64(1), int64(time.Second), int64(4), []byte("take two, take two, give the first back"))
	f.Add(int64(3), int64(997), int64(7), []byte{1, 2, 3, 200, 7, 0, 255, 9, 0, 0, 0, 1, 128, 128, 77, 76, 75, 74, 10, 0, 9, 1, 3, 3})
	f.Fuzz(func(t *testing.T, permits, period, burst int64, ops []byte) {
		bucket, log := TokenBucket(permits, time.Duration(period), burst), SlidingLog(permits, time.Duration(period))
		if bucket.check("") != nil || log.check("") != nil || permits > 1000 || burst > 1000 || period > int64(time.Hour) {
			return
		}
		for _, c := range []refundCase{
			{limits: []Limit{bucket}, reserve: true},
			{limits: []Limit{bucket}, evict: true},
			{limits: []Limit{bucket.And(log)}, reserve: true},
			{limits: []Limit{log, SlidingLog(permits/2+1, time.Duration(period))}},
		} {
			c.run(t, rand.New(&bytesSource{data: ops}), min(200, 20+len(ops)/4))
		}
	})
}

// TestRefundInAnyOrder: takes of one moment are given back whole, in whatever order they are refunded, also
// those of a key that owes for others.
func TestRefundInAnyOrder(t *testing.T) {
	t.Parallel()
	tab, ids := newTestTable(t, 0, TokenBucket(1, time.Second, 20))
	rng := rand.New(rand.NewPCG(1, 5)) //nolint:gosec // a test is repeated by its seed
	for i := range 100 {
		key, now := fmt.Sprint(i), time.Duration(i)*time.Minute
		apply := func(op limits.Op) Result { return mustApply(t, tab, now, key, ids[0], op) }
		apply(limits.Op{Cost: 5})
		now += time.Second
		takes := []Result{apply(limits.Op{Cost: 3}), apply(limits.Op{Cost: 1}), apply(limits.Op{Cost: 4}), apply(limits.Op{Cost: 2})}
		require.EqualValues(t, 6, takes[3].Remaining)
		want := int64(6)
		for _, j := range rng.Perm(len(takes)) {
			want += takes[j].Permits
			require.Equal(t, want, apply(limits.Op{Kind: limits.Refund, Cost: takes[j].Permits, Receipt: takes[j].Receipt}).Remaining)
		}
	}
}
