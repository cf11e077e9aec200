package breaker_test

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/breaker"
)

// fields are the fields that an error names.
func fields(err error) (names []string) {
	switch e := err.(type) { //nolint:errorlint // the tree itself is looked at
	case nil:
	case *core.ConfigError:
		names = []string{e.Field}
	case interface{ Unwrap() []error }:
		for _, e := range e.Unwrap() {
			names = append(names, fields(e)...)
		}
	}
	return names
}

func TestValidateReportsEveryBadField(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cfg  breaker.Config
		want []string
	}{
		{breaker.Config{}, nil},
		{breaker.Config{FailureRate: 1, Window: 1, MinCalls: 1, Trials: 1, TrialTimeout: -1, MaxHalfOpen: 1, Initial: breaker.MetricsOnly}, nil},
		{breaker.Config{Window: breaker.MaxWindow, Trials: breaker.MaxTrials}, nil},
		{breaker.Config{WindowTime: breaker.MinWindowTime, MinCalls: breaker.MaxWindow}, nil},
		{breaker.Config{FailureRate: 1.1}, []string{"breaker.Config.FailureRate"}},
		{breaker.Config{FailureRate: -0.1}, []string{"breaker.Config.FailureRate"}},
		{breaker.Config{FailureRate: math.NaN()}, []string{"breaker.Config.FailureRate"}},
		{breaker.Config{FailureRate: math.Inf(1)}, []string{"breaker.Config.FailureRate"}},
		{breaker.Config{Window: -1}, []string{"breaker.Config.Window"}},
		{breaker.Config{Window: breaker.MaxWindow + 1}, []string{"breaker.Config.Window"}},
		{breaker.Config{MinCalls: -1}, []string{"breaker.Config.MinCalls"}},
		{breaker.Config{MinCalls: 101}, []string{"breaker.Config.MinCalls"}},
		{breaker.Config{Window: 5, MinCalls: 6}, []string{"breaker.Config.MinCalls"}},
		{breaker.Config{WindowTime: -1}, []string{"breaker.Config.WindowTime"}},
		{breaker.Config{WindowTime: breaker.MinWindowTime - 1}, []string{"breaker.Config.WindowTime"}},
		{breaker.Config{WindowTime: time.Second, Window: 10}, []string{"breaker.Config.Window"}},
		{breaker.Config{WindowTime: time.Second, MinCalls: -1}, []string{"breaker.Config.MinCalls"}},
		{breaker.Config{WindowTime: time.Second, MinCalls: breaker.MaxWindow + 1}, []string{"breaker.Config.MinCalls"}},
		{breaker.Config{OpenDelay: backoff.Constant{Delay: -1}}, []string{"backoff.Constant.Delay"}},
		{breaker.Config{Trials: -1}, []string{"breaker.Config.Trials"}},
		{breaker.Config{Trials: breaker.MaxTrials + 1}, []string{"breaker.Config.Trials"}},
		{breaker.Config{SlowCall: 1, SlowRate: 1}, nil},
		{breaker.Config{SlowCall: -1}, []string{"breaker.Config.SlowCall"}},
		{breaker.Config{SlowRate: 0.5}, []string{"breaker.Config.SlowRate"}},
		{breaker.Config{SlowCall: 1, SlowRate: 1.1}, []string{"breaker.Config.SlowRate"}},
		{breaker.Config{SlowCall: 1, SlowRate: -0.1}, []string{"breaker.Config.SlowRate"}},
		{breaker.Config{SlowCall: 1, SlowRate: math.NaN()}, []string{"breaker.Config.SlowRate"}},
		{breaker.Config{MaxHalfOpen: -time.Second}, []string{"breaker.Config.MaxHalfOpen"}},
		{breaker.Config{Initial: breaker.MetricsOnly + 1}, []string{"breaker.Config.Initial"}},
		{
			breaker.Config{FailureRate: 2, Window: -1, MinCalls: -1, OpenDelay: backoff.Linear{Step: -1}, Trials: -1, MaxHalfOpen: -1, Initial: 99},
			[]string{
				"breaker.Config.FailureRate", "breaker.Config.Window", "breaker.Config.MinCalls", "backoff.Linear.Step",
				"breaker.Config.Trials", "breaker.Config.MaxHalfOpen", "breaker.Config.Initial",
			},
		},
	} {
		err := c.cfg.Validate()
		require.Equal(t, c.want, fields(err), "%+v", c.cfg)
		if err != nil {
			require.ErrorIs(t, err, core.ErrConfig)
		}
		b, newErr := breaker.New(c.cfg)
		require.Equal(t, c.want, fields(newErr))
		require.Equal(t, err != nil, b == nil)
	}
	require.EqualError(t, breaker.Config{MaxHalfOpen: -time.Second}.Validate(), "breaker.Config.MaxHalfOpen = -1s: must be >= 0 (0 means no limit)")
}

