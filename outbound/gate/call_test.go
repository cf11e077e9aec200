package gate_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/outbound/gate"
)

// A tester is the T of a bubble.
type tester struct{ *testing.T }

// bubble runs a test with virtual time and a gate.
func bubble(t *testing.T, cfg gate.Config, f func(t tester, g *gate.Gate)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := core.Must(gate.New(cfg))
		f(tester{t}, g)
		require.NoError(t, g.Close(t.Context()))
		s := g.Stats()
		require.Equal(t, []int{0, 0, 0}, []int{s.Waiting, s.InFlight, s.Connections})
	})
}

func perSecond(n int64) []gate.Limit { return []gate.Limit{{N: n, Per: time.Second}} }

// do makes a call that takes a while.
func do(ctx context.Context, g *gate.Gate, c gate.Call, d time.Duration) error {
	return g.Do(ctx, c, func(context.Context) error { time.Sleep(d); return nil })
}

// Callers that give up leave no hole: at ten times the limit it is used, whatever makes them leave.
func TestCallersThatGiveUp(t *testing.T) {
	t.Parallel()
	patience := errors.New("patience")
	for name, cfg := range map[string]func() gate.Config{
		"limit":   func() gate.Config { return gate.Config{Limits: perSecond(20)} },
		"limiter": func() gate.Config { return gate.Config{Limiter: rate.NewLimiter(20, 1)} },
		"both":    func() gate.Config { return gate.Config{Limits: perSecond(20), Limiter: rate.NewLimiter(25, 5)} },
	} {
		for _, deadline := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				bubble(t, cfg(), func(t tester, g *gate.Gate) {
					var served atomic.Int64
					var group sync.WaitGroup
					start := time.Now()
					for range 200 * 10 {
						time.Sleep(5 * time.Millisecond)
						group.Go(func() {
							ctx, cancel := context.WithTimeoutCause(t.Context(), 500*time.Millisecond, patience)
							defer cancel()
							if !deadline {
								var leave context.CancelCauseFunc
								ctx, leave = context.WithCancelCause(t.Context())
								defer leave(nil)
								time.AfterFunc(rand.N(time.Second), func() { leave(patience) }) //nolint:gosec // a test
							}
							switch err := do(ctx, g, gate.Call{}, 0); {
							case err == nil:
								served.Add(1)
							case !errors.Is(err, patience):
								require.ErrorIs(t, err, core.ErrRejected)
							}
						})
					}
					group.Wait()
					require.GreaterOrEqual(t, float64(served.Load()), 0.9*20*10/1.05)
					require.LessOrEqual(t, float64(served.Load()), 20*time.Since(start).Seconds()+1)
				})
			})
		}
	}
}

// patient is a context whose deadline does not end it, as that of a job at its gate.
type patient struct {
	context.Context

	until time.Time
}

func (p patient) Deadline() (time.Time, bool) { return p.until, true }

