package breaker_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/internal/registry"
)

func TestANumberOfFailuresOpens(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cfg   breaker.Config
		calls string // the last one opens the breaker, unless it is I
	}{
		{breaker.Config{Failures: 1}, "F"},
		{breaker.Config{Failures: 3}, "FFF"},
		{breaker.Config{Failures: 3}, "SSSSSSSSSSSSFSSFSIF"},
		{breaker.Config{Failures: 3, Window: 3}, "FFSFFSFFSFFF"}, // three in a row
		{breaker.Config{Failures: 2, Window: 4}, "FSSSFSSSFSF"},
		{breaker.Config{Failures: 2, Window: 4}, "FSSSFSSSI"},
		{breaker.Config{Failures: 3, WindowTime: second}, "FSSSSFF"},
		{breaker.Config{Failures: 3, SlowCall: second, MinCalls: 50}, "FFF"},
	} {
		b := newBreaker(t, c.cfg)
		last := len(c.calls) - 1
		run(t, b, c.calls[:last])
		require.Equal(t, breaker.Closed, b.State(), "%+v", c)
		run(t, b, c.calls[last:])
		if c.calls[last] == 'I' {
			require.Equal(t, breaker.Closed, b.State(), "%+v", c)
			continue
		}
		require.Equal(t, breaker.Open, b.State(), "%+v", c)
		require.Zero(t, b.Snapshot().Threshold)
	}
}

func TestFailuresExpireWithTheTimeWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{Failures: 3, WindowTime: 10 * second})
		for range 5 {
			run(t, b, "FF")
			time.Sleep(11 * second)
		}
		require.Equal(t, breaker.Closed, b.State())
		run(t, b, "FFF")
		require.Equal(t, breaker.Open, b.State())
	})
}

func TestSlowCallsOpenBesideANumberOfFailures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{Failures: 5, Window: 10, MinCalls: 4, SlowCall: second, SlowRate: 0.5})
		run(t, b, "SFF")
		last(t, b, 'S', 2*second)
		require.Equal(t, breaker.Closed, b.State(), "one of four")
		last(t, b, 'S', 2*second)
		last(t, b, 'S', 2*second)
		require.Equal(t, breaker.Open, b.State(), "three of six")
	})
}

func TestFailuresAreAnnouncedWhileMetricsOnly(t *testing.T) {
	t.Parallel()
	var rates []float64
	b := newBreaker(t, breaker.Config{Name: "db", Failures: 2, Initial: breaker.MetricsOnly, Registry: listened(exceededText, func(e registry.Event) {
		rates = append(rates, e.Attr("failure_rate").Float64())
	})})
	run(t, b, "SFSFFF")
	require.Equal(t, []float64{0.5}, rates)
}

func TestTrialsOfANumberOfFailuresAreJudgedByTheDefaultRate(t *testing.T) {
	t.Parallel()
	for trials, want := range map[string]breaker.State{"SSSF": breaker.Closed, "SSFF": breaker.Open, "FF": breaker.Open, "SSS": breaker.Closed} {
		b := newBreaker(t, breaker.Config{Failures: 1, Trials: 4, Initial: breaker.HalfOpen})
		for _, c := range trials {
			if b.State() == breaker.HalfOpen {
				run(t, b, string(c))
			}
		}
		require.Equal(t, want, b.State(), trials)
	}
}

func TestAllTrialsMustSucceed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		trials string
		want   breaker.State
	}{
		{"F", breaker.Open},
		{"SF", breaker.Open},
		{"SSF", breaker.Open},
		{"S", breaker.HalfOpen},
		{"SS", breaker.HalfOpen},
		{"SSS", breaker.Closed},
		{"SISIIS", breaker.Closed}, // an ignored call returns its slot
		{"III", breaker.HalfOpen},
		{"IF", breaker.Open},
	} {
		b := newBreaker(t, breaker.Config{FailureRate: 1, Trials: 3, TrialRule: breaker.AllMustSucceed, Initial: breaker.HalfOpen})
		run(t, b, c.trials[:len(c.trials)-1])
		require.Equal(t, breaker.HalfOpen, b.State(), c.trials)
		run(t, b, c.trials[len(c.trials)-1:])
		require.Equal(t, c.want, b.State(), c.trials)
	}
}

func TestTheFirstFailedTrialOpensWhileOthersRun(t *testing.T) {
	t.Parallel()
	b := newBreaker(t, breaker.Config{Trials: 3, TrialRule: breaker.AllMustSucceed, Initial: breaker.HalfOpen})
	first, second, third := acquire(t, b), acquire(t, b), acquire(t, b)
	refused(t, b)
	first.Done(core.Success)
	second.Done(core.Failure)
	require.Equal(t, breaker.Open, b.State())
	third.Done(core.Success)
	require.Equal(t, breaker.Open, b.State())
	require.EqualValues(t, 1, b.Stats().Late)
}

func TestASlowTrialHasNotSucceeded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{Trials: 3, TrialRule: breaker.AllMustSucceed, SlowCall: second, Initial: breaker.HalfOpen})
		run(t, b, "S")
		last(t, b, 'S', 2*second)
		require.Equal(t, breaker.Open, b.State())
	})
}

// A trial that loses its slot neither fails nor succeeds: another one has to.
func TestATrialThatTakesTooLongIsReplacedWhereAllMustSucceed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{Trials: 2, TrialTimeout: second, TrialRule: breaker.AllMustSucceed, Initial: breaker.HalfOpen})
		late := acquire(t, b)
		run(t, b, "S")
		refused(t, b)
		time.Sleep(second)
		run(t, b, "S")
		require.Equal(t, breaker.Closed, b.State())
		late.Done(core.Failure)
		require.Equal(t, breaker.Closed, b.State())
	})
}

