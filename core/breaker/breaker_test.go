package breaker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/breaker"
)

var errDown = errors.New("operation failed")

func minute() backoff.Strategy { return backoff.Constant{Delay: time.Minute} }

func newBreaker(t *testing.T, cfg breaker.Config) *breaker.Breaker {
	t.Helper()
	b, err := breaker.New(cfg)
	require.NoError(t, err)
	return b
}

func outcomeOf(c rune) core.Outcome {
	switch c {
	case 'S':
		return core.Success
	case 'F':
		return core.Failure
	}
	return core.Ignored
}

func acquire(t *testing.T, b *breaker.Breaker) breaker.Permit {
	t.Helper()
	p, err := b.Acquire(t.Context())
	require.NoError(t, err)
	return p
}

// run makes calls: S succeeds, F fails, I is ignored, s and f are slow (2s), R must be rejected. The time of a minute passes at a
// dash, a second at a dot, and at O, C, H, M, D, X the state is set by hand.
func run(t *testing.T, b *breaker.Breaker, calls string) {
	t.Helper()
	hand := map[rune]breaker.State{'O': breaker.Open, 'C': breaker.Closed, 'H': breaker.HalfOpen, 'M': breaker.MetricsOnly, 'D': breaker.Disabled, 'X': breaker.ForcedOpen}
	for i, c := range calls {
		switch c {
		case ' ':
		case '-':
			time.Sleep(time.Minute)
		case '.':
			time.Sleep(time.Second)
		case 'R':
			_, err := b.Acquire(t.Context())
			require.ErrorIs(t, err, breaker.ErrOpen, "call %d of %s", i+1, calls)
			require.ErrorIs(t, err, core.ErrRejected)
		case 'O', 'C', 'H', 'M', 'D', 'X':
			require.NoError(t, b.SetState(hand[c]))
		default:
			p, err := b.Acquire(t.Context())
			require.NoError(t, err, "call %d of %s", i+1, calls)
			if c > 'a' {
				time.Sleep(2 * time.Second)
				c -= 'a' - 'A'
			}
			p.Done(outcomeOf(c))
		}
	}
}

func x(n int, calls string) string { return strings.Repeat(calls, n) }

func rejection(t *testing.T, b *breaker.Breaker) *breaker.OpenError {
	t.Helper()
	_, err := b.Acquire(t.Context())
	open, ok := errors.AsType[*breaker.OpenError](err)
	require.True(t, ok, "%v", err)
	return open
}

// A journal writes down changes of state.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) changed(_ context.Context, c breaker.StateChange) {
	j.mu.Lock()
	defer j.mu.Unlock()
	line := fmt.Sprintf("%v > %v: %s", c.From, c.To, c.Reason)
	if c.OpenFor > 0 {
		line += fmt.Sprintf(", for %v", c.OpenFor)
	}
	j.lines = append(j.lines, line)
}

// take returns what was written since the last time.
func (j *journal) take() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	lines := j.lines
	j.lines = nil
	return lines
}

func TestInitialStates(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for state, calls := range map[breaker.State]string{
			breaker.Closed: "FFFFFR", breaker.Open: "R-SSSFFFF", breaker.HalfOpen: "FFFR", breaker.ForcedOpen: "R-R", breaker.Disabled: "FFFFFFFF", breaker.MetricsOnly: "FFFFFFFF",
		} {
			b := newBreaker(t, breaker.Config{Initial: state, OpenDelay: minute()})
			require.Equal(t, state, b.State())
			run(t, b, calls)
		}
	})
}

func TestSetConfig(t *testing.T) {
	t.Parallel()
	small := breaker.Config{Failures: -1, Window: 4, OpenDelay: minute()}
	for name, c := range map[string]struct {
		before string
		cfg    breaker.Config
		after  string
		want   breaker.State
	}{
		"the window stays":          {"SFS", breaker.Config{Failures: -1, Window: 4, FailureRate: 0.4}, "F R", breaker.Open},
		"a larger one is empty":     {"SSSF", breaker.Config{Failures: -1, Window: 5}, "FFSS", breaker.Closed},
		"one of time is empty":      {"SSSF", breaker.Config{Failures: -1, WindowTime: time.Minute, MinCalls: 4}, "FFS", breaker.Closed},
		"it is applied at the next": {"SFS", breaker.Config{Failures: -1, Window: 4, FailureRate: 0.1}, "", breaker.Closed},
		"failures in a row stay":    {"SFF", breaker.Config{Failures: 3, Window: 9}, "F R", breaker.Open},
		"open stays":                {"SFFF", breaker.Config{Failures: -1, Window: 4, OpenDelay: backoff.Constant{}}, "R", breaker.Open},
		"slow calls":                {"SSS", breaker.Config{Failures: -1, Window: 4, SlowCall: time.Second, SlowRate: 0.5}, "ss R", breaker.Open},
		"fewer trials":              {"SFFF- FS", breaker.Config{Trials: 3}, "F R", breaker.Open},
		"no trial is left":          {"SFFF- SS", breaker.Config{Trials: 2}, "S", breaker.Closed},
		"more trials":               {"SFFF- SS", breaker.Config{Trials: 6}, "S S", breaker.Closed},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBreaker(t, small)
			run(t, b, c.before)
			require.NoError(t, b.SetConfig(c.cfg), name)
			run(t, b, c.after)
			require.Equal(t, c.want, b.State(), name)
			require.Equal(t, c.cfg.Window, b.Config().Window)
		})
	}
}

