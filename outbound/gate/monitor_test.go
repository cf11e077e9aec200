package gate_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/outbound/gate"
)

// A wake looks at the calls that the Store can be asked for, and at no others.
func TestWakeOfManyCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gates, _ := gatesOf(t, newRedis(20*time.Millisecond), 1, gate.Config{InFlight: 1})
		defer closeAll(gates)
		for range 1000 {
			go func() {
				_ = gates[0].Do(t.Context(), gate.Call{}, func(ctx context.Context) error { <-ctx.Done(); return nil })
			}()
		}
		time.Sleep(time.Second)
		for range 1000 {
			require.LessOrEqual(t, gates[0].Ready(), 1)
			time.Sleep(time.Millisecond)
		}
		require.Equal(t, 999, gates[0].Stats().Waiting)
	})
}
