package breaker_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
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
		{breaker.Config{OpenDelay: backoff.Constant{Delay: -1}}, "OpenDelay.Constant.Delay"},
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
				fields = append(fields, strings.TrimPrefix(field, "breaker.Config."))
			}
		}
		require.Equal(t, c.want, strings.Join(fields, " "), "%+v: %v", c.cfg, err)
		_, one := breaker.New(c.cfg)
		_, many := breaker.NewGroup(c.cfg)
		require.Equal(t, fmt.Sprint(err, err), fmt.Sprint(one, many))
	}
}
