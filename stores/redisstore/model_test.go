package redisstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/ratelimittest"
)

// A step is an operation at a time, and what the store in memory made of it.
type step struct {
	at    time.Time
	key   string
	limit ratelimit.Limit
	op    limits.Op
	of    int // Refund: the step of the take
	want  limits.Result
}

func (st step) apply(t *testing.T, table limits.Table, receipts []limits.Receipt) limits.Result {
	t.Helper()
	id := planned(t, table, st.limit)
	op := st.op
	if op.Kind == limits.Refund {
		op.Receipt = receipts[st.of]
	}
	r, err := table.Apply(context.Background(), st.key, id, op)
	require.NoError(t, err)
	return r
}

// toServer puts a time of a bubble, which begins with 2000, behind the epoch. Aligned
// windows and segments stay where they were: it is whole days.
func toServer(t time.Time) time.Time { return t.AddDate(0, 0, 7305+100) }

// record makes random operations on a store in memory, in virtual time.
func record(t *testing.T, rng *rand.Rand, all []ratelimit.Limit, plain bool, n int) (steps []step) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		table, err := new(ratelimittest.Memory).Open("oracle")
		require.NoError(t, err)
		var receipts []limits.Receipt
		limit := all[0]
		for len(steps) < n {
			switch rng.IntN(6) {
			case 0:
				time.Sleep(time.Duration(rng.Int64N(int64(spec(limit).Period/time.Microsecond))) * time.Microsecond)
			case 1:
				time.Sleep(time.Duration(rng.Int64N(1000)) * time.Microsecond)
			case 2:
				if len(steps) > 0 {
					time.Sleep(steps[len(steps)-1].want.RetryAfter.Truncate(time.Microsecond))
				}
			}
			if rng.IntN(8) == 0 {
				limit = all[rng.IntN(len(all))]
			}
			c := ratelimittest.Capacity(limit)
			st := step{at: time.Now(), key: []string{"a", "b"}[rng.IntN(2)], limit: limit}
			kinds := []limits.OpKind{
				limits.Take, limits.Take, limits.Take, limits.TakeAtMost, limits.Reserve, limits.Check, limits.Refund,
				limits.Refund, limits.Drain, limits.Reset,
			}
			st.op = limits.Op{Kind: kinds[rng.IntN(len(kinds))], Cost: rng.Int64N(c/2 + 2)}
			switch st.op.Kind {
			case limits.Reserve:
				if plain {
					continue
				}
				st.op.MaxWait = time.Duration(rng.Int64N(int64(2 * spec(limit).Period)))
			case limits.Drain, limits.Reset:
				st.op.Cost = 0
				if rng.IntN(4) > 0 {
					continue
				}
			case limits.Refund:
				if len(steps) == 0 {
					continue
				}
				st.of = max(0, len(steps)-1-rng.IntN(6))
				take := steps[st.of]
				if st.key, st.op.Cost = take.key, take.want.Permits; st.op.Cost == 0 || take.want.Wait > 0 {
					continue // in memory a reservation gives back more: what was before it
				}
			case limits.Take:
				if rng.IntN(10) == 0 {
					st.op.Cost = c + rng.Int64N(3)
				}
			case limits.TakeAtMost, limits.Check:
			}
			st.want = st.apply(t, table, receipts)
			receipts = append(receipts, st.want.Receipt)
			steps = append(steps, st)
		}
	})
	return steps
}

func TestSameAsMemory(t *testing.T) {
	t.Parallel()
	checkDecides(t, 2) // one for each mode
}

