package bench

import (
	"context"
	"fmt"
	"sync"
	"time"

	failsafe "github.com/failsafe-go/failsafe-go/ratelimiter"
	"github.com/go-chi/httprate"
	golimiter "github.com/sethvargo/go-limiter"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
	ulule "github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/store/memory"
	uber "go.uber.org/ratelimit"
	"golang.org/x/time/rate"

	"github.com/gresil/gresil/core/ratelimit"
)

// plenty is the number of permits of a limit that refuses nothing.
const plenty = 1 << 30

// A taking describes the takes of a row.
type taking struct {
	refused bool
	n       int64 // permits of a take
}

// permits are so many that all is allowed, or one.
func (t taking) permits() int64 {
	if t.refused {
		return 1
	}
	return plenty
}

// period is short where all is allowed, so that buckets fill up again.
func (t taking) period() time.Duration {
	if t.refused {
		return time.Hour
	}
	return time.Second
}

// address is a key as limiters mostly have them.
func address(i int) string { return fmt.Sprintf("10.%d.%d.%d", i>>16&255, i>>8&255, i&255) }

func limiterRows(s Sizes) []Row {
	var rows []Row
	add := func(name string, keys int, slow bool, subjects []Subject) {
		rows = append(rows, serialAndParallel(Row{Name: name, Keys: keys, Slow: slow, Subjects: subjects})...)
	}
	for _, keys := range []struct {
		n    int
		text string
	}{{1, "1 key"}, {s.Many, "100,000 keys"}} {
		for _, t := range []taking{{false, 1}, {true, 1}} {
			what, slow := keys.text+", allowed", false
			if t.refused {
				what, slow = keys.text+", refused", keys.n > 1
			}
			add("take: token bucket, "+what, keys.n, slow, append(buckets(t, keys.n), floorTake(keys.n, t)))
			add("take: fixed window, "+what, keys.n, slow, append(windows(t), floorTake(keys.n, t)))
		}
	}
	five := taking{n: 5}
	return append(rows,
		Row{Name: "take of 5: token bucket, 1 key", Subjects: append(buckets(five, 1), floorTake(1, five))},
		Row{Name: "take of 5: fixed window, 1 key", Subjects: append(windows(five), floorTake(1, five))})
}

// buckets are the token buckets.
func buckets(t taking, keys int) []Subject {
	all := []Subject{
		ours("ratelimit.Bucket", func() Work { return takeOurs(ratelimit.TokenBucket(t.permits(), t.period(), t.permits()), t) }),
		peer("x/time/rate, sync.Map", func() Work {
			limiters := newPerKey(func() *rate.Limiter {
				return rate.NewLimiter(rate.Limit(float64(t.permits())/t.period().Seconds()), int(t.permits()))
			})
			return work(func(key string) bool { return limiters.get(key).AllowN(time.Now(), int(t.n)) != t.refused })
		}),
		peer("throttled", func() Work {
			l := newThrottled(t)
			ctx := context.Background()
			return work(func(key string) bool {
				limited, _, err := l.RateLimitCtx(ctx, key, int(t.n))
				return err == nil && limited == t.refused
			})
		}),
	}
	if t.n == 1 { // it has no burst
		all = append(all, peer("failsafe-go smooth, sync.Map", func() Work {
			limiters := newPerKey(func() failsafe.RateLimiter[any] {
				if t.refused {
					return failsafe.NewSmooth[any](1, t.period())
				}
				return failsafe.NewSmoothWithMaxRate[any](1)
			})
			return work(func(key string) bool { return limiters.get(key).TryAcquirePermits(uint(t.n)) != t.refused })
		}))
	}
	if keys == 1 && t.n == 1 && !t.refused {
		all = append(all, unlike("uber ratelimit", "one limiter without a key, which waits instead of refusing", func() Work {
			l := uber.New(1e9)
			return work(func(string) bool { return !l.Take().IsZero() })
		}))
	}
	return all
}

// windows are the fixed windows.
func windows(t taking) []Subject {
	all := []Subject{
		ours("ratelimit.Window", func() Work { return takeOurs(ratelimit.FixedWindow(t.permits(), time.Hour), t) }),
		peer("ulule", func() Work {
			l := newUlule(t)
			ctx := context.Background()
			return work(func(key string) bool {
				c, err := l.Increment(ctx, key, t.n)
				return err == nil && c.Reached == t.refused
			})
		}),
		peer("failsafe-go bursty, sync.Map", func() Work {
			limiters := newPerKey(func() failsafe.RateLimiter[any] {
				return failsafe.NewBursty[any](uint(t.permits()), time.Hour)
			})
			return work(func(key string) bool { return limiters.get(key).TryAcquirePermits(uint(t.n)) != t.refused })
		}),
		unlike("httprate", "two windows and a sliding count; takes a request and writes its header", func() Work {
			l := httprate.NewRateLimiter(int(t.permits()), time.Hour)
			return Work{New: func() Op {
				w, r := newSink(), newRequest()
				r = r.WithContext(httprate.WithIncrement(r.Context(), int(t.n)))
				return func(key string) bool { return l.OnLimit(w, r, key) == t.refused }
			}}
		}),
	}
	if t.n == 1 {
		all = append(all, peer("go-limiter", func() Work {
			store, closed := newGoLimiter(t)
			ctx := context.Background()
			w := work(func(key string) bool {
				_, _, _, ok, err := store.Take(ctx, key)
				return err == nil && ok != t.refused
			})
			w.Close = closed
			return w
		}))
	}
	return all
}

func takeOurs(limit ratelimit.Limit, t taking) Work {
	l := must(ratelimit.New(ratelimit.Config{Limit: limit}))
	ctx := context.Background()
	return work(func(key string) bool {
		r, err := l.Take(ctx, key, t.n)
		return err == nil && r.Allowed != t.refused
	})
}

// newThrottled is a GCRA whose rate is low enough for its whole nanoseconds, and which
// does not give up when others change the key meanwhile.
func newThrottled(t taking) *throttled.GCRARateLimiterCtx {
	quota := throttled.RateQuota{MaxRate: throttled.PerSec(1e6), MaxBurst: plenty}
	if t.refused {
		quota = throttled.RateQuota{MaxRate: throttled.PerHour(1)}
	}
	l := must(throttled.NewGCRARateLimiterCtx(must(memstore.NewCtx(0)), quota))
	l.SetMaxCASAttemptsLimit(1 << 30)
	return l
}

func newUlule(t taking) *ulule.Limiter {
	return ulule.New(memory.NewStore(), ulule.Rate{Period: time.Hour, Limit: t.permits()})
}

// newGoLimiter has a goroutine, which closed ends.
func newGoLimiter(t taking) (store golimiter.Store, closed func()) {
	store = must(memorystore.New(&memorystore.Config{Tokens: uint64(t.permits()), Interval: time.Hour}))
	return store, func() { _ = store.Close(context.Background()) }
}

// perKey keeps a limiter for each key, as one does with those that have no keys.
type perKey[L any] struct {
	m    sync.Map
	make func() L
}

func newPerKey[L any](f func() L) *perKey[L] { return &perKey[L]{make: f} }

func (p *perKey[L]) get(key string) L {
	if l, ok := p.m.Load(key); ok {
		return l.(L)
	}
	l, _ := p.m.LoadOrStore(key, p.make())
	return l.(L)
}

// must panics with an error of a constructor: the rows are known to be right.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
