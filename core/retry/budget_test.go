package retry_test

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/retry"
)

// 1,000 concurrent calls that always fail make 1,000 attempts, 200 retries for
// 20 %, and 3 of the second.
func TestBudgetSharedByPolicies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		budget := core.Must(retry.NewBudget(0.2, 3))
		require.Equal(t, 3, budget.Left())
		policies := [2]*retry.Policy{}
		for i := range policies {
			policies[i] = core.Must(retry.New(retry.Config{MaxAttempts: 10, Backoff: backoff.Constant{}, Budget: budget}))
		}
		const calls = 1000
		var attempts, over atomic.Int64
		together := make(chan struct{})
		var wg sync.WaitGroup
		for i := range calls {
			wg.Go(func() {
				<-together
				_, err := retry.Do(t.Context(), policies[i%2], func(context.Context) (int, error) {
					attempts.Add(1)
					return 0, errBoom
				})
				if err == errBoom { //nolint:errorlint // bare: no retry was made
					over.Add(1)
				}
			})
		}
		synctest.Wait()
		close(together)
		wg.Wait()
		require.EqualValues(t, 1203, attempts.Load(), "shared by both policies, and used up")
		require.Zero(t, budget.Left())
		var sum retry.Stats
		for _, p := range policies {
			s := p.Stats()
			sum.Retries += s.Retries
			sum.Suppressed += s.Suppressed
			sum.Failed += s.Failed
		}
		require.EqualValues(t, 203, sum.Retries)
		require.GreaterOrEqual(t, over.Load(), int64(calls-203))
		require.EqualValues(t, calls, sum.Failed)
		require.LessOrEqual(t, sum.Suppressed, uint64(calls))
		require.GreaterOrEqual(t, sum.Suppressed, uint64(calls-203/9))

		time.Sleep(time.Second - 1)
		require.Equal(t, 2, budget.Left())
		time.Sleep(time.Nanosecond)
		require.Equal(t, 3, budget.Left())
		time.Sleep(time.Hour)
		require.Equal(t, 3, budget.Left(), "what a second brings does not pile up")
	})
}

func TestBudgetPayments(t *testing.T) {
	t.Parallel()
	fails := func(context.Context) (int, error) { return 0, errBoom }
	succeeds := func(context.Context) (int, error) { return 1, nil }
	for _, tt := range []struct {
		name  string
		ratio float64
		cfg   retry.Config
		ends  []error
		calls int
		left  int
	}{
		{"success", 0.1, retry.Config{}, []error{nil}, 29, 2},
		{"success, observed", 0.1, retry.Config{Registry: noted(new([]string))}, []error{nil}, 30, 3},
		{"a tenth ten times is a whole", 0.1, retry.Config{}, []error{nil}, 10, 1},
		{"a third three times, too", 1.0 / 3, retry.Config{}, []error{nil}, 3, 1},
		{"failure that is not retried", 0.5, retry.Config{RetryIf: func(error) bool { return false }}, []error{errBoom}, 4, 2},
		{"one attempt", 0.5, retry.Config{MaxAttempts: 1}, []error{errBoom}, 4, 2},
		{"rejections were not made", 1, retry.Config{}, []error{core.ErrRejected}, 9, 0},
		{"rejected, then made: once", 1, retry.Config{RetryRejected: true}, []error{core.ErrRejected, errBoom, errWeb, nil}, 9, 0},
		{"a retry costs one", 1, retry.Config{}, []error{errBoom, nil}, 1, 0},
		{"more than remembered", 0.2, retry.Config{}, []error{nil}, 2 * retry.BudgetCalls, 200},
		{"more than remembered of little", 1e-6, retry.Config{}, []error{nil}, 5000, 0},
		{"nothing", 0, retry.Config{}, []error{nil}, 5000, 0},
		{"all", 1, retry.Config{}, []error{nil}, 5000, 1000},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.cfg.Budget, tt.cfg.Backoff = core.Must(retry.NewBudget(tt.ratio, 0)), backoff.Constant{}
			p := core.Must(retry.New(tt.cfg))
			for range tt.calls {
				_, _ = retry.Do(t.Context(), p, (&script{ends: tt.ends}).run)
			}
			require.Equal(t, tt.left, tt.cfg.Budget.Left())
		})
	}
	b := core.Must(retry.NewBudget(0, 0))
	p := core.Must(retry.New(retry.Config{Budget: b}))
	_, err := retry.Do(t.Context(), p, fails)
	require.Equal(t, errBoom, err, "no retry: bare")
	_, err = retry.Do(t.Context(), p, succeeds)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	full := core.Must(retry.NewBudget(1, 0))
	_, err = retry.Do(ctx, core.Must(retry.New(retry.Config{Budget: full})), succeeds)
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, full.Left(), "no call was made")
}