func TestWaits(t *testing.T) {
	t.Parallel()
	slow := []gate.Limit{{Name: "calls", N: 1, Per: time.Minute}}
	burst := func(n int64) gate.Config {
		return gate.Config{Limits: []gate.Limit{{N: 10, Per: 10 * time.Minute, Burst: n}}, InFlight: 1, MaxWait: 30 * time.Second}
	}
	for name, row := range map[string]struct {
		cfg      gate.Config
		before   int // calls that are made before
		deadline time.Duration
		patience time.Duration // a deadline that does not end the context
		err      error
		after    time.Duration
	}{
		"free":                  {cfg: gate.Config{Limits: slow}},
		"waits":                 {cfg: gate.Config{Limits: slow}, before: 1, after: time.Minute + 50*time.Millisecond},
		"MaxWait is enough":     {cfg: gate.Config{Limits: slow, MaxWait: 2 * time.Minute}, before: 1, after: time.Minute + 50*time.Millisecond},
		"MaxWait is too short":  {cfg: gate.Config{Limits: slow, MaxWait: time.Minute}, before: 1, err: gate.ErrLimited},
		"no wait":               {cfg: gate.Config{Limits: slow, MaxWait: -1}, before: 1, err: gate.ErrLimited},
		"no wait, free":         {cfg: gate.Config{Limits: slow, MaxWait: -1}},
		"deadline is too short": {cfg: gate.Config{Limits: slow}, before: 1, deadline: time.Minute, err: gate.ErrLimited},
		"second of a queue":     {cfg: gate.Config{Limits: slow, MaxWait: 2 * time.Minute}, before: 2, err: gate.ErrLimited},
		"burst is left":         {cfg: burst(3), before: 2, after: 20 * time.Second},
		"burst is used up":      {cfg: burst(2), before: 2, err: gate.ErrLimited},
		"queue is full":         {cfg: gate.Config{Limits: slow, MaxQueue: 1}, before: 2, err: gate.ErrFull},
		"place":                 {cfg: gate.Config{InFlight: 1}, before: 1, after: 10 * time.Second},
		"no place in MaxWait":   {cfg: gate.Config{InFlight: 1, MaxWait: time.Second}, before: 1, err: gate.ErrLimited, after: time.Second},
		"no place, deadline":    {cfg: gate.Config{InFlight: 1}, before: 1, deadline: time.Second, err: context.DeadlineExceeded, after: time.Second},
		"place, far deadline":   {cfg: gate.Config{InFlight: 1}, before: 1, deadline: math.MaxInt64, after: 10 * time.Second},
		"no place, patience":    {cfg: gate.Config{InFlight: 1}, before: 1, patience: time.Second, err: gate.ErrLimited, after: time.Second + 50*time.Millisecond},
		"limiter refuses":       {cfg: gate.Config{Limiter: rate.NewLimiter(1, 0)}, err: gate.ErrLimited},
		"limiter waits":         {cfg: gate.Config{Limiter: rate.NewLimiter(rate.Every(time.Minute), 1)}, before: 1, after: time.Minute},
		"limiter, too long":     {cfg: gate.Config{Limiter: rate.NewLimiter(rate.Every(time.Minute), 1), MaxWait: time.Second}, before: 1, err: gate.ErrLimited},
		"limiter, deadline":     {cfg: gate.Config{Limiter: rate.NewLimiter(0, 1)}, before: 1, deadline: 24 * time.Hour, err: gate.ErrLimited},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, row.cfg, func(t tester, g *gate.Gate) {
				before, stop := context.WithCancel(t.Context())
				for range row.before {
					go func() { _ = do(before, g, gate.Call{}, 10*time.Second) }()
					synctest.Wait()
				}
				ctx, cancel := t.Context(), func() {}
				if row.deadline > 0 {
					ctx, cancel = context.WithTimeout(ctx, row.deadline)
				}
				if row.patience > 0 {
					ctx = patient{ctx, time.Now().Add(row.patience)}
				}
				start := time.Now()
				err := do(ctx, g, gate.Call{}, 0)
				require.ErrorIs(t, err, row.err)
				require.Equal(t, row.after, time.Since(start).Truncate(time.Millisecond))
				var limited *gate.LimitedError
				if errors.As(err, &limited) {
					require.ErrorIs(t, err, core.ErrRejected)
					require.Equal(t, !limited.Until.IsZero(), limited.RetryAfter() > 0)
				}
				cancel()
				stop()
				synctest.Wait()
			})
		})
	}
}

// The limit of a rate.Limiter is changed while a call waits for it.
func TestLimiterIsChanged(t *testing.T) {
	t.Parallel()
	limiter := rate.NewLimiter(rate.Every(time.Hour), 1)
	bubble(t, gate.Config{Limiter: limiter}, func(t tester, g *gate.Gate) {
		require.NoError(t, do(t.Context(), g, gate.Call{}, 0))
		start := time.Now()
		time.AfterFunc(10*time.Second, func() { limiter.SetLimit(1000) })
		require.NoError(t, do(t.Context(), g, gate.Call{}, 0))
		require.LessOrEqual(t, time.Since(start), 12*time.Second)
	})
}