func TestWithChangesACopy(t *testing.T) {
	t.Parallel()
	base := breaker.Config{Name: "base", Trials: 3}
	strict := with(base, func(c *breaker.Config) { c.Trials = 1 })
	require.Equal(t, breaker.Config{Name: "base", Trials: 3}, base)
	require.Equal(t, breaker.Config{Name: "base", Trials: 1}, strict)
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{})
		require.Equal(t, "default", b.Name())
		require.Equal(t, breaker.Config{}, b.Config(), "as given")
		require.Equal(t, breaker.Snapshot{Since: time.Now(), Threshold: 0.5, MinCalls: 100, Trials: 10}, b.Snapshot())
		for range 49 {
			run(t, b, "FS")
		}
		run(t, b, "F")
		require.Equal(t, breaker.Closed, b.State())
		run(t, b, "S")
		require.Equal(t, time.Minute, rejected(t, b).RetryAfter())
		s := b.Snapshot()
		require.Equal(t, time.Now().Add(time.Minute), s.OpenUntil)
		require.Equal(t, []int{100, 50, 1}, []int{s.Calls, s.Failures, s.Opened})
		time.Sleep(time.Minute)
		for range 10 {
			acquire(t, b)
		}
		refused(t, b)
		time.Sleep(breaker.DefaultTrialTimeout)
		acquire(t, b)
	})
}

func TestInitialStates(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for s := breaker.Closed; s <= breaker.MetricsOnly; s++ {
			var j journal
			b := newBreaker(t, breaker.Config{Initial: s, Registry: j.changes()})
			require.Equal(t, s, b.State())
			require.Empty(t, j.take())
			if s == breaker.Open {
				require.Equal(t, time.Minute, rejected(t, b).RetryAfter())
				require.Equal(t, 1, b.Snapshot().Opened)
			}
		}
	})
}

func TestAnEndlessDelayStaysOpen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Hour)
		b := newBreaker(t, breaker.Config{OpenDelay: backoff.Func(func(int, time.Duration) time.Duration { return math.MaxInt64 })})
		time.Sleep(time.Hour)
		require.NoError(t, b.SetState(breaker.Open))
		time.Sleep(100 * 365 * 24 * time.Hour)
		require.Positive(t, rejected(t, b).RetryAfter())
	})
}

func TestStatesHaveNames(t *testing.T) {
	t.Parallel()
	for i, name := range []string{"closed", "open", "half_open", "forced_open", "disabled", "metrics_only"} {
		require.Equal(t, name, breaker.State(i).String())
		text, err := breaker.State(i).MarshalText()
		require.NoError(t, err)
		require.Equal(t, name, string(text))
		got := breaker.State(99)
		require.NoError(t, got.UnmarshalText(text))
		require.Equal(t, breaker.State(i), got)
	}
	_, err := breaker.State(200).MarshalText()
	require.EqualError(t, err, "breaker.State = State(200): must be closed, open, half_open, forced_open, disabled or metrics_only")
	got := breaker.Disabled
	require.EqualError(t, got.UnmarshalText([]byte("State(200)")), `breaker.State = "State(200)": must be closed, open, half_open, forced_open, disabled or metrics_only`)
	require.Equal(t, breaker.Disabled, got)
}

func TestTrialRulesHaveNames(t *testing.T) {
	t.Parallel()
	for i, name := range []string{"by_rate", "all_must_succeed"} {
		text, err := breaker.TrialRule(i).MarshalText()
		require.NoError(t, err)
		require.Equal(t, name, string(text))
		got := breaker.TrialRule(99)
		require.NoError(t, got.UnmarshalText(text))
		require.Equal(t, breaker.TrialRule(i), got)
	}
	_, err := breaker.TrialRule(2).MarshalText()
	require.EqualError(t, err, "breaker.TrialRule = TrialRule(2): must be by_rate or all_must_succeed")
	got := breaker.AllMustSucceed
	require.ErrorIs(t, got.UnmarshalText(nil), core.ErrConfig)
	require.Equal(t, breaker.AllMustSucceed, got)
}
