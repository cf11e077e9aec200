package breaker

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/breaker"
)

// TestNoFieldOfTheCoreIsForgotten sets each field of a plugin's Config that the
// core has too, and looks for it there.
func TestNoFieldOfTheCoreIsForgotten(t *testing.T) {
	t.Parallel()
	values := map[string]any{
		"Name": "name", "FailureRate": 0.25, "Failures": 3, "TrialRule": AllMustSucceed, "PanicsFail": true, "SlowCall": time.Second + 1, "SlowRate": 0.75, "Window": 7, "WindowTime": time.Second, "MinCalls": 3,
		"OpenDelay": backoff.Constant{Delay: time.Hour}, "Trials": 2, "TrialTimeout": time.Minute + 1, "MaxHalfOpen": time.Hour,
		"JudgeWithHistory": true, "Initial": MetricsOnly,
		"OnStateChange": func(context.Context, StateChange) {},
	}
	for _, c := range []struct {
		cfg  any
		core func(any) breaker.Config
	}{
		{new(ClientConfig), func(c any) breaker.Config { return c.(*ClientConfig).core() }},
		{new(ServerConfig), func(c any) breaker.Config { return c.(*ServerConfig).core() }},
	} {
		inner := reflect.TypeFor[breaker.Config]()
		for i := range inner.NumField() {
			name := inner.Field(i).Name
			field := reflect.ValueOf(c.cfg).Elem().FieldByName(name)
			if _, server := c.cfg.(*ServerConfig); name == "PanicsFail" && server {
				require.False(t, field.IsValid(), "a server counts panics in any case")
				continue
			}
			require.True(t, field.IsValid(), "%T has no %s", c.cfg, name)
			if name == "Registry" || name == "Classify" || name == "Trip" { // the plugin's own, or of another type
				continue
			}
			require.Contains(t, values, name)
			field.Set(reflect.ValueOf(values[name]))
			got := reflect.ValueOf(c.core(c.cfg)).Field(i)
			if name == "OnStateChange" {
				require.False(t, got.IsNil())
				continue
			}
			require.Equal(t, values[name], got.Interface(), "%T loses %s", c.cfg, name)
		}
	}
}