// The token of a call whose key is held meanwhile is not lost, and is none that the limiter has replaced since.
func TestLimiterToken(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		burst     int
		leave, at time.Duration // when the call gives up; when others come
		want      int           // how many of them are sent at once
	}{
		"leaves before it is due": {1, 500 * time.Millisecond, time.Second, 1},
		"leaves after it is due":  {10, 5500 * time.Millisecond, 5500 * time.Millisecond, 5},
		"waits":                   {1, 2 * time.Minute, time.Minute, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := gate.Config{Limits: []gate.Limit{{Name: "account", Key: gate.ByCall}}, Limiter: rate.NewLimiter(1, row.burst)}
			bubble(t, cfg, func(t tester, g *gate.Gate) {
				for range row.burst - 1 {
					require.NoError(t, do(t.Context(), g, account("b"), 0))
				}
				refused(t, g, account("a"), 100*time.Millisecond, time.Hour)
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(row.leave, cancel)
				go func() { _ = do(ctx, g, account("a"), 0) }()
				time.Sleep(row.at)
				synctest.Wait()
				sent := 0
				for range 10 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
					if do(ctx, g, account("b"), 0) == nil {
						sent++
					}
					cancel()
				}
				require.Equal(t, row.want, sent)
			})
		})
	}
}

// A token that a call has not used is there until the limiter has replaced it.
func TestReturnedToken(t *testing.T) {
	t.Parallel()
	bubble(t, gate.Config{Limiter: rate.NewLimiter(1, 1)}, func(t tester, g *gate.Gate) {
		for _, pause := range []time.Duration{0, 10 * time.Second} {
			require.ErrorIs(t, g.Do(t.Context(), gate.Call{}, func(context.Context) error { return core.ErrRejected }), core.ErrRejected)
			time.Sleep(pause)
			start := time.Now()
			for i := range 2 {
				require.NoError(t, do(t.Context(), g, gate.Call{}, 0))
				require.Equal(t, time.Duration(i)*time.Second, time.Since(start), pause)
			}
			time.Sleep(time.Minute)
		}
	})
}

// Calls that wait for their own key are not before a call of another key: it is refused only for what it would wait itself.
func TestEstimateOfOtherKey(t *testing.T) {
	t.Parallel()
	limits := []gate.Limit{{Name: "all", N: 10, Per: time.Second}, {Name: "account", N: 1, Per: time.Second, Key: gate.ByCall}}
	classify := func(_ *http.Response, err error) gate.Signal {
		s := gate.Classify(nil, err)
		s.Limit = "account"
		return s
	}
	for name, row := range map[string]struct {
		cfg   gate.Config
		pause time.Duration // of the account whose calls wait
		after time.Duration
	}{
		"held":          {gate.Config{Limits: limits}, 30 * time.Second, time.Second},
		"slow":          {gate.Config{Limits: limits}, 0, time.Second},
		"slow, later":   {gate.Config{Limits: limits}, 0, 1100 * time.Millisecond}, // right after a call of the other key
		"held, limiter": {gate.Config{Limits: limits[1:], Limiter: rate.NewLimiter(10, 1)}, 30 * time.Second, time.Second},
		"slow, limiter": {gate.Config{Limits: limits[1:], Limiter: rate.NewLimiter(10, 1)}, 0, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			row.cfg.Classify = classify
			bubble(t, row.cfg, func(t tester, g *gate.Gate) {
				if row.pause > 0 {
					refused(t, g, account("a"), 0, row.pause)
				}
				time.Sleep(2 * time.Second)
				waiting, stop := context.WithCancel(t.Context())
				for range 1000 {
					go func() { _ = do(waiting, g, account("a"), 0) }()
				}
				synctest.Wait()
				time.Sleep(row.after)
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				require.NoError(t, do(ctx, g, account("b"), 0))
				_, err := g.Wait(ctx, account("a"))
				require.ErrorIs(t, err, gate.ErrLimited)
				stop()
				synctest.Wait()
			})
		})
	}
}

