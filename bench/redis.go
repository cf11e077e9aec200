package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/stores/redisstore"
)

// Subjects of the Redis rows.
const (
	Strict    = "strict"
	Coalesced = "coalesced"
	Lease     = "lease"
	FloorGCRA = "plain GCRA"
	RedisRate = "redis_rate"
)

// RedisSizes are the sizes of the Redis rows. The command chooses Samples and Load if Load is zero.
type RedisSizes struct {
	Keys    int           // where the names say 10,000
	Samples int           // how often each subject of a row is measured
	Load    time.Duration // how long a sample takes
}

// callers is how many goroutines decide at a time, where a row does not say another number.
const callers = 64

// patient is how long a decision may take on a machine that others use too.
const patient = 10 * time.Second

// RedisRows are decisions that the servers make for 64 callers, the memory of the keys, and jobs and records.
// A row has two subjects of ours, with a name each.
func RedisRows(r *Redis, s RedisSizes) []Row {
	var rows []Row
	add := func(row Row, d decisions, makes map[string]maker) {
		row.Units = []Unit{{Name: "µs Redis CPU"}, {Name: "µs client CPU"}, {Name: "decisions/s", Higher: true}, {Name: "allocs"}}
		d.keys, d.load, d.callers = row.keys(), s.Load, cmp.Or(d.callers, callers)
		for _, subject := range []string{Strict, Coalesced, Lease, GatePermit, FloorGCRA, RedisRate} {
			if m := makes[subject]; m != nil {
				of := d
				of.make = m
				row.Subjects = append(row.Subjects, Subject{Name: subject, Role: roleOf(subject), Sample: of.sample})
			}
		}
		rows = append(rows, row)
	}
	all := decisions{on: r.single}
	for _, keys := range []struct {
		n    int
		text string
	}{{s.Keys, "10,000 keys"}, {1, "1 key"}} {
		add(Row{Name: "token bucket, " + keys.text + ", allowed", Keys: keys.n}, all, bucketMakers(rich))
		add(Row{Name: "token bucket, " + keys.text + ", refused", Keys: keys.n}, decisions{on: r.single, refused: true}, bucketMakers(poor))
	}
	for _, of := range []struct {
		name  string
		limit ratelimit.Limit
	}{
		{"fixed window", ratelimit.FixedWindow(plenty, time.Hour)},
		{"sliding counter", ratelimit.SlidingCounter(plenty, time.Hour)},
		{"sliding window", ratelimit.SlidingWindow(plenty, time.Hour, 10)},
		{"sliding log of few", ratelimit.SlidingLog(1000, 100*time.Millisecond)},
		{"bucket and window", ratelimit.TokenBucket(plenty, time.Hour, plenty).And(ratelimit.FixedWindow(plenty, time.Hour))},
	} {
		makes := modes(of.limit)
		makes[FloorGCRA], makes[RedisRate] = rich.floor, rich.redisRate
		add(Row{Name: of.name + ", 10,000 keys, allowed", Keys: s.Keys}, all, makes)
	}
	for _, of := range []struct {
		n    int
		text string
	}{{1, "1 caller"}, {4, "4 callers"}, {16, "16 callers"}, {256, "256 callers"}} {
		add(Row{Name: "token bucket, 10,000 keys, " + of.text, Keys: s.Keys}, decisions{on: r.single, callers: of.n}, bucketMakers(rich))
	}
	leased := bucketMakers(rich)
	leased[Lease] = storeMaker(redisstore.Lease, rich.limit())
	add(Row{Name: "token bucket, 100 hot keys, allowed", Keys: s.Keys / 100}, all, leased)
	add(Row{Name: "token bucket, 1,000,000 cold keys, allowed", Keys: 100 * s.Keys}, decisions{on: r.single, cold: true}, leased)
	add(Row{Name: "a vendor's limit, 10,000 keys", Keys: s.Keys}, all, gateMakers())
	add(Row{Name: "a vendor's limit, 1 key", Keys: 1}, all, gateMakers())
	add(Row{Name: "Cluster of three: token bucket, 10,000 keys, allowed", Keys: s.Keys}, decisions{on: r.cluster}, bucketMakers(rich))
	return append(append(restRows(r, s), rows...), jobRows(r, s)...) // the stores of the other rows keep a key: that of the instances
}

func roleOf(subject string) Role {
	switch subject {
	case FloorGCRA:
		return Floor
	case RedisRate:
		return Peer
	}
	return Ours
}

// A maker makes a decider over a client, which reports whether one permit of a key was allowed.
type maker func(redis.UniversalClient) (decider, error)

type decider func(ctx context.Context, key string) (bool, error)

// A gcra is a token bucket as all have it: a permit each so often.
type gcra struct {
	permits int
	period  time.Duration
	burst   int
}

