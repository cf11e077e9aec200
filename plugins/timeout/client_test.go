package timeout_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/blame"
	"github.com/gresil/gresil/internal/resiltest"
	"github.com/gresil/gresil/plugins/timeout"
)

var errBoom = errors.New("boom")

// stub is a transport made of a function.
type stub func(*http.Request) (*http.Response, error)

func (f stub) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// after answers after d, unless the request's context ends before.
func after(d time.Duration) *resiltest.Script {
	return resiltest.NewScript(resiltest.Reply{Delay: d})
}

// trickle answers with a body of n bytes, each of which takes a second.
func trickle(n int) *resiltest.Script {
	return resiltest.NewScript(resiltest.Reply{Body: strings.Repeat("x", n), Pace: time.Second})
}

// contextOf is the context of the last request.
func contextOf(s *resiltest.Script) context.Context {
	return s.Attempts()[s.Calls()-1].Request.Context()
}

func answer(req *http.Request, body io.ReadCloser) *http.Response {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: body, Request: req, ContentLength: -1}
}

func get(t *testing.T, ctx context.Context, rt http.RoundTripper) (*http.Response, error) { //nolint:revive // t first, as in all helpers
	t.Helper()
	return rt.RoundTrip(core.Must(http.NewRequestWithContext(ctx, http.MethodGet, "http://example.test/", nil)))
}

// requireTimeout checks that err is a timeout in every way that callers ask.
func requireTimeout(t *testing.T, err error, name string) {
	t.Helper()
	require.ErrorIs(t, err, timeout.ErrTimeout)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, context.Canceled)
	var e *timeout.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, name, e.Name)
	timed, ok := err.(interface{ Timeout() bool })
	require.True(t, ok && timed.Timeout())
}

// kinds runs a test for the limit of an exchange and of an attempt, in a bubble.
func kinds(t *testing.T, test func(t *testing.T, kind string, limit *timeout.Timeout, plugin *timeout.Client)) {
	t.Helper()
	for kind, attempt := range map[string]bool{"total": false, "attempt": true} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limit := core.Must(timeout.New(timeout.Config{Name: kind, Limit: time.Second}))
				test(t, kind, limit, timeout.NewClient(limit, timeout.ClientOptions{PerAttempt: attempt}))
			})
		})
	}
}

func TestLimitOfAHangingRequest(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(context.Context) error{
		"cause":         context.Cause,
		"canceled":      func(context.Context) error { return context.Canceled },
		"error":         func(ctx context.Context) error { return ctx.Err() },
		"wrapped":       func(context.Context) error { return fmt.Errorf("dial: %w", context.Canceled) },
		"wrapped cause": func(ctx context.Context) error { return fmt.Errorf("dial: %w", context.Cause(ctx)) },
		"another":       func(context.Context) error { return errBoom },
	} {
		t.Run(name, func(t *testing.T) {
			kinds(t, func(t *testing.T, kind string, limit *timeout.Timeout, plugin *timeout.Client) {
				t.Helper()
				start := time.Now()
				_, err := get(t, t.Context(), plugin.Transport(stub(func(req *http.Request) (*http.Response, error) {
					<-req.Context().Done()
					return nil, end(req.Context())
				})))
				requireTimeout(t, err, kind)
				require.Equal(t, time.Second, time.Since(start))
				require.Equal(t, timeout.Stats{TimedOut: 1}, limit.Stats())
			})
		})
	}
}

// The limit of an attempt ends with the headers, and that of an exchange with the body.
func TestBody(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, kind string, limit *timeout.Timeout, plugin *timeout.Client) {
		t.Helper()
		inner := trickle(5)
		resp, err := get(t, t.Context(), plugin.Transport(inner))
		require.NoError(t, err)
		text, err := io.ReadAll(resp.Body)
		if kind == "total" {
			requireTimeout(t, err, kind)
			_, again := resp.Body.Read(make([]byte, 1))
			requireTimeout(t, again, kind)
			require.Equal(t, timeout.Stats{TimedOut: 1}, limit.Stats())
		} else {
			require.NoError(t, err)
			require.Equal(t, "xxxxx", string(text))
			require.Equal(t, timeout.Stats{Succeeded: 1}, limit.Stats())
		}
		require.Error(t, contextOf(inner).Err(), "released")
		require.NoError(t, resp.Request.Context().Err(), "the caller's")
		require.NoError(t, resp.Body.Close())
	})
}

