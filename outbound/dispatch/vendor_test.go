package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/outbound/dispatch"
)

// limitError is a vendor's answer that asks for a pause.
type limitError struct {
	wait  time.Duration
	scope dispatch.Scope
}

func (e *limitError) Error() string { return fmt.Sprintf("limited for %v", e.wait) }

func classify(err error) (dispatch.Limited, bool) {
	e, ok := errors.AsType[*limitError](err)
	if !ok {
		return dispatch.Limited{}, false
	}
	return dispatch.Limited{RetryAfter: e.wait, Scope: e.scope}, true
}

// vendor permits limit calls in any second. One more is a trip, with a penalty of 15
// seconds. A call during the penalty doubles it, up to 15 minutes, unless it arrives
// within grace of the trip.
type vendor struct {
	limit int
	grace time.Duration

	mu                         sync.Mutex
	random                     *rand.Rand
	arrivals                   []time.Time // of the last second
	trip, until                time.Time
	penalty, worst             time.Duration
	trips, escalations, served int
}

const worstPenalty = 15 * time.Minute

func newVendor(grace time.Duration) *vendor {
	return &vendor{limit: 100, grace: grace, random: rand.New(rand.NewPCG(1, 2))}
}

// call takes 100 to 300 milliseconds, half of them before the vendor sees it.
func (v *vendor) call(ctx context.Context) (int, error) {
	v.mu.Lock()
	half := 50*time.Millisecond + time.Duration(v.random.Int64N(int64(100*time.Millisecond)))
	v.mu.Unlock()
	if err := sleep(ctx, half); err != nil {
		return 0, err
	}
	answer := v.arrive()
	if err := sleep(ctx, half); err != nil {
		return 0, err
	}
	return 0, answer
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (v *vendor) arrive() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := time.Now()
	if now.Before(v.until) {
		if now.Sub(v.trip) > v.grace {
			v.escalations++
			v.penalty = min(2*v.penalty, worstPenalty)
			v.until = now.Add(v.penalty)
			v.worst = max(v.worst, v.penalty)
		}
		return &limitError{wait: v.until.Sub(now)}
	}
	for len(v.arrivals) > 0 && now.Sub(v.arrivals[0]) >= time.Second {
		v.arrivals = v.arrivals[1:]
	}
	if len(v.arrivals) >= v.limit {
		v.trips++
		v.trip, v.penalty = now, 15*time.Second
		v.until, v.worst = now.Add(v.penalty), max(v.worst, v.penalty)
		return &limitError{wait: v.penalty}
	}
	v.arrivals = append(v.arrivals, now)
	v.served++
	return nil
}

// A verdict is the vendor's view of a run.
type verdict struct {
	served, trips, escalations int
	worst, took                time.Duration
}

// check returns what is wrong with a run of so many calls.
func (r verdict) check(calls, trips int, most time.Duration) error {
	var errs []error
	fail := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	fail(r.served == calls, "%d of %d served", r.served, calls)
	fail(r.escalations == 0, "%d escalations, penalty %v", r.escalations, r.worst)
	fail(r.trips <= trips, "%d trips, at most %d", r.trips, trips)
	fail(r.took <= most, "took %v, at most %v", r.took, most)
	return errors.Join(errs...)
}

// run offers calls at a rate, call i at its own time, and waits for all, or for six hours.
func run(t *testing.T, v *vendor, calls, rate int, call func(context.Context) error) verdict {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Hour)
	defer cancel()
	start := time.Now()
	var wg sync.WaitGroup
	for i := range calls {
		time.Sleep(time.Until(start.Add(time.Duration(i) * time.Second / time.Duration(rate))))
		wg.Go(func() { _ = call(ctx) })
	}
	wg.Wait()
	return verdict{v.served, v.trips, v.escalations, v.worst, time.Since(start)}
}

// naive repeats each call after its own wait.
func naive(v *vendor) func(context.Context) error {
	return func(ctx context.Context) error {
		for {
			_, err := v.call(ctx)
			limit, limited := classify(err)
			if !limited {
				return err
			}
			if err := sleep(ctx, limit.RetryAfter); err != nil {
				return err
			}
		}
	}
}

// article is the algorithm of an actor: one loop admits calls and sleeps for a shared
// delay, which it then sets to 0, and each limited call sleeps for itself on the
// connection that it has. Attempts are not limited, so that all calls could be served.
func article(ctx context.Context, v *vendor, capacity int) func(context.Context) error {
	var mu sync.Mutex
	var delay time.Duration
	free := make(chan struct{}, capacity)
	queue := make(chan chan struct{}, 10_000)
	go func() {
		for {
			select {
			case admitted := <-queue:
				mu.Lock()
				d := delay
				mu.Unlock()
				if d > 0 {
					if sleep(ctx, d) != nil {
						return
					}
					mu.Lock()
					delay = 0
					mu.Unlock()
				}
				select {
				case free <- struct{}{}:
					close(admitted)
				case <-ctx.Done():
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return func(ctx context.Context) error {
		admitted := make(chan struct{})
		queue <- admitted
		select {
		case <-admitted:
		case <-ctx.Done():
			return ctx.Err()
		}
		defer func() { <-free }()
		for {
			_, err := v.call(ctx)
			limit, limited := classify(err)
			if !limited {
				return err
			}
			mu.Lock()
			delay = max(delay, limit.RetryAfter)
			mu.Unlock()
			if err := sleep(ctx, limit.RetryAfter); err != nil {
				return err
			}
		}
	}
}

func dispatched(d *dispatch.Dispatcher[string, struct{}], v *vendor) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := dispatch.Do(ctx, d, "", func(ctx context.Context, _ struct{}) (int, error) { return v.call(ctx) })
		return err
	}
}

func TestAnOverloadOfAnEscalatingVendor(t *testing.T) {
	t.Parallel()
	const calls, rate, capacity = 6000, 120, 60
	column := func(name string, grace time.Duration, trips int, most time.Duration, limit *ratelimit.Config) {
		check := func(client string, call func(context.Context, *vendor) func(context.Context) error, good bool) {
			t.Run(name+"/"+client, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					v := newVendor(grace)
					got := run(t, v, calls, rate, call(ctx, v))
					t.Logf("%+v", got)
					if err := got.check(calls, trips, most); good {
						require.NoError(t, err)
					} else {
						require.Error(t, err, "the vendor is not strict enough to show anything")
					}
				})
			})
		}
		check("dispatcher", func(_ context.Context, v *vendor) func(context.Context) error {
			cfg := dispatch.Config[string, struct{}]{Classify: classify, Capacity: capacity}
			if limit != nil {
				cfg.Limiter = core.Must(ratelimit.New(*limit))
			}
			return dispatched(core.Must(dispatch.New(cfg)), v)
		}, true)
		check("naive", func(_ context.Context, v *vendor) func(context.Context) error { return naive(v) }, false)
		check("article", func(ctx context.Context, v *vendor) func(context.Context) error { return article(ctx, v, capacity) }, false)
	}
	column("pardons calls on their way", time.Second, 10, 5*time.Minute, nil)
	column("pardons nothing", 0, 0, 6*calls*time.Second/(5*90), // 1.2 × calls / limit
		&ratelimit.Config{Limit: ratelimit.TokenBucket(90, time.Second, 1), MaxWait: -1})
}
