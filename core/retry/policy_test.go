package retry_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/retry"
)

func TestWaits(t *testing.T) {
	t.Parallel()
	s := time.Second
	for name, tt := range map[string]struct {
		cfg      retry.Config
		ends     []error
		deadline time.Duration
		waits    []time.Duration
	}{
		"Kresil's":           {retry.Config{MaxAttempts: 6, Backoff: exactly()}, []error{errBoom}, 0, []time.Duration{500 * ms, s, 2 * s, 4 * s, 8 * s}},
		"constant":           {retry.Config{Backoff: backoff.Constant{Delay: s}}, []error{errBoom}, 0, []time.Duration{s, s}},
		"told":               {retry.Config{Backoff: exactly()}, []error{asks(4 * s)}, 0, nil},
		"told less":          {retry.Config{Backoff: exactly()}, []error{asks(100 * ms)}, 0, []time.Duration{500 * ms, s}},
		"told, no jitter":    {retry.Config{Backoff: backoff.Constant{Delay: s}}, []error{asks(4 * s)}, 0, []time.Duration{4 * s, 4 * s}},
		"told a rejection":   {retry.Config{Backoff: backoff.Constant{}, RetryRejected: true}, []error{rejection{4 * s}, nil}, 0, []time.Duration{4 * s}},
		"negative":           {retry.Config{Backoff: backoff.Func(func(int, time.Duration) time.Duration { return -s })}, []error{errBoom}, 0, []time.Duration{0, 0}},
		"prev":               {retry.Config{Backoff: backoff.Func(func(n int, prev time.Duration) time.Duration { return prev + time.Duration(n)*s })}, []error{errBoom}, 0, []time.Duration{s, 3 * s}},
		"MaxElapsed":         {retry.Config{Backoff: backoff.Constant{Delay: s}, MaxElapsed: 2 * s}, []error{errBoom}, 0, []time.Duration{s}},
		"MaxElapsed is over": {retry.Config{Backoff: backoff.Constant{}, MaxElapsed: ms, RetryIf: func(error) bool { time.Sleep(ms); return true }}, []error{errBoom}, 0, []time.Duration{}},
		"deadline":           {retry.Config{Backoff: backoff.Constant{Delay: s}}, []error{errBoom}, 2 * s, []time.Duration{s}},
		"told, deadline":     {retry.Config{Backoff: backoff.Constant{}}, []error{asks(2 * s)}, 2 * s, []time.Duration{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				waits, sum := []time.Duration{}, time.Duration(0)
				tt.cfg.OnRetry = func(_ context.Context, r retry.Retry) { waits, sum = append(waits, r.Wait), sum+r.Wait }
				ctx, cancel := t.Context(), func() {}
				if tt.deadline > 0 {
					ctx, cancel = context.WithTimeout(ctx, tt.deadline)
				}
				defer cancel()
				start := time.Now()
				_, _ = retry.Do(ctx, core.Must(retry.New(tt.cfg)), (&script{ends: tt.ends}).run)
				if tt.waits != nil {
					require.Equal(t, tt.waits, waits)
				}
				require.LessOrEqual(t, sum, time.Since(start))
			})
		})
	}
}

// What is above the wait that was told is the jitter of the backoff, folded into the time that is left.
func TestToldWaitIsSpread(t *testing.T) {
	t.Parallel()
	jittered := backoff.Exponential{Delay: 2 * time.Second}
	for name, tt := range map[string]struct {
		cfg      retry.Config
		deadline time.Duration
		most     time.Duration // after what was told
	}{
		"backoff":         {retry.Config{Backoff: jittered}, time.Hour, time.Second},
		"default":         {retry.Config{}, time.Hour, 250 * ms},
		"no jitter":       {retry.Config{Backoff: backoff.Constant{Delay: time.Second}}, time.Hour, 0},
		"near deadline":   {retry.Config{Backoff: jittered}, 10*time.Second + 500*ms, 500 * ms},
		"near MaxElapsed": {retry.Config{Backoff: jittered, MaxElapsed: 10*time.Second + 500*ms}, time.Hour, 500 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				least, most := time.Hour, time.Duration(0)
				tt.cfg.OnRetry = func(_ context.Context, r retry.Retry) { least, most = min(least, r.Wait), max(most, r.Wait) }
				p := core.Must(retry.New(tt.cfg))
				for range 200 {
					ctx, cancel := context.WithTimeout(t.Context(), tt.deadline)
					op := &script{ends: []error{asks(10 * time.Second), nil}}
					_, err := retry.Do(ctx, p, op.run)
					require.NoError(t, err)
					cancel()
				}
				require.GreaterOrEqual(t, least, 10*time.Second)
				require.LessOrEqual(t, most, 10*time.Second+tt.most)
				require.GreaterOrEqual(t, most-least, tt.most*8/10)
			})
		})
	}
}

