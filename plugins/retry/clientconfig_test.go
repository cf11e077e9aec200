package retry_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/internal/registry"
	"github.com/gresil/gresil/plugins/retry"
	"github.com/gresil/gresil/resiltest"
)

func TestValidateNamesEveryField(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		cfg  retry.Config
		want []string
	}{
		"attempts":    {retry.Config{MaxAttempts: -5}, []string{"retry.Config.MaxAttempts = -5: must be >= 0 (0 means 3)"}},
		"elapsed":     {retry.Config{MaxElapsed: -1}, []string{"retry.Config.MaxElapsed = -1ns: must be >= 0 (0 means no limit)"}},
		"retry after": {retry.Config{MaxRetryAfter: -time.Second}, []string{"retry.Config.MaxRetryAfter = -1s: must be >= 0 (0 means 2m0s)"}},
		"buffer":      {retry.Config{MaxBuffer: -1}, []string{"retry.Config.MaxBuffer = -1: must be >= 0 (0 keeps nothing)"}},
		"backoff": {retry.Config{Backoff: backoff.Exponential{Delay: -1, Jitter: 2}}, []string{
			"backoff.Exponential.Delay = -1ns: must be >= 0 (0 means 500ms)", "backoff.Exponential.Jitter = 2: must be <= 1 (0 means 0.5, less means none)",
		}},
		"methods": {retry.Config{Methods: []string{"GET", "post", "", "PUT, POST"}}, []string{
			"retry.Config.Methods = post: must be a method as it is sent, as in POST",
			"retry.Config.Methods = : must be a method as it is sent, as in POST",
			"retry.Config.Methods = PUT, POST: must be a method as it is sent, as in POST",
		}},
		"two bad fields": {retry.Config{MaxAttempts: -1, MaxBuffer: -2}, []string{
			"retry.Config.MaxAttempts = -1: must be >= 0 (0 means 3)", "retry.Config.MaxBuffer = -2: must be >= 0 (0 keeps nothing)",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := retry.New(tc.cfg)
			require.Nil(t, p)
			require.ErrorIs(t, err, core.ErrConfig)
			require.Equal(t, tc.want, strings.Split(err.Error(), "\n"))
			require.Equal(t, err.Error(), tc.cfg.Validate().Error())
		})
	}
	require.NoError(t, retry.Config{}.Validate())
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	p := core.Must(retry.New(retry.Config{}))
	require.Equal(t, "default", p.Name())
	require.Equal(t, client.Attempts, p.Phase())
	require.Equal(t, retry.Config{}, p.Config(), "as it was given")
	s := resiltest.NewScript(status(503, 0))
	_, err := do(t, quick(retry.Config{}), s, get(t))
	require.NoError(t, err)
	require.Equal(t, 3, s.Calls())
}

func TestConfigIsAValue(t *testing.T) {
	t.Parallel()
	base := retry.Config{Methods: []string{"GET", "PUT"}}
	p := quick(base)
	posts := p.Override(t.Context(), func(c *retry.Config) { c.Methods[1] = "POST" })
	require.Equal(t, 3, sends(t, p, 503, posts, "POST"))
	base.Methods[0] = "PATCH"
	p.Config().Methods[1] = "PATCH"
	require.Equal(t, []string{"GET", "PUT"}, p.Config().Methods)
}

func TestOverrideIsForThisPluginAndNests(t *testing.T) {
	t.Parallel()
	p, other := quick(retry.Config{MaxAttempts: 4}), quick(retry.Config{MaxAttempts: 4})
	ctx := p.Override(t.Context(), func(c *retry.Config) { c.MaxAttempts, c.AnyMethod = 2, true })
	inner := p.Override(ctx, func(c *retry.Config) { c.MaxAttempts++ })
	attempts := func(p *retry.Plugin, ctx context.Context, method string) int {
		s := resiltest.NewScript(status(503, 0))
		_, err := do(t, p, s, request(ctx, method, nil))
		require.NoError(t, err)
		return s.Calls()
	}
	require.Equal(t, 2, attempts(p, ctx, "POST"))
	require.Equal(t, 3, attempts(p, inner, "POST"), "the inner one sees what the outer one did")
	require.Equal(t, 4, attempts(other, inner, "GET"))
	require.Equal(t, 1, attempts(other, inner, "POST"))
	require.Equal(t, 4, attempts(p, t.Context(), "GET"), "the plugin itself is what it was")
}

func TestOverrideThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	p := quick(retry.Config{})
	ctx := p.Override(t.Context(), func(c *retry.Config) { c.MaxAttempts, c.MaxBuffer = -1, -1 })
	s := resiltest.NewScript(status(200, 0))
	_, err := do(t, p, s, request(ctx, http.MethodGet, nil))
	require.ErrorIs(t, err, core.ErrConfig)
	require.ErrorContains(t, err, "retry.Config.MaxAttempts = -1")
	require.ErrorContains(t, err, "retry.Config.MaxBuffer = -1")
	require.Zero(t, s.Calls())
}

func TestMapIsCalledOnceAfterTheLoop(t *testing.T) {
	t.Parallel()
	mapped := errors.New("mapped")
	calls := 0
	p := quick(retry.Config{Map: func(resp *http.Response, err error) (*http.Response, error) {
		calls++
		if err == nil && resp.StatusCode == http.StatusServiceUnavailable {
			return nil, errors.Join(mapped, resp.Body.Close())
		}
		return resp, err
	}})
	s := resiltest.NewScript(status(503, 0))
	_, err := do(t, p, s, get(t))
	require.ErrorIs(t, err, mapped)
	require.Equal(t, 3, s.Calls())
	require.Equal(t, 1, calls)
	resp, err := do(t, p, resiltest.NewScript(status(200, 0)), get(t))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	down := errors.New("down")
	_, err = do(t, quick(retry.Config{Map: func(resp *http.Response, err error) (*http.Response, error) {
		require.Nil(t, resp)
		return nil, errors.Join(mapped, err)
	}}), resiltest.NewScript(resiltest.Reply{Err: down}), get(t))
	require.ErrorIs(t, err, mapped, "an error too")
	require.ErrorIs(t, err, down)
}

func TestOnRetrySeesTheResponse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var told []string
		note := func(what string, result any, err error, wait time.Duration) {
			line := what
			if resp, ok := result.(*http.Response); ok && resp != nil {
				line += " " + http.StatusText(resp.StatusCode)
			}
			if err != nil {
				line += " (" + err.Error() + ")"
			}
			told = append(told, fmt.Sprint(line, " ", wait))
		}
		p := core.Must(retry.New(retry.Config{
			Backoff: doubling(),
			OnRetry: func(_ context.Context, r retry.Retry) { note("retry", r.Result, r.Err, r.Wait) },
			Registry: listened(func(verdict string, e registry.Event) {
				if verdict != "retried" {
					note(verdict, nil, e.Err(), delayOf(e))
				}
			}),
		}))
		for _, steps := range [][]resiltest.Reply{
			{status(200, 0)},
			{status(503, 0, "Retry-After: 7"), status(200, 0)},
			{status(503, 0), resiltest.Reply{Err: errors.New("reset")}, status(500, 0)},
			{resiltest.Reply{Err: context.Canceled}},
			{status(404, 0)},
		} {
			_, err := do(t, p, resiltest.NewScript(steps...), get(t))
			require.True(t, err == nil || errors.Is(err, context.Canceled))
		}
		_, err := do(t, p, resiltest.NewScript(status(503, 0)), request(t.Context(), http.MethodPost, nil))
		require.NoError(t, err)
		require.Equal(t, []string{
			"retry Service Unavailable (retry: status 503 Service Unavailable) 7s",
			"recovered 0s",
			"retry Service Unavailable (retry: status 503 Service Unavailable) 500ms",
			"retry (reset) 1s",
			"exhausted (retry: status 500 Internal Server Error) 0s",
			"ignored (context canceled) 0s",
			"suppressed (retry: status 503 Service Unavailable) 0s",
		}, told)
	})
}

// delayOf returns the delay of an event, if it has one.
func delayOf(e registry.Event) time.Duration {
	d, _ := e.Attr("delay").Any().(time.Duration)
	return d
}
