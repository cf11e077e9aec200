package ratelimit_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	core_ratelimit "github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/eventtest"
	"github.com/gresil/gresil/internal/registry"
	"github.com/gresil/gresil/internal/resiltest"
	"github.com/gresil/gresil/plugins/ratelimit"
)

// A request that waits has a deadline for its waits. The listeners of the cooldown have the
// context of the request itself, which has no such deadline and is not canceled.
func TestEventsAfterAWaitHaveTheContextOfTheRequest(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]ratelimit.ClientConfig{
		"a limit":            {Limit: core_ratelimit.PerSecond(1), MaxWait: 10 * time.Second},
		"no limit of a wait": {Limit: core_ratelimit.PerSecond(1), MaxWait: -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var events []string
				told := func(want ...string) {
					mu.Lock()
					defer mu.Unlock()
					require.Equal(t, want, events)
					events = nil
				}
				cfg.Registry = eventtest.Registry(func(ctx context.Context, e registry.Event) {
					event, ok := map[string]string{"calls are held back": "held", "calls are made again": "resumed", "call was held back": "waited"}[e.Text]
					if !ok { // of the limiter
						return
					}
					_, bounded := ctx.Deadline()
					require.NoError(t, ctx.Err(), event)
					require.False(t, bounded, event)
					require.Equal(t, t.Name(), ctx.Value(hookKey{}), event)
					mu.Lock()
					defer mu.Unlock()
					events = append(events, event)
				})
				limits := core.Must(ratelimit.NewClient(cfg))
				ctx := context.WithValue(t.Context(), hookKey{}, t.Name())
				send := func(latency time.Duration, reply resiltest.Reply) error {
					script := resiltest.NewScript(reply)
					rt := limits.Transport(roundTrip(func(req *http.Request) (*http.Response, error) {
						time.Sleep(latency)
						return script.RoundTrip(req)
					}))
					resp, err := rt.RoundTrip(core.Must(http.NewRequestWithContext(ctx, http.MethodGet, "http://a.test/", http.NoBody)))
					if err == nil {
						err = resp.Body.Close()
					}
					return err
				}
				busy := resiltest.Reply{Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"3"}}}
				limits.Cooldown().Hold(ctx, "a.test:80", time.Second)
				require.NoError(t, send(20*time.Second, busy)) // it waited, and its answer comes after MaxWait
				told("held", "waited", "held")
				for range 2 {
					require.NoError(t, send(0, resiltest.Reply{}))
				}
				told("waited", "resumed")
				// A hold begins while a request waits for its turn: it acquires the key again.
				go func() {
					time.Sleep(time.Second / 2)
					limits.Cooldown().Hold(ctx, "a.test:80", time.Second)
				}()
				require.NoError(t, send(0, busy))
				told("held", "waited", "held")
			})
		})
	}
}

type hookKey struct{}
