package ratelimit_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/resiltest"
	"github.com/gresil/gresil/plugins/ratelimit"
)

func TestCloseEndsTheWaitForALimit(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]func() ratelimit.ClientConfig{
		"Limit": func() ratelimit.ClientConfig {
			return ratelimit.ClientConfig{Limit: ratelimit.TokenBucket(1, 5*time.Second, 1)}
		},
		"x/time": func() ratelimit.ClientConfig {
			return ratelimit.ClientConfig{Limiter: rate.NewLimiter(rate.Every(5*time.Second), 1)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				cfg := limit()
				limits := core.Must(ratelimit.NewClient(cfg))
				script := resiltest.NewScript()
				rt := limits.Transport(script)
				send := func() error {
					_, err := rt.RoundTrip(core.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://a.test", nil)))
					return err
				}
				require.NoError(t, send())
				time.AfterFunc(time.Second, func() {
					require.NoError(t, limits.Close())
					require.NoError(t, limits.Close())
				})
				start := time.Now()
				require.ErrorIs(t, send(), core.ErrClosed)
				require.Equal(t, time.Second, time.Since(start))
				require.Equal(t, 1, script.Calls())
				if time.Sleep(4 * time.Second); cfg.Limiter != nil {
					require.True(t, cfg.Limiter.Allow(), "the request that was not sent used nothing")
				}
			})
		})
	}
}