func TestBodyEnd(t *testing.T) {
	t.Parallel()
	half := resiltest.Reply{Body: "half", Reset: true}
	reset := func(t *testing.T, body io.ReadCloser) {
		t.Helper()
		_, err := io.ReadAll(body)
		require.ErrorIs(t, err, syscall.ECONNRESET)
		require.NotErrorIs(t, err, timeout.ErrTimeout)
	}
	for name, c := range map[string]struct {
		reply resiltest.Reply
		end   func(t *testing.T, body io.ReadCloser)
		stats timeout.Stats // of the total
		under func(context.Context, *timeout.Timeout) context.Context
	}{
		"read": {resiltest.Reply{Body: "x"}, func(t *testing.T, body io.ReadCloser) {
			t.Helper()
			core.Must(io.ReadAll(body))
		}, timeout.Stats{Succeeded: 1}, nil},
		"closed":          {resiltest.Reply{Body: "x"}, func(*testing.T, io.ReadCloser) {}, timeout.Stats{Succeeded: 1}, nil},
		"closed too late": {resiltest.Reply{Body: "x"}, func(*testing.T, io.ReadCloser) { time.Sleep(time.Minute) }, timeout.Stats{TimedOut: 1}, nil},
		"broken":          {half, reset, timeout.Stats{Failed: 1}, nil},
		"broken, nearer deadline": {half, reset, timeout.Stats{Failed: 1}, func(ctx context.Context, _ *timeout.Timeout) context.Context {
			ctx, cancel := context.WithTimeout(ctx, time.Second/2)
			context.AfterFunc(ctx, cancel)
			return ctx
		}},
		"broken, no limit": {half, reset, timeout.Stats{Failed: 1}, func(ctx context.Context, limit *timeout.Timeout) context.Context {
			return limit.Override(ctx, func(c *timeout.Config) { c.Limit = -1 })
		}},
		"none": {resiltest.Reply{}, func(*testing.T, io.ReadCloser) {}, timeout.Stats{Succeeded: 1}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			kinds(t, func(t *testing.T, kind string, limit *timeout.Timeout, plugin *timeout.Client) {
				t.Helper()
				want := c.stats
				if kind == "attempt" {
					want = timeout.Stats{Succeeded: 1}
				}
				inner, ctx := resiltest.NewScript(c.reply), t.Context()
				if c.under != nil {
					ctx = c.under(ctx, limit)
				}
				resp, err := get(t, ctx, plugin.Transport(inner))
				require.NoError(t, err)
				c.end(t, resp.Body)
				require.NoError(t, resp.Body.Close())
				require.NoError(t, resp.Body.Close())
				require.Equal(t, want, limit.Stats())
				require.True(t, c.under != nil || contextOf(inner).Err() != nil, "released")
			})
		})
	}
}

func TestOtherEndings(t *testing.T) {
	t.Parallel()
	gone := errors.New("the user left")
	canceled := func(ctx context.Context) context.Context {
		ctx, cancel := context.WithCancelCause(ctx)
		time.AfterFunc(time.Second/2, func() { cancel(gone) })
		return ctx
	}
	nearer := func(ctx context.Context) context.Context {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		time.AfterFunc(time.Minute, cancel)
		return ctx
	}
	for name, c := range map[string]struct {
		ctx  func(context.Context) context.Context
		next http.RoundTripper
		err  error
	}{
		"failure":               {nil, resiltest.NewScript(resiltest.Reply{Err: errBoom}), errBoom},
		"caller cancels":        {canceled, after(time.Hour), gone},
		"caller's own deadline": {nearer, after(time.Hour), context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			kinds(t, func(t *testing.T, _ string, limit *timeout.Timeout, plugin *timeout.Client) {
				t.Helper()
				ctx := t.Context()
				if c.ctx != nil {
					ctx = c.ctx(ctx)
				}
				_, err := get(t, ctx, plugin.Transport(c.next))
				require.Equal(t, c.err, err)
				require.Equal(t, timeout.Stats{Failed: 1}, limit.Stats())
				time.Sleep(2 * time.Minute)
			})
		})
	}
}

// A try that a gate holds back counts for nothing, also if the limit strikes while it connects.
func TestHeldAfterTheLimit(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, _ string, limit *timeout.Timeout, plugin *timeout.Client) {
		t.Helper()
		ctx, hold := context.WithCancelCause(t.Context())
		_, err := get(t, ctx, plugin.Transport(stub(func(req *http.Request) (*http.Response, error) {
			time.Sleep(2 * time.Second)
			hold(blame.ErrHeld)
			return nil, context.Cause(req.Context())
		})))
		require.Error(t, err)
		require.Zero(t, limit.Stats())
	})
}

func TestResponseAfterTheLimit(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, kind string, limit *timeout.Timeout, plugin *timeout.Client) {
		t.Helper()
		body := resiltest.NewBody("x")
		resp, err := get(t, t.Context(), plugin.Transport(stub(func(req *http.Request) (*http.Response, error) {
			time.Sleep(2 * time.Second)
			return answer(req, body), nil
		})))
		if kind == "total" { // the body tells
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
		} else {
			require.Nil(t, resp)
			requireTimeout(t, err, kind)
		}
		require.Equal(t, 1, body.Closes())
		require.Equal(t, timeout.Stats{TimedOut: 1}, limit.Stats())
	})
}

type duplex struct {
	io.Reader
	io.Writer
	io.Closer
}

