package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/stores/redisstore"
)

const (
	processes     = 4
	campaignCount = 20
	limit         = 500 // calls of a campaign in a second
	burst         = 50  // where it is a bucket
)

// A way is one to keep to the limits. It is judged if it is ours.
type way struct {
	name    string
	limit   string // in words
	ours    bool
	control bool  // it has to fail
	most    int64 // calls that a second of the server may have; 0 where no time of the server is known
	bucket  bool  // it is held to burst + rate·t in any time too
	workers int   // of each campaign in each process

	// reschedules tells that a refused call goes back to the queue, and does not keep its worker.
	reschedules bool
	start       func(*redis.Client) (asker, error)
}

// An asker asks for one call of a campaign: it was granted at a time of the server, in µs since 2020, or
// is to be asked for again after some time.
type asker func(ctx context.Context, campaign int) (at int64, wait time.Duration, err error)

func ways() []way {
	return []way{
		{
			name: "ours, aligned window", limit: fmt.Sprintf("%d in each second of the server's clock", limit), ours: true,
			most: limit, workers: limit / 2, start: waiting(ratelimit.AlignedWindow(limit, time.Second)),
		},
		{
			name: "ours, token bucket", limit: fmt.Sprintf("%d/s, burst %d", limit, burst), ours: true,
			most: limit + burst, bucket: true, workers: limit / 20, start: waiting(ratelimit.TokenBucket(limit, time.Second, burst)),
		},
		{
			name: "redis_rate, sleeping for its RetryAfter", limit: fmt.Sprintf("%d/s, burst %d", limit, burst),
			workers: limit / 20, start: startRedisRate,
		},
		{
			name: "EVAL of the text, again in a random 60 to 120 s", limit: fmt.Sprintf("%d in each second of the server's clock", limit),
			most: limit, workers: 4, reschedules: true, start: startEval,
		},
		{
			name: "control: a limiter in the memory of each process", limit: fmt.Sprintf("%d in each second, each", limit), control: true,
			workers: limit / 2, start: startMemory,
		},
	}
}

func findWay(name string) (way, error) {
	for _, w := range ways() {
		if w.name == name {
			return w, nil
		}
	}
	return way{}, fmt.Errorf("there is no way %q", name)
}

// waiting is Wait: a reservation, in the order of the calls.
func waiting(l ratelimit.Limit) func(*redis.Client) (asker, error) {
	return func(client *redis.Client) (asker, error) {
		store, err := redisstore.New(client, redisstore.Config{Mode: redisstore.Coalesced, Timeout: time.Minute})
		if err != nil {
			return nil, err
		}
		return waitFor(ratelimit.Config{Name: "campaigns", Limit: l, MaxWait: -1, Store: store, OnStoreError: ratelimit.Deny})
	}
}

func startMemory(*redis.Client) (asker, error) {
	return waitFor(ratelimit.Config{Limit: ratelimit.AlignedWindow(limit, time.Second), MaxWait: -1})
}

func waitFor(cfg ratelimit.Config) (asker, error) {
	l, err := ratelimit.New(cfg)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, campaign int) (int64, time.Duration, error) {
		r, err := l.Wait(ctx, key(campaign), 1)
		return r.Receipt.At + r.Wait.Microseconds(), 0, err
	}, nil
}

func startRedisRate(client *redis.Client) (asker, error) {
	l := redis_rate.NewLimiter(client)
	return func(ctx context.Context, campaign int) (int64, time.Duration, error) {
		r, err := l.Allow(ctx, key(campaign), redis_rate.Limit{Rate: limit, Period: time.Second, Burst: burst})
		if err != nil || r.Allowed == 1 {
			return 0, 0, err
		}
		return 0, max(r.RetryAfter, time.Microsecond), nil
	}, nil
}

// countSecond counts the calls of a second, checks and counts in one step, and forgets the second when
// it is over.
const countSecond = `local t = redis.call('TIME')
local key = KEYS[1] .. ':' .. t[1]
if tonumber(redis.call('GET', key) or '0') >= tonumber(ARGV[1]) then return {0, 0} end
redis.call('INCR', key)
redis.call('EXPIRE', key, 2)
return {1, (t[1] - 1577836800) * 1000000 + t[2]}`

func startEval(client *redis.Client) (asker, error) {
	return func(ctx context.Context, campaign int) (int64, time.Duration, error) {
		reply, err := client.Eval(ctx, countSecond, []string{key(campaign)}, limit).Int64Slice()
		switch {
		case err != nil:
			return 0, 0, err
		case reply[0] == 1:
			return reply[1], 0, nil
		}
		return 0, time.Minute + rand.N(time.Minute), nil
	}, nil
}

func key(campaign int) string { return "campaign-" + strconv.Itoa(campaign) }