func checkDecides(t *testing.T, seeds uint64) {
	t.Helper()
	client := startServer(t).virtual(t)
	second, minute := time.Second, time.Minute
	for name, c := range map[string]struct {
		limits []ratelimit.Limit
		slack  time.Duration // where more than one µs is rounded
		plain  bool          // without reservations
	}{
		"bucket":             {limits: []ratelimit.Limit{ratelimit.TokenBucket(10, second, 20)}},
		"bucket of thirds":   {limits: []ratelimit.Limit{ratelimit.TokenBucket(3, second, 7)}},
		"bucket of bytes":    {limits: []ratelimit.Limit{ratelimit.TokenBucket(700_000_000, second, 1_000_000_000)}},
		"buckets":            {limits: []ratelimit.Limit{ratelimit.TokenBucket(10, second, 20), ratelimit.TokenBucket(3, second, 7), ratelimit.TokenBucket(7, minute, 3)}, slack: 200 * time.Microsecond}, // another rate reads the debt in whole µs
		"window":             {limits: []ratelimit.Limit{ratelimit.FixedWindow(5, second)}},
		"windows":            {limits: []ratelimit.Limit{ratelimit.FixedWindow(5, second), ratelimit.FixedWindow(20, second), ratelimit.FixedWindow(8, second)}},
		"aligned":            {limits: []ratelimit.Limit{ratelimit.AlignedWindow(5, minute), ratelimit.AlignedWindow(9, minute)}},
		"sliding":            {limits: []ratelimit.Limit{ratelimit.SlidingWindow(6, second, 4), ratelimit.SlidingWindow(9, second, 4)}},
		"log":                {limits: []ratelimit.Limit{ratelimit.SlidingLog(6, second), ratelimit.SlidingLog(11, second)}},
		"counter":            {limits: []ratelimit.Limit{ratelimit.SlidingCounter(6, second), ratelimit.SlidingCounter(9, second)}},
		"counter of bytes":   {limits: []ratelimit.Limit{ratelimit.SlidingCounter(1<<37, 24*time.Hour)}, slack: 50 * time.Microsecond},
		"counter of many":    {limits: []ratelimit.Limit{ratelimit.SlidingCounter(1<<37, 24*time.Hour), ratelimit.SlidingCounter(1<<36+1, 24*time.Hour)}, plain: true},
		"joined":             {limits: []ratelimit.Limit{ratelimit.FixedWindow(5, second).And(ratelimit.TokenBucket(10, minute, 12)), ratelimit.TokenBucket(10, minute, 12)}},
		"all joined":         {limits: []ratelimit.Limit{ratelimit.SlidingLog(9, second).And(ratelimit.SlidingCounter(10, minute)).And(ratelimit.SlidingWindow(7, second, 10)).And(ratelimit.FixedWindow(30, minute))}},
		"kinds":              {limits: []ratelimit.Limit{ratelimit.FixedWindow(5, second), ratelimit.TokenBucket(5, second, 9), ratelimit.SlidingLog(5, second), ratelimit.SlidingCounter(7, second)}},
		"changed windows":    {limits: []ratelimit.Limit{ratelimit.FixedWindow(5, second), ratelimit.FixedWindow(20, second), ratelimit.FixedWindow(8, second)}},
		"changed kinds":      {limits: []ratelimit.Limit{ratelimit.FixedWindow(5, second), ratelimit.TokenBucket(5, second, 9), ratelimit.SlidingWindow(5, second, 4), ratelimit.SlidingCounter(7, second), ratelimit.SlidingLog(8, second)}},
		"changed periods":    {limits: []ratelimit.Limit{ratelimit.FixedWindow(5, second), ratelimit.TokenBucket(3, 2*second, 8), ratelimit.SlidingWindow(7, 4*second, 2), ratelimit.AlignedWindow(2, 10*second), ratelimit.SlidingLog(4, 2*second), ratelimit.SlidingCounter(6, 5*second)}},
		"changed joined":     {limits: []ratelimit.Limit{ratelimit.FixedWindow(5, second).And(ratelimit.TokenBucket(5, second, 9)), ratelimit.TokenBucket(9, second, 4).And(ratelimit.SlidingCounter(7, minute)), ratelimit.FixedWindow(7, second)}},
		"no longer joined":   {limits: []ratelimit.Limit{ratelimit.FixedWindow(5, second).And(ratelimit.SlidingLog(20, minute)), ratelimit.SlidingCounter(7, 2*second), ratelimit.SlidingLog(6, second).And(ratelimit.AlignedWindow(9, 3*second))}},
		"changed counters":   {limits: []ratelimit.Limit{ratelimit.SlidingCounter(5, second), ratelimit.SlidingCounter(9, second)}},
		"changed to minutes": {limits: []ratelimit.Limit{ratelimit.SlidingWindow(50, minute, 10), ratelimit.SlidingWindow(5, second, 10)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range seeds {
				steps := record(t, rand.New(rand.NewPCG(seed, 1)), c.limits, c.plain, 300) //nolint:gosec // a test is repeated by its seed
				s := newStore(t, client, Config{Mode: []Mode{Strict, Coalesced}[seed%2]})
				require.Empty(t, replay(t, s, fmt.Sprintf("%s %d", name, seed), steps, max(c.slack, 2*time.Microsecond)))
			}
		})
	}
}