// A rich one allows all, and owes more and more meanwhile: its keys do not expire between the samples of a row, however many subjects it
// has. A poor one refuses all but the first.
var (
	rich = gcra{permits: 1, period: 20 * time.Second, burst: 1 << 22}
	poor = gcra{permits: 1, period: time.Hour, burst: 1}
)

func (g gcra) limit() ratelimit.Limit {
	return ratelimit.TokenBucket(int64(g.permits), g.period, int64(g.burst))
}

func bucketMakers(g gcra) map[string]maker {
	all := modes(g.limit())
	all[FloorGCRA], all[RedisRate] = g.floor, g.redisRate
	return all
}

func modes(limit ratelimit.Limit) map[string]maker {
	return map[string]maker{Strict: storeMaker(redisstore.Strict, limit), Coalesced: storeMaker(redisstore.Coalesced, limit)}
}

func storeMaker(m redisstore.Mode, limit ratelimit.Limit) maker {
	return func(client redis.UniversalClient) (decider, error) {
		store, err := redisstore.New(client, redisstore.Config{Mode: m, Timeout: patient})
		if err != nil {
			return nil, err
		}
		l, err := ratelimit.New(ratelimit.Config{Name: unused(string(m)), Limit: limit, Store: store, OnStoreError: ratelimit.Deny})
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, key string) (bool, error) {
			r, err := l.Take(ctx, key, 1)
			return r.Allowed, err
		}, nil
	}
}

var names atomic.Int64

// unused is a name that no other decider has, so that each has keys of its own.
func unused(name string) string { return name + strconv.FormatInt(names.Add(1), 10) }

// plainGCRA is the least that a script does which limits at all.
const plainGCRA = `local t = redis.call('TIME')
local now = (t[1] - 1577836800) * 1000000 + t[2]
local tat = tonumber(redis.call('GET', KEYS[1]) or now)
local emission, tolerance = tonumber(ARGV[1]), tonumber(ARGV[2])
if tat < now then tat = now end
local new = tat + emission
if new - tolerance > now then return {0, new - tolerance - now} end
redis.call('SET', KEYS[1], string.format('%d', new), 'PX', math.ceil((new - now) / 1000) + 1)
return {1, new - now}`

func (g gcra) floor(client redis.UniversalClient) (decider, error) {
	script := redis.NewScript(plainGCRA)
	emission := g.period.Microseconds() / int64(g.permits)
	prefix, tolerance := unused("gcra")+":", emission*int64(g.burst)
	return func(ctx context.Context, key string) (bool, error) {
		reply, err := script.Run(ctx, client, []string{prefix + key}, emission, tolerance).Int64Slice()
		return err == nil && reply[0] == 1, err
	}, nil
}

func (g gcra) redisRate(client redis.UniversalClient) (decider, error) {
	l := redis_rate.NewLimiter(client)
	limit := redis_rate.Limit{Rate: g.permits, Burst: g.burst, Period: g.period}
	prefix := unused("") + ":"
	return func(ctx context.Context, key string) (bool, error) {
		r, err := l.Allow(ctx, prefix+key, limit)
		return err == nil && r.Allowed == 1, err
	}, nil
}

// decisions are a subject of a row.
type decisions struct {
	on      func() (*nodes, error)
	make    maker
	keys    []string
	refused bool
	cold    bool // the keys do not exist before
	callers int
	load    time.Duration

	nodes  *nodes
	decide decider // nil until the first sample
	from   int     // where the callers go on
}

// sample makes decisions for a time, after some to warm up.
func (d *decisions) sample() (_ []float64, err error) {
	ctx := context.Background()
	if d.decide == nil {
		if d.nodes, err = d.on(); err != nil {
			return nil, err
		}
		if d.decide, err = d.make(d.nodes.client); err != nil {
			return nil, err
		}
		if !d.cold {
			err = d.once(ctx)
		}
		if err != nil { // all keys exist; limits that refuse are used up
			return nil, err
		}
	}
	if _, err := d.call(ctx, d.load/8); err != nil {
		return nil, err
	}
	runtime.GC()
	var before, after runtime.MemStats
	server, err := d.nodes.cpu(ctx)
	if err != nil {
		return nil, err
	}
	runtime.ReadMemStats(&before)
	cpu, _ := usage()
	begin := time.Now()
	n, err := d.call(ctx, d.load)
	if err != nil {
		return nil, err
	}
	passed := time.Since(begin)
	own, _ := usage()
	runtime.ReadMemStats(&after)
	used, err := d.nodes.cpu(ctx)
	if err != nil {
		return nil, err
	}
	micro := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 / n }
	return []float64{micro(used - server), micro(own - cpu), n / passed.Seconds(), float64(after.Mallocs-before.Mallocs) / n}, nil
}