// A call that would have to wait past its deadline is refused at once, whichever of its limits is the slow one.
func TestEstimateOfSlowLimit(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]gate.Config{
		"limiter": {Limits: perSecond(100), Limiter: rate.NewLimiter(5, 1)},
		"limits":  {Limits: []gate.Limit{{N: 10, Per: time.Second}, {Name: "minute", N: 51, Per: time.Minute}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, cfg, func(t tester, g *gate.Gate) {
				ctx, stop := context.WithCancel(t.Context())
				for range 1000 {
					go func() { _ = do(ctx, g, gate.Call{}, 0) }()
				}
				for range 20 {
					time.Sleep(53 * time.Millisecond)
					start := time.Now()
					soon, cancel := context.WithTimeout(t.Context(), time.Minute)
					require.ErrorIs(t, do(soon, g, gate.Call{}, 0), gate.ErrLimited)
					require.Zero(t, time.Since(start))
					cancel()
				}
				stop()
				synctest.Wait()
			})
		})
	}
}

// A call that costs nothing under a limit does not wait behind calls that do.
func TestCallWithoutCost(t *testing.T) {
	t.Parallel()
	bubble(t, gate.Config{Limits: []gate.Limit{{N: 1, Per: time.Minute}}}, func(t tester, g *gate.Gate) {
		require.NoError(t, do(t.Context(), g, gate.Call{}, 0))
		ctx, stop := context.WithCancel(t.Context())
		go func() { _ = do(ctx, g, gate.Call{}, 0) }()
		synctest.Wait()
		start := time.Now()
		require.NoError(t, do(t.Context(), g, gate.Call{Costs: map[string]int64{"": 0}}, 0))
		require.Zero(t, time.Since(start))
		stop()
		synctest.Wait()
	})
}

// refused makes a call that is refused with a pause, after a while, and does not wait for more.
func refused(tb testing.TB, g *gate.Gate, c gate.Call, after, pause time.Duration) {
	tb.Helper()
	p, err := g.Wait(tb.Context(), c)
	require.NoError(tb, err)
	go func() {
		time.Sleep(after)
		p.Done(refusal{pause})
	}()
}

func account(name string) gate.Call { return gate.Call{Keys: map[string]string{"account": name}} }

