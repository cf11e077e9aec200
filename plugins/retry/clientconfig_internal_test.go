package retry

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/retry"
)

// The Config here repeats that of core/retry. What has another type or name here
// is a matter of HTTP, and decided by this package: a Call does not use it.
func TestNoFieldOfTheCoreIsForgotten(t *testing.T) {
	t.Parallel()
	full := Config{
		Registry:      &core.Registry{},
		Name:          "x",
		MaxAttempts:   7,
		Backoff:       backoff.Constant{},
		Delay:         func(context.Context, Info) time.Duration { return 0 },
		MaxElapsed:    time.Hour,
		Budget:        &Budget{},
		RetryIf:       func(error) bool { return true },
		RetryRejected: true,
		OnRetry:       func(context.Context, Retry) {},
	}
	elsewhere := map[string]string{"RetryResult": "RetryResponse", "Map": "Map"}
	ours, converted := reflect.ValueOf(full), reflect.ValueOf(full.core())
	for _, f := range reflect.VisibleFields(reflect.TypeFor[retry.Config]()) {
		if name, ok := elsewhere[f.Name]; ok {
			require.True(t, ours.FieldByName(name).IsValid(), f.Name)
			continue
		}
		if f.Name == "Registry" {
			require.Nil(t, full.core().Registry, "the plugin is registered, not its policy")
			continue
		}
		mine := ours.FieldByName(f.Name)
		require.True(t, mine.IsValid(), "%s is missing here", f.Name)
		require.Equal(t, f.Type, mine.Type(), f.Name)
		require.False(t, mine.IsZero(), "%s has no value in this test", f.Name)
		require.False(t, converted.FieldByName(f.Name).IsZero(), "%s is not handed over", f.Name)
	}
}
