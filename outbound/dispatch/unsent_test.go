package dispatch_test

import (
	"errors"
	"net/http"
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

func TestEnhanceYourCalmHoldsTheVendorAsA429(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for method, sent := range map[string]int{http.MethodGet: 2, http.MethodPost: 1} { // the vendor may have executed it
			d, n := core.Must(dispatch.New(config{})), 0
			calm := errors.New("http2: Transport received GOAWAY from server ErrCode:ENHANCE_YOUR_CALM")
			rt := dispatch.RoundTripper(d, transportFunc(func(*http.Request) (*http.Response, error) {
				if n++; n == 1 {
					return nil, calm
				}
				return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
			}), nil)
			req, start := post(t, nil), time.Now()
			req.Method = method
			resp, err := rt.RoundTrip(req)
			require.Equal(t, sent, n, method)
			require.Equal(t, uint64(1), d.Stats().Limited, method)
			if method == http.MethodPost {
				require.Equal(t, calm, err)
				require.Len(t, d.Snapshot().Held, 1)
				continue
			}
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, 15*time.Second+pad, time.Since(start))
		}
	})
}
