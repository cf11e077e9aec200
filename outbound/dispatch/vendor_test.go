package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/escalating"
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

// check returns what is wrong with a run of so many calls.
func check(v escalating.Verdict, served, calls, trips int, took, most time.Duration) error {
	var errs []error
	fail := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	fail(served == calls, "%d of %d served", served, calls)
	fail(v.Escalations == 0, "%d escalations, penalty %v seconds", v.Escalations, v.WorstPenalty)
	fail(v.Trips <= trips, "%d trips, at most %d", v.Trips, trips)
	fail(took <= most, "took %v, at most %v", took, most)
	return errors.Join(errs...)
}

// run offers calls at a rate, call i at its own time, and waits for all, or for six hours.
func run(t *testing.T, calls, rate int, call func(ctx context.Context, n string) error) (served int, took time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Hour)
	defer cancel()
	start := time.Now()
	var wg sync.WaitGroup
	var good atomic.Int64
	for i := range calls {
		time.Sleep(time.Until(start.Add(time.Duration(i) * time.Second / time.Duration(rate))))
		wg.Go(func() {
			if call(ctx, strconv.Itoa(i)) == nil {
				good.Add(1)
			}
		})
	}
	wg.Wait()
	return int(good.Load()), time.Since(start)
}

func TestAnOverloadOfAnEscalatingVendor(t *testing.T) {
	t.Parallel()
	const calls, rate, capacity = 6000, 120, 60
	const few = 2000 // calls are enough to overload the vendor by what is wrong
	type caller func(ctx context.Context, v *escalating.Vendor) func(ctx context.Context, n string) error
	attempt := func(v *escalating.Vendor, n string) escalating.Attempt {
		return func(ctx context.Context) (time.Duration, error) { return v.Call(ctx, n) }
	}
	naive := func(_ context.Context, v *escalating.Vendor) func(context.Context, string) error {
		return func(ctx context.Context, n string) error { return escalating.Naive(ctx, attempt(v, n)) }
	}
	article := func(ctx context.Context, v *escalating.Vendor) func(context.Context, string) error {
		actor := escalating.NewArticle(capacity)
		go actor.Run(ctx)
		return func(ctx context.Context, n string) error { return actor.Do(ctx, attempt(v, n)) }
	}
	column := func(name string, grace time.Duration, trips int, most time.Duration, limit *ratelimit.Config) {
		try := func(client string, calls int, of caller, good bool) {
			t.Run(name+"/"+client, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					v := escalating.New(grace, 1)
					served, took := run(t, calls, rate, of(ctx, v))
					t.Logf("%d served in %v, %+v", served, took, v.Verdict())
					if err := check(v.Verdict(), served, calls, trips, took, most); good {
						require.NoError(t, err)
					} else {
						require.Error(t, err, "the vendor is not strict enough to show anything")
					}
				})
			})
		}
		try("dispatcher", calls, func(_ context.Context, v *escalating.Vendor) func(context.Context, string) error {
			cfg := dispatch.Config[string, struct{}]{Classify: classify, Capacity: capacity}
			if limit != nil {
				cfg.Limiter = core.Must(ratelimit.New(*limit))
			}
			d := core.Must(dispatch.New(cfg))
			return func(ctx context.Context, n string) error {
				_, err := dispatch.Do(ctx, d, "", func(ctx context.Context, _ struct{}) (int, error) {
					wait, err := v.Call(ctx, n)
					if wait > 0 {
						err = &limitError{wait: wait}
					}
					return 0, err
				})
				return err
			}
		}, true)
		try("naive", few, naive, false)
		try("article", few, article, false)
	}
	column("pardons calls on their way", time.Second, 10, 5*time.Minute, nil)
	column("pardons nothing", 0, 0, 6*calls*time.Second/(5*90), // 1.2 × calls / limit
		&ratelimit.Config{Limit: ratelimit.TokenBucket(90, time.Second, 1), MaxWait: -1})
}

// The vendor of 100 calls a second asks for short pauses; after the first one 60 calls are
// in flight. Without Pad, as the vendor's clock is the dispatcher's.
func TestNoCallInsideAToldPause(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		synctest.Test(t, func(t *testing.T) {
			v := escalating.NewTelling(seed)
			d := newDispatcher(t, config{Capacity: 120, Attempts: 100, Pad: -1})
			var wg sync.WaitGroup
			for range 3000 {
				wg.Go(func() {
					_, err := dispatch.Do(t.Context(), d, "", func(context.Context, none) (int, error) {
						if wait := v.Call(); wait > 0 {
							return 0, limited(wait)
						}
						return 0, nil
					})
					require.NoError(t, err)
				})
			}
			wg.Wait()
			require.Positive(t, v.Counts().Refused)
			require.Zero(t, v.Counts().Inside, "seed %d: %+v", seed, v.Counts())
		})
	}
}
