package dispatch_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	core_breaker "github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/ratelimittest"
	"github.com/gresil/gresil/internal/resiltest"
	"github.com/gresil/gresil/outbound/dispatch"
	"github.com/gresil/gresil/plugins/breaker"
	"github.com/gresil/gresil/plugins/retry"
)

func TestARejectionOfAnInnerPluginIsNoRefusalOfTheVendor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := core.Must(dispatch.New(config{Capacity: 8}))
		group := core.Must(breaker.NewGroup(breaker.Config{}))
		breakers := breaker.NewClient(group, breaker.ClientOptions{})
		s, start := resiltest.NewScript(), time.Now()
		require.NoError(t, group.For("vendor.test:80").OpenFor(time.Hour))
		resp, err := dispatch.RoundTripper(d, client.New(s, breakers), nil).RoundTrip(post(t, nil))
		require.Nil(t, resp)
		require.ErrorIs(t, err, core.ErrRejected)
		require.Zero(t, time.Since(start))
		require.Zero(t, s.Calls())
		require.Empty(t, d.Snapshot().Held)
		require.Equal(t, 8, d.Stats().Limit)
	})
}

// The same of a call of Do, and of the errors of plugins beside it.
func TestOwnRefusalsHoldNoVendor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for name, refused := range map[string]error{"breaker": &core_breaker.OpenError{Name: "b"}} {
			require.ErrorIs(t, refused, core.ErrRejected, name)
			d, n := core.Must(dispatch.New(config{})), 0
			_, err := dispatch.Do(t.Context(), d, "", func(context.Context, none) (int, error) {
				n++
				return 0, refused
			})
			require.Same(t, refused, err, name)
			require.Equal(t, 1, n, name)
			require.Empty(t, d.Snapshot().Held, name)
		}
	})
}

// A message that is too large fails its call once and for all. It may not have been sent, so
// a probe says nothing of the vendor.
func TestATooLargeMessageIsNoLimit(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"grpc: trying to send message larger than max (5242880 vs. 4194304)", "grpc: received message larger than max (5242880 vs. 4194304)"} {
		synctest.Test(t, func(t *testing.T) {
			d, start, n := core.Must(dispatch.New(config{})), time.Now(), 0
			large := grpcSays(8, text)
			do := func(key string) error {
				_, err := dispatch.Do(t.Context(), d, key, func(context.Context, none) (int, error) {
					if n++; key == "large" {
						return 0, large
					}
					return 0, nil
				})
				return err
			}
			require.Same(t, large, do("large"))
			require.NoError(t, do("other"))
			require.Zero(t, time.Since(start))
			require.Equal(t, 2, n)
			require.Empty(t, d.Snapshot().Held)
			require.Equal(t, dispatch.Stats{Calls: 2, Succeeded: 1, Failed: 1, Attempts: 2, Dials: 2, Connections: 2, Idle: 2, Limit: 8}, d.Stats())

			resumed := 0
			d.Observe(dispatch.Hooks{Resumed: func(context.Context, dispatch.Info) { resumed++ }})
			_, err := dispatch.Do(t.Context(), d, "", func(context.Context, none) (int, error) {
				if time.Since(start) == 0 {
					return 0, grpc(8)
				}
				return 0, large
			})
			require.Same(t, large, err)
			require.Equal(t, 15*time.Second+pad, time.Since(start))
			require.Zero(t, resumed)
			require.NoError(t, do("other"))
			require.Equal(t, 1, resumed)
		})
	}
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

func TestARequestWhoseDialOrLimiterFailedWasNotSent(t *testing.T) {
	t.Parallel()
	store := &ratelimittest.Failing{Store: &ratelimittest.Memory{}}
	limiter := core.Must(ratelimit.New(ratelimit.Config{Name: "l", Store: store, OnStoreError: ratelimit.Deny}))
	store.Down()
	noSession := errors.New("no session")
	for name, c := range map[string]struct {
		cfg    config
		want   error
		failed bool
	}{
		"Dial":    {config{Dial: func(context.Context, string) (none, error) { return none{}, noSession }}, noSession, true},
		"Limiter": {config{Limiter: limiter}, ratelimit.ErrStore, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, group := resiltest.NewScript(), core.Must(breaker.NewGroup(breaker.Config{}))
			breakers := breaker.NewClient(group, breaker.ClientOptions{})
			rt := client.New(dispatch.RoundTripper(core.Must(dispatch.New(c.cfg)), s, nil), retry.NewClient(nil, retry.ClientOptions{}), breakers)
			_, err := rt.RoundTrip(post(t, strings.NewReader("x")))
			require.ErrorIs(t, err, c.want, name)
			require.True(t, client.NotSent(err), name)
			require.Zero(t, s.Calls(), name)
			require.Equal(t, c.failed, group.Stats().Failures > 0, name)
		})
	}
}

func TestARequestThatWasRefusedBeforeItsDialFailedMayHaveBeenSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dials, noSession := 0, errors.New("no session")
		d := core.Must(dispatch.New(config{
			Healthy: func(string, none) bool { return false },
			Dial: func(context.Context, string) (none, error) {
				if dials++; dials > 1 {
					return none{}, noSession
				}
				return none{}, nil
			},
			Account: ownAccount,
			Classify: func(err error) (dispatch.Limited, bool) {
				return dispatch.Limited{RetryAfter: time.Second, Scope: dispatch.ScopeAccount}, !errors.Is(err, noSession)
			},
		}))
		rt := dispatch.RoundTripper(d, resiltest.NewScript(refusal("1")), func(*http.Request) string { return "a" })
		_, err := rt.RoundTrip(post(t, nil))
		require.Error(t, err)
		require.Equal(t, 2, dials)
		require.False(t, client.NotSent(err))
	})
}
