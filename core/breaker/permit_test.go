package breaker_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/internal/registry"
)

func TestTripAndFailed(t *testing.T) {
	t.Parallel()
	trip := func(d time.Duration) func(*breaker.Permit) { return func(p *breaker.Permit) { p.Trip(d) } }
	failed := func(d time.Duration) func(*breaker.Permit) { return func(p *breaker.Permit) { p.Failed(d) } }
	for name, c := range map[string]struct {
		before, meanwhile string // other calls
		end               func(p *breaker.Permit)
		want              time.Duration // until it admits trials; 0 if it stays closed
		reason            string
	}{
		"a trip":                     {"S", "", trip(time.Second), time.Second, "asked to wait"},
		"a trip for nothing":         {"S", "", trip(0), 0, ""},
		"a trip with too many":       {"FFFF", "", trip(time.Second), time.Minute, "5 failures in a row"},
		"a long one with too many":   {"FFFF", "", trip(time.Hour / 2), time.Hour / 2, "5 failures in a row"},
		"a trip of a trial":          {"O-", "", trip(time.Second), time.Second, "asked to wait"},
		"of the trial that decides":  {"O-FF", "", trip(time.Second), time.Minute, "3 of 5 trials failed"},
		"a long one that decides":    {"O-FF", "", trip(time.Hour / 2), time.Hour / 2, "3 of 5 trials failed"},
		"a trip that is too long":    {"S", "", trip(2 * time.Hour), time.Hour, "asked to wait"},
		"a late trip, open":          {"S", "FFFFF", trip(time.Hour / 2), time.Minute, "5 failures in a row"},
		"a late trip, closed again":  {"S", "FFFFF-SSS", trip(time.Hour / 2), 0, "3 of 5 trials succeeded"},
		"a trip, metrics only":       {"M", "", trip(time.Second), 0, "set by hand"},
		"a failure that asks":        {"S", "", failed(time.Hour), 0, ""},
		"a failure that asks, opens": {"FFFF", "", failed(time.Hour / 2), time.Hour / 2, "5 failures in a row"},
		"it asks for less":           {"FFFF", "", failed(time.Second), time.Minute, "5 failures in a row"},
		"it asks for too long":       {"FFFF", "", failed(2 * time.Hour), time.Hour, "5 failures in a row"},
	} {
		synctest.Test(t, func(t *testing.T) {
			reason := ""
			b := newBreaker(t, breaker.Config{OpenDelay: minute(), MaxRetryAfter: time.Hour, OnStateChange: func(_ context.Context, c breaker.StateChange) {
				reason = c.Reason
			}})
			run(t, b, c.before)
			p := acquire(t, b)
			run(t, b, c.meanwhile)
			c.end(&p)
			require.Equal(t, c.reason, reason, name)
			if c.want == 0 {
				acquire(t, b)
				return
			}
			require.Equal(t, c.want, rejection(t, b).RetryAfter(), name)
			time.Sleep(c.want - time.Nanosecond)
			require.Equal(t, breaker.Open, b.State(), name)
			time.Sleep(time.Nanosecond)
			require.Equal(t, breaker.HalfOpen, b.State(), name)
		})
	}
}

// A clock that is read costs as much as the rest of a call.
func TestTimedCalls(t *testing.T) {
	t.Parallel()
	listen := func(t *testing.T, b *breaker.Breaker, r *registry.Registry) {
		t.Helper()
		e, _ := r.Get("breaker", "default")
		e.Source.Events(true, func(context.Context, registry.Event) {})
	}
	for name, c := range map[string]struct {
		cfg   breaker.Config
		do    func(*testing.T, *breaker.Breaker, *registry.Registry)
		timed bool
	}{
		"the zero Config": {breaker.Config{}, nil, false},
		"metrics only":    {breaker.Config{Initial: breaker.MetricsOnly}, nil, false},
		"a time window":   {breaker.Config{WindowTime: time.Minute}, nil, false}, // it is read at the end of a call
		"slow calls":      {breaker.Config{SlowCall: time.Minute}, nil, true},
		"a trial":         {breaker.Config{Initial: breaker.HalfOpen}, nil, true},
		"slow calls, then none": {breaker.Config{SlowCall: time.Minute}, func(t *testing.T, b *breaker.Breaker, _ *registry.Registry) {
			t.Helper()
			require.NoError(t, b.SetConfig(breaker.Config{}))
		}, false},
		"an override": {breaker.Config{}, func(t *testing.T, b *breaker.Breaker, _ *registry.Registry) {
			t.Helper()
			b.Override(t.Context(), func(*breaker.Config) {})
		}, true},
		"durations": {breaker.Config{}, func(_ *testing.T, _ *breaker.Breaker, r *registry.Registry) {
			e, _ := r.Get("breaker", "default")
			e.Source.Time()
		}, true},
		"a listener": {breaker.Config{}, listen, true},
	} {
		r := &registry.Registry{}
		c.cfg.Registry = (*core.Registry)(r)
		b := newBreaker(t, c.cfg)
		if c.do != nil {
			c.do(t, b, r)
		}
		p := acquire(t, b)
		require.Equal(t, c.timed, p.Timed(), name)
		p.Done(core.Success)
		require.EqualValues(t, 1, b.Stats().Successes, name)
		p = acquire(t, b)
		p.Done(core.Failure + 1)
		require.EqualValues(t, 1, b.Stats().Ignored, name)
	}
}

func TestZeroPermit(t *testing.T) {
	t.Parallel()
	var p breaker.Permit
	p.Done(core.Failure)
	p.Failed(time.Hour)
	p.Trip(time.Hour)
	b := newBreaker(t, breaker.Config{})
	_, err := core.Do(t.Context(), core.Must(core.NewPipeline(b)), func(context.Context) (int, error) { return 0, errDown })
	require.True(t, errors.Is(err, errDown))
	require.EqualValues(t, 1, b.Stats().Failures)
}

func TestTrialsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var j journal
		b := newBreaker(t, breaker.Config{OpenDelay: minute(), OnStateChange: j.changed})
		before := acquire(t, b)
		run(t, b, "OR-")
		var trials [5]breaker.Permit
		for i := range trials {
			trials[i] = acquire(t, b)
		}
		run(t, b, "R")
		before.Done(core.Failure) // of another state
		trials[0].Done(core.Ignored)
		trials[0].Done(core.Failure) // a second end
		run(t, b, "SR")
		for range 5 {
			require.Equal(t, breaker.HalfOpen, b.State())
			time.Sleep(10 * time.Second)
		}
		trials[1].Done(core.Success)
		j.take()
		time.Sleep(10 * time.Second)
		require.Equal(t, breaker.Open, b.State(), "no result for a minute")
		require.Equal(t, []string{"half_open > open: no result of a trial for 1m0s, for 1m0s"}, j.take())
		trials[2].Done(core.Success)
		require.EqualValues(t, 3, b.Stats().Ignored)
	})
}

func TestTrialsInParallel(t *testing.T) {
	t.Parallel()
	for range 100 {
		b := newBreaker(t, breaker.Config{Failures: 1, Trials: 7, OpenDelay: backoff.Constant{}})
		run(t, b, "F")
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() { _, _ = b.Acquire(t.Context()) })
		}
		all.Wait()
		require.EqualValues(t, 43, b.Stats().Rejected)
	}
}