// A whole token for a ratio of a millionth takes a million calls, not a thousand.
func TestBudgetOfALittleRatio(t *testing.T) {
	t.Parallel()
	b := core.Must(retry.NewBudget(1e-5, 0))
	p := core.Must(retry.New(retry.Config{Budget: b}))
	for range 100_000 {
		_, _ = retry.Do(t.Context(), p, (&script{ends: []error{nil}}).run)
	}
	require.Equal(t, 1, b.Left())
}

func TestNewBudget(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		ratio     float64
		perSecond int
		want      string
	}{
		{0, 0, ""},
		{1, 1e9, ""},
		{-0.1, 0, "retry.NewBudget.ratio = -0.1: must be between 0 and 1"},
		{20, 3, "retry.NewBudget.ratio = 20: must be between 0 and 1"},
		{math.NaN(), 3, "retry.NewBudget.ratio = NaN: must be between 0 and 1"},
		{0, -1, "retry.NewBudget.perSecond = -1: must be between 0 and 1000000000"},
		{0, 1e9 + 1, "retry.NewBudget.perSecond = 1000000001: must be between 0 and 1000000000"},
	} {
		b, err := retry.NewBudget(tt.ratio, tt.perSecond)
		if tt.want == "" {
			require.NoError(t, err)
			require.Equal(t, tt.perSecond, b.Left())
			continue
		}
		require.ErrorIs(t, err, core.ErrConfig)
		require.EqualError(t, err, tt.want)
	}
}

// Years between two looks, and the largest of everything, do not overflow.
func TestBudgetSaturates(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := core.Must(retry.NewBudget(1, 1e9))
		p := core.Must(retry.New(retry.Config{Budget: b}))
		for range 3 {
			for range 2 * retry.BudgetCalls {
				_, _ = retry.Do(t.Context(), p, (&script{ends: []error{nil}}).run)
			}
			time.Sleep(100 * 365 * 24 * time.Hour)
			require.Equal(t, 1_000_000_000+retry.BudgetCalls, b.Left())
		}
	})
}

// Nobody asked for a retry in a million million calls.
func TestBudgetOfUncountedCalls(t *testing.T) {
	t.Parallel()
	for _, ratio := range []float64{1, 0.2, 1e-9} {
		b := core.Must(retry.NewBudget(ratio, 0))
		b.Forget()
		require.Equal(t, max(1, int(ratio*retry.BudgetCalls)), b.Left())
	}
}

// What does not keep is taken first, and what is put back is no more than there may be.
func TestBudgetPutBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := core.Must(retry.NewBudget(0.001, 2))
		b.Pay(retry.BudgetCalls)
		require.Equal(t, 3, b.Left())
		back := []func(){b.Take(), b.Take()}
		time.Sleep(time.Second)
		require.Equal(t, 3, b.Left(), "of perSecond")
		back = append(back, b.Take(), b.Take(), b.Take())
		require.Nil(t, b.Take())
		time.Sleep(time.Second)
		require.Equal(t, 2, b.Left(), "of a call")
		b.Pay(retry.BudgetCalls)
		for _, f := range back {
			f()
		}
		require.Equal(t, 3, b.Left())
	})
}

