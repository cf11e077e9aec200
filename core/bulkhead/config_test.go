package bulkhead_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/bulkhead"
)

func TestValidate(t *testing.T) {
	t.Parallel()
	_, err := bulkhead.New(bulkhead.Config{Limit: -1, Backoff: 1, MinLimit: -2, MaxKeys: -3})
	require.EqualError(t, err, "bulkhead.Config.Limit = -1: must be > 0 and <= 2147483647 (0 means 25)\n"+
		"bulkhead.Config.Backoff = 1: must be > 0 and < 1 (0 means that the limit is fixed)\n"+
		"bulkhead.Config.MinLimit = -2: must be > 0 and <= Limit (0 means 1)\n"+
		"bulkhead.Config.MaxKeys = -3: must be > 0 (0 means 65536)")
	for _, cfg := range []bulkhead.Config{{MinLimit: 26}, {Limit: 3, MinLimit: 4}, {Backoff: math.NaN()}, {Backoff: -0.1}, {Backoff: math.Inf(1)}} {
		require.ErrorIs(t, cfg.Validate(), core.ErrConfig, "%+v", cfg.Backoff)
	}
	require.NoError(t, bulkhead.Config{Limit: math.MaxInt32, MinLimit: math.MaxInt32, Backoff: 0.999}.Validate())
}