func TestSetConfigChangesTheRuleOfRunningTrials(t *testing.T) {
	t.Parallel()
	b := newBreaker(t, breaker.Config{Trials: 3, Initial: breaker.HalfOpen})
	run(t, b, "F")
	require.NoError(t, b.SetConfig(breaker.Config{Trials: 3, TrialRule: breaker.AllMustSucceed}))
	require.Equal(t, breaker.HalfOpen, b.State())
	run(t, b, "S")
	require.Equal(t, breaker.Open, b.State())
}

func TestFailuresAndRulesAreValidated(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cfg  breaker.Config
		want string
	}{
		{breaker.Config{Failures: -1}, "breaker.Config.Failures = -1: must be >= 0 and <= Window, which is 100 (0 means by FailureRate)"},
		{breaker.Config{Failures: 101}, "breaker.Config.Failures = 101: must be >= 0 and <= Window, which is 100 (0 means by FailureRate)"},
		{breaker.Config{Failures: 4, Window: 3}, "breaker.Config.Failures = 4: must be >= 0 and <= Window, which is 3 (0 means by FailureRate)"},
		{breaker.Config{Failures: breaker.MaxWindow + 1, WindowTime: second}, "breaker.Config.Failures = 1048577: must be >= 0 and <= 1048576 (0 means by FailureRate)"},
		{breaker.Config{Failures: 5, FailureRate: 0.5}, "breaker.Config.Failures = 5: must be 0 when FailureRate is set"},
		{breaker.Config{Failures: 5, MinCalls: 10}, "breaker.Config.MinCalls = 10: must be 0 when Failures is set and there is no SlowCall"},
		{breaker.Config{Failures: 5, JudgeWithHistory: true}, "breaker.Config.JudgeWithHistory = true: must be false when Failures is set"},
		{breaker.Config{TrialRule: breaker.AllMustSucceed, JudgeWithHistory: true}, "breaker.Config.JudgeWithHistory = true: must be false with AllMustSucceed"},
		{breaker.Config{TrialRule: 2}, "breaker.Config.TrialRule = TrialRule(2): must be ByRate or AllMustSucceed"},
	} {
		require.EqualError(t, c.cfg.Validate(), c.want)
		require.ErrorIs(t, c.cfg.Validate(), core.ErrConfig)
	}
	for _, cfg := range []breaker.Config{
		{Failures: 100},
		{Failures: 1000, WindowTime: second},
		{Failures: 5, SlowCall: second, MinCalls: 10},
		{Failures: 5, TrialRule: breaker.AllMustSucceed},
	} {
		require.NoError(t, cfg.Validate())
	}
	require.Equal(t, []string{"by_rate", "all_must_succeed"}, []string{breaker.ByRate.String(), breaker.AllMustSucceed.String()})
}

func TestPanicsFail(t *testing.T) {
	t.Parallel()
	boom := func(context.Context) (int, error) { panic("boom") }
	fatal := errors.New("a value that is an error")
	for _, fails := range []bool{false, true} {
		b := newBreaker(t, breaker.Config{Window: 100, PanicsFail: fails})
		require.PanicsWithValue(t, "boom", func() { _, _ = breaker.Do(t.Context(), b, boom) })
		require.PanicsWithError(t, fatal.Error(), func() {
			_, _ = breaker.Do(t.Context(), b, func(context.Context) (int, error) { panic(fatal) })
		})
		var none any
		require.Panics(t, func() { _, _ = breaker.Do(t.Context(), b, func(context.Context) (int, error) { panic(none) }) })
		ended(func() {
			_, _ = breaker.Do(t.Context(), b, func(context.Context) (int, error) { runtime.Goexit(); return 0, nil })
		})
		s := b.Stats()
		want := map[bool][]uint64{false: {0, 4}, true: {3, 1}}[fails]
		require.Equal(t, want, []uint64{s.Failures, s.Ignored})
	}
}

func TestAPanicOfATrialOpensWherePanicsFail(t *testing.T) {
	t.Parallel()
	b := newBreaker(t, breaker.Config{Trials: 2, TrialRule: breaker.AllMustSucceed, PanicsFail: true, Initial: breaker.HalfOpen})
	require.Panics(t, func() {
		_, _ = breaker.Do(t.Context(), b, func(context.Context) (int, error) { panic("boom") })
	})
	require.Equal(t, breaker.Open, b.State())
}

// Only the operation is judged, not the code of the user around it.
func TestAPanicOfAPredicateIsNoFailure(t *testing.T) {
	t.Parallel()
	b := newBreaker(t, breaker.Config{Window: 1, PanicsFail: true, Classify: func(context.Context, any, error) core.Outcome { panic("classify") }})
	require.PanicsWithValue(t, "classify", func() {
		_, _ = breaker.Do(t.Context(), b, func(context.Context) (int, error) { return 1, nil })
	})
	require.Equal(t, breaker.Closed, b.State())
	require.EqualValues(t, 1, b.Stats().Ignored)
}

func TestCloseOfABreakerKeepsItsGroupRegistered(t *testing.T) {
	t.Parallel()
	var r core.Registry
	g := core.Must(breaker.NewGroup(breaker.Config{Name: "hosts", Registry: &r}, 0))
	require.NoError(t, g.Get("a").Close())
	found, ok := core.Lookup[*breaker.Group](&r, "hosts")
	require.True(t, ok)
	require.Same(t, g, found)
	require.NoError(t, g.Close())
	_, ok = core.Lookup[*breaker.Group](&r, "hosts")
	require.False(t, ok)
}
