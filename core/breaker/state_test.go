package breaker_test

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/breaker"
)

func TestRejections(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{Name: "search", Trials: 1, OpenDelay: backoff.Constant{Delay: 30 * time.Second}})
		require.NoError(t, b.SetState(breaker.Open))
		e := rejection(t, b)
		require.Same(t, e, rejection(t, b))
		time.Sleep(5 * time.Second)
		require.EqualError(t, e, "breaker: search: open for another 25s")
		time.Sleep(25 * time.Second)
		acquire(t, b)
		require.Zero(t, e.RetryAfter())
		e = rejection(t, b)
		require.EqualError(t, e, "breaker: search: half-open, all trials are taken")
		require.Equal(t, 30*time.Second, e.RetryAfter())
		short := newBreaker(t, breaker.Config{Trials: 1, MaxHalfOpen: 10 * time.Second, Initial: breaker.HalfOpen})
		acquire(t, short)
		require.Equal(t, 10*time.Second, rejection(t, short).RetryAfter())
		require.NoError(t, b.SetState(breaker.ForcedOpen))
		e = rejection(t, b)
		require.EqualError(t, e, "breaker: search: forced open")
		require.Negative(t, e.RetryAfter())
		_, ok := core.RetryAfter(e)
		require.False(t, ok)
	})
}

func TestStateText(t *testing.T) {
	t.Parallel()
	all := []breaker.State{breaker.Closed, breaker.Open, breaker.HalfOpen, breaker.ForcedOpen, breaker.Disabled, breaker.MetricsOnly}
	text := core.Must(json.Marshal(all))
	require.JSONEq(t, `["closed", "open", "half_open", "forced_open", "disabled", "metrics_only"]`, string(text))
	var read []breaker.State
	require.NoError(t, json.Unmarshal(text, &read))
	require.Equal(t, all, read)
	state := breaker.Disabled
	for text, value := range map[string]string{"ajar": `"ajar"`, "": `""`, "Open": `"Open"`, "open ": `"open "`, "State(6)": `"State(6)"`} {
		require.EqualError(t, state.UnmarshalText([]byte(text)), "breaker.State = "+value+": must be closed, open, half_open, forced_open, disabled or metrics_only")
	}
	require.Equal(t, breaker.Disabled, state)
	require.Equal(t, "State(6)", breaker.State(6).String())
	_, err := breaker.State(6).MarshalText()
	require.ErrorIs(t, err, core.ErrConfig)
}