// replay does the same operations on a server, at the same times, and returns how the first different result differs.
func replay(t *testing.T, s *Store, name string, steps []step, slack time.Duration) (differs string) {
	t.Helper()
	var now time.Time
	s.clock = func() time.Time { return now }
	table := open(t, s, name)
	var receipts []limits.Receipt
	for i, st := range steps {
		now = toServer(st.at)
		s.odd.clear()
		got := st.apply(t, table, receipts)
		receipts = append(receipts, got.Receipt)
		want := st.want
		same := got.Allowed == want.Allowed && got.Limit == want.Limit && got.Which == want.Which
		few := int64(slack/(10*time.Microsecond)) * want.Limit / 1_000_000_000 // of a limit of so many, what comes in a µs
		same = same && got.Remaining-want.Remaining <= few && want.Remaining-got.Remaining <= few
		same = same && got.Permits-want.Permits <= few && want.Permits-got.Permits <= few
		for _, d := range [][2]time.Duration{{got.Wait, want.Wait}, {got.RetryAfter, want.RetryAfter}, {got.NextAfter, want.NextAfter}, {got.FullAfter, want.FullAfter}} {
			away := d[0] - d[1]
			same = same && (away == 0 || d[0] >= 0 && d[1] >= 0 && away > -slack && away < slack)
		}
		if !same {
			for j := max(0, i-2); j < i; j++ {
				differs += fmt.Sprintf("%d %v %s %v %+v\n    %+v\n", j, steps[j].at.Sub(steps[0].at), steps[j].key, steps[j].limit, steps[j].op, steps[j].want)
			}
			return differs + fmt.Sprintf("step %d at %v: %s %v %+v\n got %+v\nwant %+v", i, st.at.Sub(steps[0].at), st.key, st.limit, st.op, got, want)
		}
		if value := s.client.Get(t.Context(), keyName(keyPrefix(defaultPrefix, name), st.key, false)).Val(); got.FullAfter > 0 {
			_, tail, _ := strings.Cut(value, "|")
			require.GreaterOrEqual(t, double(tail, 0)+slack.Microseconds(), now.Add(got.FullAfter).UnixMicro()-epoch, "step %d: the key expires too early: %v %+v", i, st.limit, got)
		}
		if st.op.Kind == limits.Take && got.RetryAfter > 0 { // waiting exactly so long is enough
			now = now.Add((got.RetryAfter + time.Microsecond - 1).Truncate(time.Microsecond))
			st.op.Kind = limits.Check
			require.True(t, st.apply(t, table, receipts).Allowed, "step %d: %v after %+v", i, st.limit, got)
		}
	}
	return ""
}

func spec(l ratelimit.Limit) limits.Spec { return limits.Limit(l).Specs()[0] }