func TestUpgradedConnection(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, _ string, limit *timeout.Timeout, plugin *timeout.Client) {
		t.Helper()
		var written strings.Builder
		resp, err := get(t, t.Context(), plugin.Transport(stub(func(req *http.Request) (*http.Response, error) {
			resp := answer(req, duplex{strings.NewReader("hello"), &written, io.NopCloser(nil)})
			resp.StatusCode = http.StatusSwitchingProtocols
			return resp, nil
		})))
		require.NoError(t, err)
		time.Sleep(time.Hour)
		require.Equal(t, "hello", string(core.Must(io.ReadAll(resp.Body))))
		core.Must(io.WriteString(resp.Body.(io.Writer), "and back"))
		require.Equal(t, "and back", written.String())
		require.NoError(t, resp.Body.Close())
		require.Equal(t, timeout.Stats{Succeeded: 1}, limit.Stats())
	})
}

func TestPanicOfTheTransport(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, _ string, _ *timeout.Timeout, plugin *timeout.Client) {
		t.Helper()
		inner := resiltest.NewScript(resiltest.Reply{Panic: "boom"})
		require.PanicsWithValue(t, "boom", func() { _, _ = get(t, t.Context(), plugin.Transport(inner)) })
		require.Error(t, contextOf(inner).Err(), "released")
	})
}

func TestClientOverride(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, kind string, limit *timeout.Timeout, plugin *timeout.Client) {
		t.Helper()
		off := plugin.Override(t.Context(), func(o *timeout.ClientOptions) { o.Disabled = true })
		for name, c := range map[string]struct {
			ctx   context.Context
			want  time.Duration
			stats timeout.Stats // what is added
		}{
			"disabled":          {off, 3 * time.Second, timeout.Stats{}},
			"on again":          {plugin.Override(off, func(o *timeout.ClientOptions) { o.Disabled = !o.Disabled }), time.Second, timeout.Stats{TimedOut: 1}},
			"longer limit":      {limit.Override(t.Context(), func(c *timeout.Config) { c.Limit = 2 * time.Second }), 2 * time.Second, timeout.Stats{TimedOut: 1}},
			"no limit":          {limit.Override(t.Context(), func(c *timeout.Config) { c.Limit = -1 }), 3 * time.Second, timeout.Stats{Succeeded: 1}},
			"of another plugin": {timeout.NewClient(limit, timeout.ClientOptions{}).Override(t.Context(), nil), time.Second, timeout.Stats{TimedOut: 1}},
		} {
			before, start := limit.Stats(), time.Now()
			resp, err := get(t, c.ctx, plugin.Transport(after(3*time.Second)))
			require.Equal(t, c.want, time.Since(start), name)
			if c.want < 3*time.Second {
				requireTimeout(t, err, kind)
			} else {
				require.NoError(t, err, name)
				require.NoError(t, resp.Body.Close())
			}
			require.Equal(t, c.stats.TimedOut, limit.Stats().TimedOut-before.TimedOut, name)
			require.Equal(t, c.stats.Succeeded, limit.Stats().Succeeded-before.Succeeded, name)
		}
	})
}

func TestOverARealTransport(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, kind string, _ *timeout.Timeout, plugin *timeout.Client) {
		t.Helper()
		tr := resiltest.Serve(t, resiltest.NewNetwork(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/body" {
				_, _ = io.WriteString(w, "x")
				_ = http.NewResponseController(w).Flush()
				time.Sleep(2 * time.Second)
				_, _ = io.WriteString(w, "y")
				return
			}
			<-r.Context().Done()
		})).Transport()
		httpClient := &http.Client{Transport: client.New(tr, plugin)}
		start := time.Now()
		_, err := httpClient.Get("http://example.test/headers")
		var ue *url.Error
		require.ErrorAs(t, err, &ue)
		require.True(t, ue.Timeout())
		require.ErrorIs(t, err, timeout.ErrTimeout)
		require.Equal(t, time.Second, time.Since(start))

		resp, err := httpClient.Get("http://example.test/body")
		require.NoError(t, err)
		text, err := io.ReadAll(resp.Body)
		if kind == "total" {
			requireTimeout(t, err, kind)
		} else {
			require.NoError(t, err)
			require.Equal(t, "xy", string(text))
		}
		require.NoError(t, resp.Body.Close())
		time.Sleep(time.Minute) // the handlers have ended
	})
}

func TestPlugins(t *testing.T) {
	t.Parallel()
	limit := core.Must(timeout.New(timeout.Config{Name: "x"}))
	total, try := timeout.NewClient(limit, timeout.ClientOptions{}), timeout.NewClient(nil, timeout.ClientOptions{PerAttempt: true})
	require.Equal(t, "timeout.Client(x)", total.String())
	require.Equal(t, "timeout.Client(default)", try.String())
	require.Equal(t, []client.Phase{client.Overall, client.Attempt + 10}, []client.Phase{total.Phase(), try.Phase()})
	require.Equal(t, "timeout.Server(default)", timeout.NewServer(nil, timeout.ServerOptions{}).String())
	require.NotNil(t, try.Transport(nil))
}