// once takes of each key the first time.
func (d *decisions) once(ctx context.Context) error {
	first := slices.Compact(slices.Sorted(slices.Values(d.keys)))
	return each(len(first), func(i int) error { return allowed(ctx, d.decide, first[i]) })
}

// each does something n times, by all callers.
func each(n int, f func(i int) error) error {
	var all sync.WaitGroup
	var fails [callers]error
	for c := range callers {
		all.Go(func() {
			for i := c; i < n && fails[c] == nil; i += callers {
				fails[c] = f(i)
			}
		})
	}
	all.Wait()
	return errors.Join(fails[:]...)
}

// allowed makes a decision that must be to allow.
func allowed(ctx context.Context, decide decider, key string) error {
	if ok, err := decide(ctx, key); err != nil || !ok {
		return errors.Join(errOutcome, err)
	}
	return nil
}

// call has all callers decide for so long, and returns how many decisions there were.
func (d *decisions) call(ctx context.Context, long time.Duration) (float64, error) {
	var (
		all   sync.WaitGroup
		over  atomic.Bool
		n     atomic.Int64
		fails = make([]error, d.callers)
	)
	for c := range d.callers {
		all.Go(func() {
			made := int64(0)
			for i := d.from + c*len(d.keys)/d.callers; !over.Load(); i++ {
				ok, err := d.decide(ctx, d.keys[i&(len(d.keys)-1)])
				if err != nil || ok == d.refused {
					fails[c] = errors.Join(errOutcome, err)
					over.Store(true)
					return
				}
				made++
			}
			n.Add(made)
		})
	}
	timer := time.AfterFunc(long, func() { over.Store(true) })
	all.Wait()
	timer.Stop()
	d.from += int(n.Load()) / d.callers
	return float64(max(1, n.Load())), errors.Join(fails...)
}

// restRows are what keys in debt and keys at rest cost a server. There is next to no noise: the
// first sample is the one.
func restRows(r *Redis, s RedisSizes) []Row {
	row := func(name, unit string, g gcra, cost func(context.Context, *nodes, decider) (float64, error)) Row {
		row := Row{Name: name, Units: []Unit{{Name: unit}}}
		makers := bucketMakers(g)
		for _, subject := range []string{Strict, FloorGCRA, RedisRate} {
			sample := func() ([]float64, error) {
				v, err := r.atRest(makers[subject], cost)
				return []float64{v}, err
			}
			row.Subjects = append(row.Subjects, Subject{Name: subject, Role: roleOf(subject), Sample: sync.OnceValues(sample)})
		}
		return row
	}
	fill := func(ctx context.Context, decide decider) error {
		return each(s.Keys, func(i int) error { return allowed(ctx, decide, address(i)) })
	}
	return []Row{
		row("memory per active key, token bucket", "B", gcra{permits: 1, period: time.Hour, burst: 10}, func(ctx context.Context, n *nodes, decide decider) (float64, error) {
			before, err := infoField(ctx, n.all[0], "memory", "used_memory")
			if err != nil {
				return 0, err
			}
			if err := fill(ctx, decide); err != nil {
				return 0, err
			}
			if there, err := n.all[0].DBSize(ctx).Result(); err != nil || int(there) != s.Keys {
				return 0, fmt.Errorf("there are %d keys, not %d: %w", there, s.Keys, err)
			}
			after, err := infoField(ctx, n.all[0], "memory", "used_memory")
			return (after - before) / float64(s.Keys), err
		}),
		row("keys left 1.2 s after 10,000 have paid their debts", "keys", gcra{permits: 100, period: time.Second, burst: 10}, func(ctx context.Context, n *nodes, decide decider) (float64, error) {
			if err := fill(ctx, decide); err != nil {
				return 0, err
			}
			time.Sleep(1210 * time.Millisecond) // a permit comes back in 10 ms
			left := 0
			keys := n.all[0].Scan(ctx, 0, "", 1000).Iterator()
			for keys.Next(ctx) {
				left++
			}
			return float64(left), keys.Err()
		}),
	}
}

// atRest returns the memory of the keys of a decider on a server without other keys. The script is
// loaded and the connections are made before.
func (r *Redis) atRest(m maker, cost func(context.Context, *nodes, decider) (float64, error)) (float64, error) {
	ctx := context.Background()
	n, err := r.single()
	if err != nil {
		return 0, err
	}
	decide, err := m(n.client)
	if err != nil {
		return 0, err
	}
	if err := each(2000, func(i int) error { return allowed(ctx, decide, "warm "+strconv.Itoa(i)) }); err != nil {
		return 0, err
	}
	if err := n.client.FlushAll(ctx).Err(); err != nil {
		return 0, err
	}
	return cost(ctx, n, decide)
}
