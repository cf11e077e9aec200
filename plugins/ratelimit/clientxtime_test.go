package ratelimit_test

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/gresil/gresil/core"
	core_ratelimit "github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/plugins/ratelimit"
)

// Of 200 callers a second, each of which gives up after half a second, 20 are served each second.
func TestRequestsThatGiveUpStarveNobody(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]func() ratelimit.ClientConfig{
		"limit": func() ratelimit.ClientConfig {
			return ratelimit.ClientConfig{Limit: core_ratelimit.TokenBucket(20, time.Second, 1)}
		},
		"x/time": func() ratelimit.ClientConfig { return ratelimit.ClientConfig{Limiter: rate.NewLimiter(20, 1)} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var sent atomic.Int64
				limits := core.Must(ratelimit.NewClient(cfg()))
				transport := limits.Transport(roundTrip(func(req *http.Request) (*http.Response, error) {
					sent.Add(1)
					return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: req}, nil
				}))
				var all sync.WaitGroup
				for range 7 * 200 {
					all.Go(func() {
						ctx, cancel := context.WithCancel(context.Background())
						defer cancel()
						defer time.AfterFunc(500*time.Millisecond, cancel).Stop()
						req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://a.test/", nil)
						if err != nil {
							t.Error(err)
							return
						}
						if resp, err := transport.RoundTrip(req); err == nil {
							_ = resp.Body.Close()
						}
					})
					time.Sleep(5 * time.Millisecond)
				}
				all.Wait()
				require.GreaterOrEqual(t, sent.Load(), int64(140*9/10))
				require.LessOrEqual(t, sent.Load(), int64(151))
				require.NoError(t, limits.Close())
			})
		})
	}
}