func TestBudgetInParallel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := core.Must(retry.NewBudget(0.25, 4))
		var began, retries atomic.Int64
		var wg sync.WaitGroup
		for i := range 16 {
			p := core.Must(retry.New(retry.Config{MaxAttempts: 3 + i%3, Budget: b, Backoff: backoff.Constant{Delay: time.Duration(i) * ms}}))
			wg.Go(func() {
				for n := range 200 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+n%40)*ms)
					began.Add(1)
					_, _ = retry.Do(ctx, p, func(ctx context.Context) (int, error) {
						if retry.Attempt(ctx) > 1 {
							retries.Add(1)
						}
						time.Sleep(10 * ms)
						return n, []error{errBoom, nil}[n%5/4]
					})
					cancel()
				}
			})
		}
		start := time.Now()
		wg.Wait()
		most := float64(began.Load())*0.25 + 4 + 4*time.Since(start).Seconds()
		require.LessOrEqual(t, float64(retries.Load()), most)
		require.Greater(t, float64(retries.Load()), most/2, "used, too")
	})
	b := core.Must(retry.NewBudget(1, 0))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				b.Pay(1)
				b.Take()() // it was just paid
			}
		})
	}
	wg.Wait()
	require.Equal(t, 800, b.Left())
}

func TestBudgetOfNestedRetries(t *testing.T) {
	t.Parallel()
	budget := core.Must(retry.NewBudget(1, 0))
	outer := core.Must(retry.New(retry.Config{Backoff: backoff.Constant{}, MaxAttempts: 4}))
	inner := core.Must(retry.New(retry.Config{Budget: budget}))
	_, err := retry.Do(t.Context(), outer, func(ctx context.Context) (int, error) {
		_, err := retry.Do(ctx, inner, func(context.Context) (int, error) { return 1, nil })
		return 0, errors.Join(err, errBoom)
	})
	require.ErrorIs(t, err, errBoom)
	require.Equal(t, 1, budget.Left(), "the first attempt alone")
}

// It is a retry that was not made.
func TestBudgetOfRejectedRetries(t *testing.T) {
	t.Parallel()
	for _, again := range []bool{false, true} {
		budget := core.Must(retry.NewBudget(1, 0))
		p := core.Must(retry.New(retry.Config{Budget: budget, Backoff: backoff.Constant{}, RetryRejected: again, MaxAttempts: 5}))
		_, err := retry.Do(t.Context(), p, (&script{ends: []error{errBoom, core.ErrRejected}}).run)
		require.ErrorContains(t, err, "rejected")
		require.NotErrorIs(t, err, core.ErrRejected)
		require.Equal(t, 1, budget.Left())
	}
}

func TestZeroBudget(t *testing.T) {
	t.Parallel()
	p := core.Must(retry.New(retry.Config{Budget: new(retry.Budget)}))
	op := &script{ends: []error{errBoom}}
	_, err := retry.Do(t.Context(), p, op.run)
	require.ErrorIs(t, err, errBoom)
	require.Equal(t, 1, op.calls)
}

func TestBudgetOfRetriesThatAreNotMade(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		cfg  retry.Config
		end  error
		left int
	}{
		"canceled in the wait": {retry.Config{Backoff: backoff.Constant{Delay: time.Hour}}, errBoom, 2},
		"no time":              {retry.Config{MaxElapsed: time.Second, Backoff: backoff.Constant{Delay: time.Second}}, errBoom, 2},
		"asks for too long":    {retry.Config{RetryRejected: true}, rejection{time.Hour}, 1},
		"no attempt is left":   {retry.Config{MaxAttempts: 1}, errBoom, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := core.Must(retry.NewBudget(1, 0))
				_, _ = retry.Do(t.Context(), core.Must(retry.New(retry.Config{Budget: b})), (&script{ends: []error{nil}}).run)
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(time.Minute, cancel)
				tt.cfg.Budget = b
				_, err := retry.Do(ctx, core.Must(retry.New(tt.cfg)), (&script{ends: []error{tt.end}}).run)
				require.ErrorIs(t, err, tt.end)
				require.Equal(t, tt.left, b.Left())
			})
		})
	}
}
