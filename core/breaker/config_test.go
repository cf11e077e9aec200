package breaker_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/breaker"
)

func TestValidate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cfg  breaker.Config
		want string // the fields
	}{
		{breaker.Config{}, ""},
		{breaker.Config{Failures: -1, FailureRate: -1, MaxHalfOpen: -1}, ""},
		{breaker.Config{Failures: 3, FailureRate: 0.5, MinCalls: 10, Window: 10}, ""},
		{breaker.Config{FailureRate: 1, SlowCall: 1, SlowRate: 1, WindowTime: time.Millisecond, MinCalls: 1 << 20, Trials: 1024, Initial: breaker.MetricsOnly}, ""},
		{breaker.Config{Window: 1 << 20, MinCalls: 1 << 20, MaxKeys: 1}, ""},
		{breaker.Config{FailureRate: 1.1}, "FailureRate"},
		{breaker.Config{FailureRate: math.NaN()}, "FailureRate"},
		{breaker.Config{SlowCall: -1}, "SlowCall"},
		{breaker.Config{SlowRate: 0.5}, "SlowRate"},
		{breaker.Config{SlowCall: 1, SlowRate: -1}, "SlowRate"},
		{breaker.Config{Window: -1}, "Window"},
		{breaker.Config{Window: 1<<20 + 1}, "Window"},
		{breaker.Config{Window: 5, MinCalls: 6}, "MinCalls"},
		{breaker.Config{MinCalls: 101}, "MinCalls"},
		{breaker.Config{WindowTime: 1}, "WindowTime"},
		{breaker.Config{WindowTime: -1}, "WindowTime"},
		{breaker.Config{WindowTime: time.Second, Window: 1}, "Window"},
		{breaker.Config{WindowTime: time.Second, MinCalls: 1<<20 + 1}, "MinCalls"},
		{breaker.Config{OpenDelay: backoff.Constant{Delay: -1}}, "Delay"},
		{breaker.Config{MaxRetryAfter: -1}, "MaxRetryAfter"},
		{breaker.Config{Trials: 1025}, "Trials"},
		{breaker.Config{Initial: 9}, "Initial"},
		{breaker.Config{MaxKeys: -1}, "MaxKeys"},
		{breaker.Config{FailureRate: 2, Trials: -1, Initial: 6}, "FailureRate Trials Initial"},
	} {
		err := c.cfg.Validate()
		var fields []string
		if err != nil {
			require.ErrorIs(t, err, core.ErrConfig)
			for line := range strings.Lines(err.Error()) {
				field, _, _ := strings.Cut(line, " = ")
				fields = append(fields, field[strings.LastIndexByte(field, '.')+1:])
			}
		}
		require.Equal(t, c.want, strings.Join(fields, " "), "%+v: %v", c.cfg, err)
		_, one := breaker.New(c.cfg)
		_, many := breaker.NewGroup(c.cfg)
		require.Equal(t, fmt.Sprint(err, err), fmt.Sprint(one, many))
	}
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

func TestStateText(t *testing.T) {
	t.Parallel()
	all := []breaker.State{breaker.Closed, breaker.Open, breaker.HalfOpen, breaker.ForcedOpen, breaker.Disabled, breaker.MetricsOnly}
	text := core.Must(json.Marshal(all))
	require.JSONEq(t, `["closed", "open", "half_open", "forced_open", "disabled", "metrics_only"]`, string(text))
	var read []breaker.State
	require.NoError(t, json.Unmarshal(text, &read))
	require.Equal(t, all, read)
	require.Error(t, json.Unmarshal([]byte(`["ajar"]`), &read))
	require.Equal(t, "State(6)", breaker.State(6).String())
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
