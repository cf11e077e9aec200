package core_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
)

// rejection is an error that asks for a wait.
type rejection time.Duration

func (r rejection) Error() string             { return "rejected" }
func (r rejection) Is(target error) bool      { return target == core.ErrRejected }
func (r rejection) RetryAfter() time.Duration { return time.Duration(r) }

func TestRetryAfterIsTheLongestInTheTree(t *testing.T) {
	t.Parallel()
	plain := errors.New("plain")
	for name, c := range map[string]struct {
		err  error
		want time.Duration
		ok   bool
	}{
		"nil":              {nil, 0, false},
		"plain":            {plain, 0, false},
		"direct":           {rejection(3), 3, true},
		"zero":             {rejection(0), 0, true},
		"never":            {rejection(-1), 0, false},
		"wrapped":          {fmt.Errorf("call: %w", rejection(3)), 3, true},
		"joined":           {errors.Join(plain, rejection(2), rejection(7), rejection(5)), 7, true},
		"joined deep":      {fmt.Errorf("%w and %w", errors.Join(rejection(1)), fmt.Errorf("x: %w", rejection(9))), 9, true},
		"never and a wait": {errors.Join(rejection(-1), rejection(4)), 4, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, ok := core.RetryAfter(c.err)
			require.Equal(t, c.ok, ok)
			require.Equal(t, c.want, got)
		})
	}
}

func TestConfigErrorNamesFieldValueAndWhatWouldDo(t *testing.T) {
	t.Parallel()
	err := error(&core.ConfigError{Field: "retry.Config.MaxAttempts", Value: -5, Reason: "must be >= 0 (0 means 3)"})
	require.EqualError(t, err, "retry.Config.MaxAttempts = -5: must be >= 0 (0 means 3)")
	require.ErrorIs(t, err, core.ErrConfig)
	require.NotErrorIs(t, err, core.ErrRejected)
}

func TestMust(t *testing.T) {
	t.Parallel()
	require.Equal(t, 7, core.Must(7, nil))
	require.PanicsWithError(t, "no", func() { core.Must(0, errors.New("no")) })
}

func TestOutcomeText(t *testing.T) {
	t.Parallel()
	var zero core.Outcome
	require.Equal(t, core.Ignored, zero, "a forgotten outcome decides nothing")
	for o, want := range map[core.Outcome]string{core.Ignored: "ignored", core.Success: "success", core.Failure: "failure"} {
		text, err := o.MarshalText()
		require.NoError(t, err)
		require.Equal(t, want, string(text))
		got := core.Outcome(9)
		require.NoError(t, got.UnmarshalText(text))
		require.Equal(t, o, got)
	}
	_, err := core.Outcome(9).MarshalText()
	require.EqualError(t, err, "core.Outcome = Outcome(9): must be ignored, success or failure")
	got := core.Failure
	require.EqualError(t, got.UnmarshalText([]byte("ok")), `core.Outcome = "ok": must be ignored, success or failure`)
	require.Equal(t, core.Failure, got)
}

func TestPermanent(t *testing.T) {
	t.Parallel()
	require.NoError(t, core.Permanent(nil))
	cause := errors.New("no such user")
	err := fmt.Errorf("load: %w", core.Permanent(cause))
	require.EqualError(t, err, "load: no such user")
	require.ErrorIs(t, err, cause)
	_, ok := core.RetryAfter(err)
	require.False(t, ok, "waiting does not help")
}
