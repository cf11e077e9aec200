package timeout_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/eventtest"
	"github.com/gresil/gresil/internal/registry"
	"github.com/gresil/gresil/plugins/timeout"
	"github.com/gresil/gresil/resiltest"
)

// trickling answers at once, with a body of n bytes that takes a second for each.
func trickling(n int) stub {
	return func(req *http.Request) (*http.Response, error) {
		return answer(req, &drip{ctx: req.Context(), n: n}), nil
	}
}

func TestBodyIdle(t *testing.T) {
	t.Parallel()
	for name, newPlugin := range map[string]func(timeout.Config) (*timeout.Client, error){"total": timeout.NewTotal, "attempt": timeout.NewAttempt} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				handler := &stalling{left: make(chan struct{})}
				var told []error
				plugin := core.Must(newPlugin(timeout.Config{BodyIdle: 2 * time.Second, HeadersOnly: name == "total", Limit: time.Second, Registry: eventtest.Registry(func(_ context.Context, e registry.Event) { told = append(told, e.Err()) })}))
				httpClient, _ := serve(t, handler)
				httpClient.Transport = plugin.Transport(httpClient.Transport)

				resp, err := httpClient.Get("http://example.test/trickle")
				require.NoError(t, err)
				text, err := io.ReadAll(resp.Body)
				require.NoError(t, err, "ten times the limit")
				require.Len(t, text, 10)
				require.NoError(t, resp.Body.Close())
				require.Equal(t, timeout.Stats{Succeeded: 1}, plugin.Stats())

				resp, err = httpClient.Get("http://example.test/stall")
				require.NoError(t, err)
				one := [1]byte{}
				_, err = io.ReadFull(resp.Body, one[:])
				require.NoError(t, err)
				done := takes(t, 2*time.Second)
				_, err = resp.Body.Read(one[:])
				requireTimeout(t, err, name)
				done()
				_, again := resp.Body.Read(one[:])
				require.Equal(t, err, again)
				<-handler.left // the connection is closed
				require.NoError(t, resp.Body.Close())
				require.Equal(t, timeout.Stats{Succeeded: 1, TimedOut: 1}, plugin.Stats())
				require.Equal(t, []error{err}, told)
			})
		})
	}
}

// A stalling handler sends a body slowly, or one byte of it.
type stalling struct{ left chan struct{} }

func (s *stalling) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_ = http.NewResponseController(w).Flush()
	if r.URL.Path == "/stall" {
		_, _ = io.WriteString(w, "x")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(s.left)
		return
	}
	for range 10 {
		time.Sleep(time.Second)
		_, _ = io.WriteString(w, "x")
		_ = http.NewResponseController(w).Flush()
	}
}

func TestBodyIdleOverHTTP2ResetsTheStream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		handler := &stalling{left: make(chan struct{})}
		tr := resiltest.Serve(t, resiltest.NewNetwork().Listen(""), handler).Transport()
		tr.Protocols = resiltest.HTTP2()
		plugin := core.Must(timeout.NewAttempt(timeout.Config{BodyIdle: 2 * time.Second}))
		resp, err := (&http.Client{Transport: plugin.Transport(tr)}).Get("http://example.test/stall")
		require.NoError(t, err)
		require.Equal(t, "HTTP/2.0", resp.Proto)
		defer takes(t, 2*time.Second)()
		text, err := io.ReadAll(resp.Body)
		require.Equal(t, "x", string(text))
		requireTimeout(t, err, "attempt")
		<-handler.left
		require.NoError(t, resp.Body.Close())
	})
}

func TestBodyIdleWithoutALimitOrWithANearerDeadline(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		cfg      timeout.Config
		deadline time.Duration
	}{
		{"no limit", timeout.Config{Limit: -1, BodyIdle: 2 * time.Second}, 0},
		{"nearer deadline", timeout.Config{BodyIdle: 2 * time.Second}, 9 * time.Second},
		{"beside a limit on the body", timeout.Config{CutBody: true, BodyIdle: 2 * time.Second}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				defer takes(t, 5*time.Second)()
				ctx, cancel := context.WithCancel(t.Context())
				if tt.deadline > 0 {
					ctx, cancel = context.WithTimeout(t.Context(), tt.deadline)
				}
				defer cancel()
				plugin := core.Must(timeout.NewAttempt(tt.cfg))
				resp, err := get(t, ctx, plugin.Transport(stub(func(req *http.Request) (*http.Response, error) {
					return answer(req, &stops{drip{ctx: req.Context(), n: 3}}), nil
				})))
				require.NoError(t, err)
				text, err := io.ReadAll(resp.Body)
				require.Len(t, text, 3)
				requireTimeout(t, err, "attempt")
				require.Equal(t, timeout.Stats{TimedOut: 1}, plugin.Stats())
				require.NoError(t, resp.Body.Close())
				require.NoError(t, ctx.Err())
			})
		})
	}
}

// drip is a body of n bytes, each of which takes a second unless ctx ends.
type drip struct {
	ctx context.Context
	n   int
}

func (b *drip) Read(p []byte) (int, error) {
	if b.n == 0 {
		return 0, io.EOF
	}
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	select {
	case <-timer.C:
		b.n--
		p[0] = 'x'
		return 1, nil
	case <-b.ctx.Done():
		return 0, b.ctx.Err()
	}
}