func TestMaxElapsedOverADay(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	synctest.Test(t, func(t *testing.T) {
		start, last := time.Now(), time.Duration(0)
		p := core.Must(retry.New(retry.Config{MaxAttempts: 1 << 30, Backoff: backoff.Exponential{Max: time.Hour}, MaxElapsed: day}))
		_, err := retry.Do(t.Context(), p, func(context.Context) (int, error) {
			last = time.Since(start)
			time.Sleep(time.Second)
			return 0, errBoom
		})
		require.ErrorContains(t, err, "(deadline): boom")
		require.Less(t, last, day)
		require.Greater(t, last, day-2*time.Hour)
	})
}

func TestValidate(t *testing.T) {
	t.Parallel()
	require.NoError(t, retry.Config{}.Validate())
	_, err := retry.New(retry.Config{MaxAttempts: -1, MaxElapsed: -1, MaxRetryAfter: -1, Backoff: backoff.Exponential{Factor: 0.5}})
	require.ErrorIs(t, err, core.ErrConfig)
	require.EqualError(t, err, `retry.Config.MaxAttempts = -1: must be >= 0 (0 means 3)
retry.Config.MaxElapsed = -1ns: must be >= 0 (0 means no limit)
retry.Config.MaxRetryAfter = -1ns: must be >= 0 (0 means 2m0s)
retry.Config.Backoff.Exponential.Factor = 0.5: must be >= 1 and finite (0 means 2)`)
}

func TestOverride(t *testing.T) {
	t.Parallel()
	p, other := core.Must(retry.New(retry.Config{Name: "api", Backoff: backoff.Constant{}})), core.Must(retry.New(retry.Config{}))
	attempts := func(n int) func(*retry.Config) {
		return func(c *retry.Config) { c.MaxAttempts, c.Name = n, "other" }
	}
	ctx := p.Override(other.Override(t.Context(), attempts(9)), attempts(4))
	for want, ctx := range map[int]context.Context{3: other.Override(t.Context(), attempts(9)), 4: ctx, 5: p.Override(ctx, attempts(5)), 1: p.Override(ctx, attempts(1)), 0: p.Override(ctx, attempts(-1))} {
		op := &script{ends: []error{errBoom}}
		_, err := retry.Do(ctx, p, op.run)
		require.Equal(t, want, op.calls)
		if want == 0 {
			require.ErrorIs(t, err, core.ErrConfig)
		}
		if want > 1 {
			require.ErrorContains(t, err, "retry: api: ")
		}
	}
	op := &script{ends: []error{errBoom, errWeb, nil}}
	got, err := retry.Do(p.Override(t.Context(), func(c *retry.Config) { c.RetryIf = func(err error) bool { return err == errBoom } }), p, op.run) //nolint:errorlint // the very one
	require.ErrorIs(t, err, errWeb)
	require.Empty(t, got)
}

// A call ends under the Config that it began with, and fields that belong together are never seen apart.
func TestSetConfigConcurrently(t *testing.T) {
	t.Parallel()
	twice := retry.Config{MaxAttempts: 2, Backoff: backoff.Constant{}, RetryResult: func(v any) bool { return v.(int) < 2 }}
	thrice := retry.Config{MaxAttempts: 3, Backoff: backoff.Constant{}, RetryResult: func(v any) bool { return v.(int) < 3 }}
	p := core.Must(retry.New(twice))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for n := range 500 {
				_ = p.SetConfig([]retry.Config{twice, thrice}[n%2])
			}
		})
		wg.Go(func() {
			for range 500 {
				if _, err := retry.Do(t.Context(), p, func(ctx context.Context) (int, error) { return retry.Attempt(ctx), nil }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	s := p.Stats()
	require.EqualValues(t, 2000, s.Recovered)
	require.Regexp(t, `^succeeded=0 recovered=2000 failed=0 retries=\d+$`, s.String())
}

func TestPanics(t *testing.T) {
	t.Parallel()
	budget := core.Must(retry.NewBudget(1, 0))
	for name, cfg := range map[string]retry.Config{
		"backoff": {Backoff: backoff.Func(func(int, time.Duration) time.Duration { panic("backoff") })},
		"RetryIf": {RetryIf: func(error) bool { panic("RetryIf") }},
	} {
		cfg.Budget = budget
		p := core.Must(retry.New(cfg))
		before := budget.Left()
		require.PanicsWithValue(t, name, func() { _, _ = retry.Do(t.Context(), p, (&script{ends: []error{errBoom}}).run) })
		require.GreaterOrEqual(t, budget.Left(), before, "no retry was made")
	}
}