func TestSetConfigRefused(t *testing.T) {
	t.Parallel()
	registry := &core.Registry{}
	b := newBreaker(t, breaker.Config{Name: "db", Registry: registry, Failures: 2})
	g := core.Must(breaker.NewGroup(breaker.Config{Name: "hosts", Registry: registry}))
	for _, cfg := range []breaker.Config{{Name: "x"}, {Registry: &core.Registry{}}, {Trials: -1}} {
		require.ErrorIs(t, b.SetConfig(cfg), core.ErrConfig)
		require.ErrorIs(t, g.SetConfig(cfg), core.ErrConfig)
	}
	require.Equal(t, 2, b.Config().Failures)
	require.ErrorIs(t, g.For("a").SetConfig(breaker.Config{}), core.ErrConfig)
	require.NoError(t, g.For("a").Close(), "the group stays registered")
	_, err := breaker.NewGroup(breaker.Config{Name: "hosts", Registry: registry})
	require.ErrorIs(t, err, core.ErrConfig)
	require.NoError(t, g.Close())
	require.NoError(t, b.Close())
	core.Must(breaker.NewGroup(breaker.Config{Name: "hosts", Registry: registry}))
	newBreaker(t, breaker.Config{Name: "db", Registry: registry})
}

func TestOverrideNests(t *testing.T) {
	t.Parallel()
	g := newGroup(t, breaker.Config{})
	b := g.For("b")
	says := func(o core.Outcome) func(*breaker.Config) {
		return func(c *breaker.Config) { c.Classify = func(context.Context, any, error) core.Outcome { return o } }
	}
	none := t.Context()
	for name, c := range map[string]struct {
		ctx  context.Context
		want core.Outcome
	}{
		"none":                     {none, core.Success},
		"of the group":             {g.Override(none, says(core.Failure)), core.Failure},
		"of the breaker":           {b.Override(none, says(core.Failure)), core.Failure},
		"the innermost":            {b.Override(b.Override(none, says(core.Ignored)), says(core.Failure)), core.Failure},
		"the breaker in the group": {b.Override(g.Override(none, says(core.Ignored)), says(core.Failure)), core.Failure},
		"the group in the breaker": {g.Override(b.Override(none, says(core.Failure)), says(core.Ignored)), core.Failure},
		"of another breaker":       {g.For("c").Override(none, says(core.Failure)), core.Success},
		"of another group":         {newGroup(t, breaker.Config{}).Override(none, says(core.Failure)), core.Success},
		"nil":                      {b.Override(g.Override(none, nil), nil), core.Success},
	} {
		before := nonzero(b.Stats())
		_, err := breaker.Do(c.ctx, b, func(context.Context) (int, error) { return 0, nil })
		require.NoError(t, err)
		before[c.want]++
		require.Equal(t, before, nonzero(b.Stats()), name)
		require.NoError(t, b.SetState(breaker.Closed))
	}
}

func TestOverrideSlowCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := core.Must(breaker.NewGroup(breaker.Config{SlowCall: time.Second, MinCalls: 2}))
		b := g.For("a")
		run(t, b, "ss R")
		call := func(ctx context.Context, b *breaker.Breaker, took time.Duration) uint64 {
			before := b.Stats().Slow
			_, err := breaker.Do(ctx, b, func(context.Context) (int, error) { time.Sleep(took); return 0, nil })
			require.NoError(t, err)
			return b.Stats().Slow - before
		}
		b = g.For("b")
		ctx := g.Override(t.Context(), func(c *breaker.Config) { c.SlowCall = time.Minute })
		require.EqualValues(t, 0, call(ctx, b, 2*time.Second))
		require.EqualValues(t, 1, call(t.Context(), b, 2*time.Second))
		own := b.Override(ctx, func(c *breaker.Config) { c.SlowCall /= 10 })
		require.EqualValues(t, 1, call(own, b, 7*time.Second))
		require.EqualValues(t, 0, call(own, g.For("c"), 7*time.Second), "of another breaker")
	})
	synctest.Test(t, func(t *testing.T) { // a breaker that times no call
		b := newBreaker(t, breaker.Config{Window: 2})
		run(t, b, "SSS")
		ctx := b.Override(t.Context(), func(c *breaker.Config) { c.SlowCall = time.Second })
		p, err := b.Acquire(ctx)
		require.NoError(t, err)
		time.Sleep(2 * time.Second)
		p.Done(core.Success)
		run(t, b, "SSS")
		require.Equal(t, "state=closed successes=7 slow=1", b.Stats().String())
	})
}