// TestHotAsGeneral: the scripts for takes decide as the general one does, and leave the same state, whatever the limits of the key are,
// and where the clock goes back.
func TestHotAsGeneral(t *testing.T) {
	t.Parallel()
	client := startServer(t).virtual(t)
	general, baked, plain := newStore(t, client, Config{}), newStore(t, client, Config{}), newStore(t, client, Config{})
	for i := range maxTexts { // it has no script with the numbers of a limit
		plain.ones[strconv.Itoa(i)], plain.takes[strconv.Itoa(i)] = nil, nil
	}
	var now time.Time
	stores := []*Store{general, baked, plain}
	for _, s := range stores {
		s.clock = func() time.Time { return now }
	}
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 3)) //nolint:gosec // a test is repeated by its seed
		period := []time.Duration{time.Second, time.Minute, time.Hour}[rng.IntN(3)]
		limit := func() ratelimit.Limit {
			n := 1 + rng.Int64N(12)
			bucket := ratelimit.TokenBucket(n, period, 1+rng.Int64N(20))
			return []ratelimit.Limit{
				bucket, ratelimit.TokenBucket(n, period, n), ratelimit.FixedWindow(n, period), ratelimit.AlignedWindow(n, period),
				ratelimit.SlidingCounter(n, period), ratelimit.SlidingWindow(n, period, 5), ratelimit.SlidingLog(n, period),
				bucket.And(ratelimit.FixedWindow(2*n, 2*period)), ratelimit.SlidingLog(n, period/2).And(ratelimit.AlignedWindow(2*n, period)).And(bucket),
				ratelimit.SlidingCounter(n, period).And(ratelimit.SlidingWindow(2*n, 2*period, 4)),
				ratelimit.TokenBucket(1<<30, time.Hour, 1<<30), // whose ticks are longer than a microsecond
				ratelimit.TokenBucket(1, 2*period, 1).And(ratelimit.FixedWindow(n, period)).And(ratelimit.SlidingCounter(n, period)),
			}[(int(seed)+rng.IntN(5)/4)%12]
		}
		all := []ratelimit.Limit{limit(), limit(), limit()}
		now = time.UnixMicro(epoch).AddDate(1, 0, 0)
		clear(baked.ones)
		clear(baked.takes)
		var took [3]limits.Result
		var got [3]limits.Result
		var l ratelimit.Limit
		var op limits.Op
		for step := range 60 {
			wait := got[0].RetryAfter
			if op.Kind == limits.Take && wait > 0 && wait <= 4*period && rng.IntN(2) == 0 { // exactly when it was told to come again, or as little too early as the server can tell
				now = now.Add((wait + time.Microsecond - 1).Truncate(time.Microsecond) - time.Duration(rng.Int64N(2))*time.Microsecond)
			} else {
				now = now.Add(time.Duration(rng.Int64N(int64(period)*2/3)) - period/8) // the clock may go back
				if rng.IntN(20) == 0 {                                                 // by more than two buckets
					now = now.Add(-time.Duration(rng.Int64N(int64(20 * period))))
				}
				l = all[max(0, rng.IntN(9)-6)]
				most := planned(t, open(t, general, "t0").(*table), l).Capacity //nolint:forcetypeassert // it is one of ours
				op = limits.Op{Cost: rng.Int64N(2+min(3, most)) * max(1, most/8)}
				switch rng.IntN(10) {
				case 0:
					op.Kind, op.MaxWait = limits.Reserve, time.Duration(rng.Int64N(int64(2*period)))
				case 1:
					op.Kind = limits.TakeAtMost
				case 2:
					if took[0].Permits > 0 {
						op.Kind, op.Cost = limits.Refund, took[0].Permits
					}
				}
			}
			var state [3]string
			for i, s := range stores {
				table := open(t, s, fmt.Sprint("t", i)).(*table) //nolint:forcetypeassert // it is one of ours
				if op.Kind == limits.Refund {
					op.Receipt = took[i].Receipt
				}
				s.odd.clear()
				req := table.request(fmt.Sprint(seed), planOf(planned(t, table, l)), op)
				if s == general {
					req.general()
				}
				r, ok, err := s.alone(t.Context(), t.Context(), req)
				if err == nil && !ok {
					req.general()
					r, ok, err = s.alone(t.Context(), t.Context(), req)
				}
				require.NoError(t, err)
				require.True(t, ok)
				if r.Permits > 0 {
					took[i] = r
				}
				got[i] = r
				got[i].Receipt.Plan = nil
				state[i] = client.Get(t.Context(), req.key).Val()
				if name, tail, packed := strings.Cut(state[i], "|"); packed && len(tail) > 16 && name[0] > '9' {
					ends := double(tail, 0)
					if name == req.plan.parts[0].name && r.FullAfter > 0 {
						require.GreaterOrEqual(t, ends+1000, now.Add(r.FullAfter).UnixMicro()-epoch, "the key expires too early: store %d, seed %d, step %d, %v %+v %+v behind %d", i, seed, step, l, op, r, double(tail, 1)-(now.UnixMicro()-epoch))
					}
					if name[0] == 'b' && len(tail) == 8*5 { // with permits that were refunded
						p := planOf(planned(t, table, l)).parts[0]
						require.True(t, name != p.name || ends+1000 >= double(tail, 1)+(double(tail, 2)+double(tail, 3))*p.c/p.a, "the key expires too early: seed %d, step %d", seed, step)
					}
					state[i] = name + tail[8:]
				}
			}
			for i := 1; i < 3; i++ {
				require.Equal(t, got[0], got[i], "%d: step %d: %v %+v", seed, step, l, op)
				require.Equal(t, state[0], state[i], "%d: step %d: %v %+v", seed, step, l, op)
			}
		}
	}
}

