package timeout_test

import (
	"context"
	"github.com/gresil/gresil/server"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/plugins/timeout"
	"github.com/gresil/gresil/resiltest"
)

func disable(c *timeout.Config) { c.Disabled = true }

func TestOverride(t *testing.T) {
	t.Parallel()
	second := func(c *timeout.Config) { c.Limit = time.Second }
	for _, tt := range []struct {
		name string
		ctx  func(context.Context, *timeout.Client) context.Context
		cfg  timeout.Config
		took time.Duration // until the response, or the timeout
		cut  bool
	}{
		{"disabled", func(ctx context.Context, c *timeout.Client) context.Context { return c.Override(ctx, disable) }, timeout.Config{Limit: time.Second}, time.Hour, false},
		{"off in the Config, on again", func(ctx context.Context, c *timeout.Client) context.Context { return c.Override(ctx, second) }, timeout.Config{Limit: -1}, time.Second, true},
		{"zero is the default", func(ctx context.Context, c *timeout.Client) context.Context {
			return c.Override(ctx, func(c *timeout.Config) { c.Limit = 0 })
		}, timeout.Config{Limit: time.Second}, 10 * time.Second, true},
		{"the innermost is applied last", func(ctx context.Context, c *timeout.Client) context.Context {
			return c.Override(c.Override(ctx, disable), func(c *timeout.Config) {
				require.True(t, c.Disabled)
				c.Disabled, c.Limit = false, 2*time.Second
			})
		}, timeout.Config{Limit: time.Second}, 2 * time.Second, true},
		{"another plugin's", func(ctx context.Context, c *timeout.Client) context.Context {
			return core.Must(timeout.NewAttempt(timeout.Config{})).Override(ctx, disable)
		}, timeout.Config{Limit: time.Second}, time.Second, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				defer takes(t, tt.took)()
				plugin := core.Must(timeout.NewAttempt(tt.cfg))
				resp, err := get(t, tt.ctx(t.Context(), plugin), plugin.Transport(after(time.Hour, "text")))
				if tt.cut {
					requireTimeout(t, err, "attempt")
					var e *timeout.Error
					require.ErrorAs(t, err, &e)
					require.Equal(t, tt.took, e.Limit)
					return
				}
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
			})
		})
	}
}

func TestOverrideOfTheBody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		plugin := core.Must(timeout.NewTotal(timeout.Config{Limit: time.Second}))
		ctx := plugin.Override(t.Context(), func(c *timeout.Config) { c.HeadersOnly = true })
		resp, err := get(t, ctx, plugin.Transport(trickle(5)))
		require.NoError(t, err)
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Len(t, text, 5)
	})
}

func TestOverrideThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	plugin := core.Must(timeout.NewTotal(timeout.Config{HeadersOnly: true}))
	ctx := plugin.Override(t.Context(), func(c *timeout.Config) { c.CutBody = true })
	body := resiltest.NewBody("x")
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://example.test/", body)
	require.NoError(t, err)
	inner := resiltest.NewScript()
	_, err = plugin.Transport(inner).RoundTrip(req)
	require.ErrorIs(t, err, core.ErrConfig)
	require.Zero(t, inner.Calls())
	require.Equal(t, 1, body.Closes())
}

func TestServerOverride(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*timeout.ServerConfig)
		status int
		took   time.Duration
	}{
		{"none", func(*timeout.ServerConfig) {}, 503, time.Second},
		{"limit and status", func(c *timeout.ServerConfig) {
			c.Limit, c.OnRejected = 2*time.Second, func(w http.ResponseWriter, _ *http.Request, _ server.Rejection) {
				w.WriteHeader(http.StatusGatewayTimeout)
			}
		}, 504, 2 * time.Second},
		{"no limit", func(c *timeout.ServerConfig) { c.Limit = -1 }, 200, time.Hour},
		{"disabled", func(c *timeout.ServerConfig) { c.Disabled = true }, 200, time.Hour},
		{"disabled, and cannot be used", func(c *timeout.ServerConfig) { c.Disabled, c.MaxBuffer = true, -1 }, 500, 0},
		{"cannot be used", func(c *timeout.ServerConfig) { c.MaxBuffer = -1 }, 500, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				defer takes(t, tt.took)()
				plugin := core.Must(timeout.NewServer(timeout.ServerConfig{Limit: time.Second}))
				h := plugin.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					select {
					case <-time.After(time.Hour):
					case <-r.Context().Done():
					}
				}))
				w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil)
				h.ServeHTTP(w, r.WithContext(plugin.Override(t.Context(), tt.change)))
				require.Equal(t, tt.status, w.Code)
			})
		})
	}
}

func TestADisabledClientOnlyPassesRequestsOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r core.Registry
		limits := timeout.Config{Name: "api", Registry: &r, Disabled: true, Limit: time.Second, CutBody: true, ResponseHeader: time.Second, BodyIdle: time.Second}
		plugin := core.Must(timeout.NewAttempt(limits))
		var seen *http.Request
		rt := plugin.Transport(stub(func(req *http.Request) (*http.Response, error) {
			seen = req
			time.Sleep(time.Minute)
			return nil, io.ErrUnexpectedEOF
		}))
		send := func(ctx context.Context) error {
			_, err := get(t, ctx, rt)
			return err
		}
		require.Equal(t, io.ErrUnexpectedEOF, send(t.Context()))
		require.Equal(t, t.Context(), seen.Context(), "the context has no limit")
		require.Zero(t, plugin.Stats())
		require.Zero(t, limitOf(&r, "api"), "metrics see no limit")

		require.NotEqual(t, io.ErrUnexpectedEOF, send(plugin.Override(t.Context(), func(c *timeout.Config) { c.Disabled = false })))
		require.EqualValues(t, 1, plugin.Stats().TimedOut)
		bad := plugin.Override(t.Context(), func(c *timeout.Config) { c.BodyIdle = -1 })
		require.ErrorIs(t, send(bad), core.ErrConfig, "it is validated all the same")
		limits.Disabled = false
		require.NoError(t, plugin.SetConfig(limits))
		require.ErrorIs(t, send(t.Context()), timeout.ErrTimeout)
		require.InDelta(t, 1, limitOf(&r, "api"), 0)
	})
}

func TestADisabledServerOnlyCallsTheHandler(t *testing.T) {
	t.Parallel()
	plugin := core.Must(timeout.NewServer(timeout.ServerConfig{Disabled: true}))
	w := httptest.NewRecorder()
	var got http.ResponseWriter
	plugin.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { got = w })).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	require.Equal(t, http.ResponseWriter(w), got)
	require.Zero(t, plugin.Stats())
	require.NoError(t, plugin.SetConfig(timeout.ServerConfig{}))
	handle(t, plugin, func(w http.ResponseWriter, _ *http.Request) { got = w })
	require.NotEqual(t, http.ResponseWriter(w), got)
	require.EqualValues(t, 1, plugin.Stats().Succeeded)
}