func TestHolds(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	byAccount := gate.Config{Limits: []gate.Limit{{Name: "all"}, {Name: "account", Key: gate.ByCall}}, Classify: func(_ *http.Response, err error) gate.Signal {
		s := gate.Classify(nil, err)
		s.Limit = "account"
		return s
	}}
	type step func(t tester, g *gate.Gate)
	refuse := func(c gate.Call, after, pause time.Duration) step {
		return func(t tester, g *gate.Gate) { t.Helper(); refused(t, g, c, after, pause) }
	}
	succeed := func(t tester, g *gate.Gate) { t.Helper(); require.NoError(t, do(t.Context(), g, gate.Call{}, 0)) }
	resume := func(t tester, g *gate.Gate) { t.Helper(); require.NoError(t, g.Resume(t.Context(), "", "")) }
	sleep := func(d time.Duration) step { return func(tester, *gate.Gate) { time.Sleep(d) } }
	for name, row := range map[string]struct {
		cfg   gate.Config
		steps []step
		call  gate.Call
		after time.Duration // to the next call, without the pad
	}{
		"longest counts":           {steps: []step{refuse(gate.Call{}, ms, time.Minute), refuse(gate.Call{}, 2*ms, time.Second), sleep(3 * ms)}, after: time.Minute - 2*ms},
		"longest counts, second":   {steps: []step{refuse(gate.Call{}, ms, time.Second), refuse(gate.Call{}, 2*ms, time.Minute), sleep(3 * ms)}, after: time.Minute - ms},
		"same pause later":         {steps: []step{refuse(gate.Call{}, ms, 15*time.Second), refuse(gate.Call{}, 8*time.Second, 15*time.Second), sleep(2 * ms)}, after: 23*time.Second - 2*ms},
		"late answer":              {steps: []step{refuse(gate.Call{}, ms, time.Second), refuse(gate.Call{}, 3*time.Second, time.Minute), sleep(4 * time.Second)}, after: 0},
		"resumed":                  {steps: []step{refuse(gate.Call{}, ms, time.Hour), sleep(time.Second), resume}, after: 0},
		"resumed, late answer":     {steps: []step{refuse(gate.Call{}, ms, time.Hour), refuse(gate.Call{}, 2*time.Second, time.Hour), sleep(time.Second), resume, sleep(2 * time.Second)}, after: 0},
		"other account":            {cfg: byAccount, steps: []step{refuse(account("a"), ms, time.Minute), sleep(2 * ms)}, call: account("b"), after: 0},
		"same account":             {cfg: byAccount, steps: []step{refuse(account("a"), ms, time.Minute), sleep(2 * ms)}, call: account("a"), after: time.Minute - ms},
		"call without the limit":   {cfg: byAccount, steps: []step{refuse(gate.Call{}, ms, time.Minute), sleep(2 * ms)}, call: account("a"), after: time.Minute - ms},
		"no limit at all":          {cfg: gate.Config{}, steps: []step{refuse(gate.Call{}, ms, time.Minute), sleep(2 * ms)}, after: time.Minute - ms},
		"in a ramp, after its end": {steps: []step{refuse(gate.Call{}, ms, time.Second), sleep(2 * ms), succeed, refuse(gate.Call{}, 12*time.Second, time.Minute), sleep(11 * time.Second), succeed, sleep(2 * time.Second)}, after: 59 * time.Second},
		"MaxHold":                  {cfg: gate.Config{MaxHold: time.Minute}, steps: []step{refuse(gate.Call{}, ms, 1<<62), sleep(2 * ms)}, after: time.Minute - ms},
		"not said":                 {steps: []step{refuse(gate.Call{}, ms, 0), sleep(2 * ms)}, after: 15*time.Second - ms},
		"not said, two in a row":   {steps: []step{refuse(gate.Call{}, ms, 0), sleep(time.Minute), refuse(gate.Call{}, ms, 0), sleep(2 * ms)}, after: 30*time.Second - ms},
		"not said, after success":  {steps: []step{refuse(gate.Call{}, ms, 0), sleep(time.Minute), succeed, refuse(gate.Call{}, ms, 0), sleep(2 * ms)}, after: 15*time.Second - ms},
		"not said, three in a row": {steps: []step{refuse(gate.Call{}, ms, 0), sleep(time.Second), refuse(gate.Call{}, ms, 0), sleep(time.Second), refuse(gate.Call{}, ms, 0), sleep(2 * ms)}, after: time.Minute - ms},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, row.cfg, func(t tester, g *gate.Gate) {
				for _, s := range row.steps {
					s(t, g)
				}
				synctest.Wait()
				start := time.Now()
				p, err := g.Wait(t.Context(), row.call)
				require.NoError(t, err)
				p.Done(nil)
				waited := time.Since(start)
				require.GreaterOrEqual(t, waited, row.after)
				require.LessOrEqual(t, waited, row.after+100*ms)
				time.Sleep(time.Hour)
			})
		})
	}
}

// The end of a hold is told, and at least 50 ms and up to 100 ms later, so that several processes do not probe together. It is in no past.
func TestEndOfHold(t *testing.T) {
	t.Parallel()
	for _, pause := range []time.Duration{time.Second, math.MaxInt64} {
		bubble(t, gate.Config{}, func(t tester, _ *gate.Gate) {
			least, most := time.Duration(math.MaxInt64), time.Duration(0)
			for range 50 {
				g := core.Must(gate.New(gate.Config{MaxHold: math.MaxInt64}))
				refused(t, g, gate.Call{}, 0, pause)
				synctest.Wait()
				require.Len(t, g.Holds(), 1, pause)
				late := time.Until(g.Holds()[0].Until) - min(pause, math.MaxInt64-100*time.Millisecond)
				least, most = min(least, late), max(most, late)
			}
			require.GreaterOrEqual(t, least, 50*time.Millisecond, pause)
			require.LessOrEqual(t, most, 100*time.Millisecond, pause)
			require.Greater(t, most-least, 30*time.Millisecond, pause)
		})
	}
}