// TestTogetherAsAlone: what is decided for one key in one command has the
// results of as many commands.
func TestTogetherAsAlone(t *testing.T) {
	t.Parallel()
	s := newStore(t, startServer(t).virtual(t), Config{})
	rng := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test is repeated by its seed
	now := time.UnixMicro(epoch).AddDate(1, 0, 0)
	s.clock = func() time.Time { return now }
	for name, all := range map[string][]ratelimit.Limit{
		"buckets": {ratelimit.TokenBucket(10, time.Hour, 20), ratelimit.TokenBucket(3, time.Hour, 7), ratelimit.TokenBucket(700, 24*time.Hour, 9)},
		"windows": {ratelimit.FixedWindow(10, time.Hour), ratelimit.FixedWindow(20, time.Hour), ratelimit.FixedWindow(9, 24*time.Hour), ratelimit.AlignedWindow(8, time.Hour)},
		"lists":   {ratelimit.SlidingCounter(10, time.Hour), ratelimit.SlidingLog(20, time.Hour), ratelimit.SlidingWindow(9, 2*time.Hour, 10)},
		"joined":  {ratelimit.FixedWindow(10, time.Hour).And(ratelimit.SlidingLog(20, 2*time.Hour)), ratelimit.SlidingLog(20, 2*time.Hour).And(ratelimit.TokenBucket(3, time.Hour, 9))},
	} {
		takes := map[string]limits.Result{}
		table := newTable(s, name)
		for range 300 {
			now = now.Add(time.Duration(rng.Int64N(int64(2*time.Hour))) - 6*time.Minute) // the clock may go back
			key := fmt.Sprint("k", rng.IntN(2))
			var together, alone []*request
			for range 2 + rng.IntN(5) {
				kind := []limits.OpKind{limits.Take, limits.Take, limits.Take, limits.TakeAtMost, limits.Check, limits.Drain, limits.Reserve, limits.Refund}[rng.IntN(8)]
				op := limits.Op{Kind: kind, Cost: rng.Int64N(12), MaxWait: time.Hour}
				if kind == limits.Refund { // of a take before
					op.Cost, op.Receipt = takes[key].Permits, takes[key].Receipt
				}
				p := planOf(planned(t, table, all[max(0, rng.IntN(4*len(all))-3*len(all))]))
				together, alone = append(together, table.request(key, p, op)), append(alone, table.request(key+" alone", p, op))
				sendAlone(t, s.laneOf(key), alone[len(alone)-1:])
			}
			sendAlone(t, s.laneOf(key), together)
			for i, req := range alone {
				require.NoError(t, req.err)
				require.Equal(t, req.r, together[i].r)
				if req.r.Permits > 0 {
					takes[key] = req.r
				}
			}
		}
	}
}
