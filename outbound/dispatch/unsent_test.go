package dispatch_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/outbound/dispatch"
	"github.com/gresil/gresil/plugins/breaker"
	"github.com/gresil/gresil/resiltest"
)

func TestARejectionOfAnInnerPluginIsNoRefusalOfTheVendor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := core.Must(dispatch.New(config{Capacity: 8}))
		breakers := core.Must(breaker.NewClient(breaker.ClientConfig{SyntheticResponse: true}))
		s, start := resiltest.NewScript(), time.Now()
		require.NoError(t, breakers.Group().Get("vendor.test:80").OpenFor(time.Hour))
		resp, err := dispatch.RoundTripper(d, client.New(s, breakers), nil).RoundTrip(post(t, nil))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Error(t, client.Rejected(resp))
		require.Zero(t, time.Since(start))
		require.Zero(t, s.Calls())
		require.Empty(t, d.Snapshot().Held)
		require.Equal(t, 8, d.Stats().Limit)
	})
}