func (b *drip) Close() error { return nil }

// stops is a drip that stalls at its end.
type stops struct{ drip }

func (b *stops) Read(p []byte) (int, error) {
	if b.n == 0 {
		<-b.ctx.Done()
		return 0, b.ctx.Err()
	}
	return b.drip.Read(p)
}

func TestBodyIdleIsNotForTheTimeBetweenReads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		plugin := core.Must(timeout.NewAttempt(timeout.Config{BodyIdle: 2 * time.Second}))
		resp, err := get(t, t.Context(), plugin.Transport(trickling(3)))
		require.NoError(t, err)
		one := [1]byte{}
		for range 3 {
			time.Sleep(time.Hour)
			_, err = resp.Body.Read(one[:])
			require.NoError(t, err)
		}
		time.Sleep(time.Hour)
		_, err = resp.Body.Read(one[:])
		require.Equal(t, io.EOF, err)
		time.Sleep(time.Hour)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, timeout.Stats{Succeeded: 1}, plugin.Stats())
	})
}

func TestBodyIdleOfABodyThatIsClosedEarly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		base := trickle(3)
		plugin := core.Must(timeout.NewAttempt(timeout.Config{BodyIdle: 2 * time.Second}))
		resp, err := get(t, t.Context(), plugin.Transport(base))
		require.NoError(t, err)
		_, err = resp.Body.Read(make([]byte, 1))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, timeout.Stats{Succeeded: 1}, plugin.Stats())
		time.Sleep(time.Hour)
		require.Equal(t, context.Canceled, context.Cause(contextOf(base)), "not the limit")
	})
}

func TestBodyIdleLeavesTheCallersCancellationAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		plugin := core.Must(timeout.NewAttempt(timeout.Config{BodyIdle: 2 * time.Second}))
		ctx, cancel := context.WithCancel(t.Context())
		resp, err := get(t, ctx, plugin.Transport(trickling(3)))
		require.NoError(t, err)
		time.AfterFunc(time.Second/2, cancel)
		_, err = resp.Body.Read(make([]byte, 1))
		require.Equal(t, context.Canceled, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, timeout.Stats{Canceled: 1}, plugin.Stats())
	})
}

func TestBodyIdleIsNotForAnUpgradedConnectionNorWhereThereIsNoBody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		plugin := core.Must(timeout.NewTotal(timeout.Config{BodyIdle: time.Second / 2}))
		resp, err := get(t, t.Context(), plugin.Transport(stub(func(req *http.Request) (*http.Response, error) {
			resp := answer(req, &upgraded{drip: drip{ctx: req.Context(), n: 3}})
			resp.StatusCode = http.StatusSwitchingProtocols
			return resp, nil
		})))
		require.NoError(t, err)
		_, ok := resp.Body.(io.Writer)
		require.True(t, ok)
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Len(t, text, 3)
		require.NoError(t, resp.Body.Close())

		for _, body := range []io.ReadCloser{nil, http.NoBody} {
			resp, err = get(t, t.Context(), plugin.Transport(stub(func(req *http.Request) (*http.Response, error) {
				return answer(req, body), nil
			})))
			require.NoError(t, err)
			require.Equal(t, body, resp.Body)
		}
		require.Equal(t, timeout.Stats{Succeeded: 3}, plugin.Stats())
	})
}

type upgraded struct {
	drip
	strings.Builder
}

func TestBodyIdleByOverrideAndSetConfig(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		plugin := core.Must(timeout.NewAttempt(timeout.Config{}))
		rt := client.New(stub(func(req *http.Request) (*http.Response, error) {
			return answer(req, &stops{drip{ctx: req.Context(), n: 1}}), nil
		}), plugin)
		read := func(ctx context.Context) error {
			resp, err := get(t, ctx, rt)
			require.NoError(t, err)
			_, err = io.ReadAll(resp.Body)
			require.NoError(t, resp.Body.Close())
			return err
		}
		week := func(ctx context.Context) context.Context {
			ctx, cancel := context.WithTimeout(ctx, 7*24*time.Hour)
			t.Cleanup(cancel)
			return ctx
		}
		require.Equal(t, context.DeadlineExceeded, read(week(t.Context())), "none")
		ctx := plugin.Override(t.Context(), func(c *timeout.Config) { c.BodyIdle = 3 * time.Second })
		requireTimeout(t, read(ctx), "attempt")
		require.NoError(t, plugin.SetConfig(timeout.Config{BodyIdle: 2 * time.Second}))
		requireTimeout(t, read(plugin.Override(t.Context(), nil)), "attempt")
		require.Equal(t, context.DeadlineExceeded, read(plugin.Override(week(t.Context()), disable)), "none")
		require.Equal(t, 2*time.Second, plugin.Config().BodyIdle)
		_, err := get(t, plugin.Override(t.Context(), func(c *timeout.Config) { c.BodyIdle = -1 }), rt)
		require.Equal(t, []string{"timeout.Config.BodyIdle"}, fields(t, err))
	})
}

func TestAnOverrideThatIsNilChangesNothing(t *testing.T) {
	t.Parallel()
	require.Equal(t, t.Context(), core.Must(timeout.NewAttempt(timeout.Config{})).Override(t.Context(), nil))
	require.Equal(t, t.Context(), core.Must(timeout.NewServer(timeout.ServerConfig{})).Override(t.Context(), nil))
}
