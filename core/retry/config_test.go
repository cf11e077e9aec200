package retry_test

import (
	"encoding"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/retry"
)

func TestValidate(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		cfg  retry.Config
		want string
	}{
		{"zero", retry.Config{}, ""},
		{"one attempt", retry.Config{MaxAttempts: 1}, ""},
		{"attempts", retry.Config{MaxAttempts: -5}, "retry.Config.MaxAttempts = -5: must be >= 0 (0 means 3)"},
		{"elapsed", retry.Config{MaxElapsed: -time.Second}, "retry.Config.MaxElapsed = -1s: must be >= 0 (0 means no limit)"},
		{"backoff", retry.Config{Backoff: backoff.Constant{Delay: -1}}, "backoff.Constant.Delay = -1ns: must be >= 0"},
		{
			"all",
			retry.Config{MaxAttempts: -1, MaxElapsed: -1, Backoff: backoff.Exponential{Factor: 0.5}},
			"retry.Config.MaxAttempts = -1: must be >= 0 (0 means 3)\n" +
				"retry.Config.MaxElapsed = -1ns: must be >= 0 (0 means no limit)\n" +
				"backoff.Exponential.Factor = 0.5: must be >= 1 and finite (0 means 2)",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, err := retry.New(tt.cfg)
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.Nil(t, p)
			require.EqualError(t, err, tt.want)
			require.ErrorIs(t, err, core.ErrConfig)
		})
	}
}

func TestConfigWithChangesACopy(t *testing.T) {
	t.Parallel()
	base := retry.Config{MaxAttempts: 5}
	strict := with(base, func(c *retry.Config) { c.MaxAttempts = 1 })
	require.Equal(t, 5, base.MaxAttempts)
	require.Equal(t, 1, strict.MaxAttempts)
	// With clones slices and maps. There are none to forget.
	for i := range reflect.TypeFor[retry.Config]().NumField() {
		require.NotContains(t, []reflect.Kind{reflect.Slice, reflect.Map}, reflect.TypeFor[retry.Config]().Field(i).Type.Kind())
	}
}

func TestNamesOfVerdicts(t *testing.T) {
	t.Parallel()
	for v, want := range map[encoding.TextMarshaler]string{
		retry.Done: "done", retry.Again: "again", retry.Ignored: "ignored", retry.Exhausted: "exhausted",
		retry.Deadline: "deadline", retry.RetryAfterTooLong: "retry_after_too_long", retry.NotReplayable: "not_replayable",
		retry.Canceled: "canceled", retry.Rejected: "rejected", retry.OverBudget: "budget",
	} {
		text, err := v.MarshalText()
		require.NoError(t, err)
		require.Equal(t, want, string(text))
		if v, ok := v.(retry.Verdict); ok {
			got := retry.Verdict(99)
			require.NoError(t, got.UnmarshalText(text))
			require.Equal(t, v, got)
		}
	}
	_, err := retry.Verdict(99).MarshalText()
	require.EqualError(t, err, "retry.Verdict = Verdict(99): must be done, again, ignored, exhausted, deadline, retry_after_too_long, not_replayable, canceled, rejected or budget")
	got := retry.Canceled
	require.ErrorIs(t, got.UnmarshalText([]byte("Done")), core.ErrConfig)
	require.Equal(t, retry.Canceled, got)
	require.False(t, errors.Is(&retry.Error{Reason: retry.Exhausted}, core.ErrRejected))
}
