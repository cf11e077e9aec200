package timeout_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/timeout"
	"github.com/gresil/gresil/internal/eventtest"
	"github.com/gresil/gresil/internal/registry"
)

var errBoom = errors.New("boom")

// lasting returns an operation that lasts d unless its context ends, and then
// returns what end makes of that.
func lasting(d time.Duration, end func(context.Context) (int, error)) func(context.Context) (int, error) {
	return func(ctx context.Context) (int, error) {
		select {
		case <-time.After(d):
			return 7, nil
		case <-ctx.Done():
			return end(ctx)
		}
	}
}

func returnsErr(ctx context.Context) (int, error)   { return 0, ctx.Err() }
func returnsCause(ctx context.Context) (int, error) { return 0, context.Cause(ctx) }

func TestLimitEndsTheOperation(t *testing.T) {
	t.Parallel()
	wrapped := func(ctx context.Context) (int, error) { return 0, fmt.Errorf("reading: %w", ctx.Err()) }
	wrapsCause := func(ctx context.Context) (int, error) { return 0, fmt.Errorf("reading: %w", context.Cause(ctx)) }
	wrapsInURL := func(ctx context.Context) (int, error) {
		return 0, &url.Error{Op: "Get", URL: "/", Err: context.Cause(ctx)}
	}
	canceled := func(context.Context) (int, error) { return 0, fmt.Errorf("dial: %w", context.Canceled) }
	other := func(context.Context) (int, error) { return 1, errBoom }
	for _, tt := range []struct {
		name string
		end  func(context.Context) (int, error)
		also error
		text string
	}{
		{"context's error", returnsErr, nil, `timeout: "api" took longer than 50ms`},
		{"cause", returnsCause, nil, `timeout: "api" took longer than 50ms`},
		{"wrapped context's error", wrapped, nil, `timeout: "api" took longer than 50ms: reading: context deadline exceeded`},
		{"wrapped cause", wrapsCause, nil, `timeout: "api" took longer than 50ms: reading: timeout: "api" took longer than 50ms`},
		{"wrapped cause that is a timeout", wrapsInURL, nil, `Get "/": timeout: "api" took longer than 50ms`},
		{"a cancellation that the limit caused", canceled, nil, `timeout: "api" took longer than 50ms`},
		{"another error", other, errBoom, `timeout: "api" took longer than 50ms: boom`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				limit := core.Must(timeout.New(timeout.Config{Name: "api", Limit: 50 * time.Millisecond}))
				_, err := timeout.Do(t.Context(), limit, lasting(10*time.Second, tt.end))
				require.Equal(t, 50*time.Millisecond, time.Since(start))
				require.EqualError(t, err, tt.text)
				require.ErrorIs(t, err, timeout.ErrTimeout)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.NotErrorIs(t, err, context.Canceled)
				if tt.also != nil {
					require.ErrorIs(t, err, tt.also)
				}
				require.True(t, (&url.Error{Err: err}).Timeout(), "net/http looks no deeper than this")
				var e *timeout.Error
				require.ErrorAs(t, err, &e)
				require.Equal(t, 50*time.Millisecond, e.Limit)
				var ne net.Error = e
				require.True(t, ne.Timeout())
				require.True(t, e.Temporary())
				require.True(t, os.IsTimeout(e))
				require.Equal(t, timeout.Stats{TimedOut: 1}, limit.Stats())
			})
		})
	}
}

func TestOtherEndingsAreNotTimeouts(t *testing.T) {
	t.Parallel()
	gone := errors.New("the user left")
	for _, tt := range []struct {
		name  string
		ctx   func(context.Context) (context.Context, context.CancelFunc)
		limit time.Duration
		op    func(context.Context) (int, error)
		err   error
		stats timeout.Stats
	}{
		{"success", nil, time.Second, lasting(0, returnsErr), nil, timeout.Stats{Succeeded: 1}},
		{"success after the limit", nil, time.Second, func(ctx context.Context) (int, error) { time.Sleep(time.Hour); return 7, nil }, nil, timeout.Stats{Succeeded: 1}},
		{"failure", nil, time.Second, func(context.Context) (int, error) { return 0, errBoom }, errBoom, timeout.Stats{Failed: 1}},
		{"a deadline of its own", nil, time.Second, func(context.Context) (int, error) { return 0, context.DeadlineExceeded }, context.DeadlineExceeded, timeout.Stats{Failed: 1}},
		{
			"caller cancels",
			func(ctx context.Context) (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancelCause(ctx)
				time.AfterFunc(time.Second, func() { cancel(gone) })
				return ctx, func() { cancel(nil) }
			},
			time.Minute, lasting(time.Hour, returnsCause), gone,
			timeout.Stats{Failed: 1},
		},
		{
			"caller's deadline is nearer",
			func(ctx context.Context) (context.Context, context.CancelFunc) {
				return context.WithTimeout(ctx, time.Second)
			},
			time.Minute, lasting(time.Hour, returnsErr), context.DeadlineExceeded,
			timeout.Stats{Failed: 1},
		},
		{
			"caller's deadline is as near",
			func(ctx context.Context) (context.Context, context.CancelFunc) {
				return context.WithTimeout(ctx, time.Second)
			},
			time.Second, lasting(time.Hour, returnsErr), context.DeadlineExceeded,
			timeout.Stats{Failed: 1},
		},
		{"no limit", nil, -1, lasting(time.Hour, returnsErr), nil, timeout.Stats{Succeeded: 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if tt.ctx != nil {
					c, cancel := tt.ctx(ctx)
					defer cancel()
					ctx = c
				}
				limit := core.Must(timeout.New(timeout.Config{Limit: tt.limit, Registry: eventtest.Registry(func(context.Context, registry.Event) { t.Error("told of a timeout") })}))
				got, err := timeout.Do(ctx, limit, tt.op)
				require.Equal(t, tt.err, err, "as it was returned")
				if err == nil {
					require.Equal(t, 7, got)
				}
				require.Equal(t, tt.stats, limit.Stats())
			})
		})
	}
}

func requireName(t *testing.T, want string, err error) {
	t.Helper()
	var e *timeout.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, want, e.Name)
}

func TestOverride(t *testing.T) {
	t.Parallel()
	second := func(c *timeout.Config) { c.Limit = time.Second }
	limit := core.Must(timeout.New(timeout.Config{Name: "api", Limit: time.Minute}))
	for name, c := range map[string]struct {
		ctx  context.Context
		want time.Duration
	}{
		"none":       {t.Context(), time.Minute},
		"shorter":    {limit.Override(t.Context(), second), time.Second},
		"innermost":  {limit.Override(limit.Override(t.Context(), second), func(c *timeout.Config) { c.Limit *= 2 }), 2 * time.Second},
		"zero":       {limit.Override(t.Context(), func(c *timeout.Config) { c.Limit = 0 }), 30 * time.Second},
		"name stays": {limit.Override(t.Context(), func(c *timeout.Config) { c.Name, c.Limit = "x", time.Second }), time.Second},
		"nil":        {limit.Override(t.Context(), nil), time.Minute},
		"of another": {core.Must(timeout.New(timeout.Config{})).Override(t.Context(), second), time.Minute},
		"no limit":   {limit.Override(t.Context(), func(c *timeout.Config) { c.Limit = -1 }), time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				_, err := timeout.Do(bubbled{t.Context(), c.ctx}, limit, lasting(time.Hour, returnsErr))
				require.Equal(t, c.want, time.Since(start))
				if c.want < time.Hour {
					requireName(t, "api", err)
				}
			})
		})
	}
}

// bubbled is a context of a bubble with the values of another one.
type bubbled struct {
	context.Context
	values context.Context
}

func (b bubbled) Value(key any) any { return b.values.Value(key) }

func TestNestedLimitsEachReportTheirOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		outer := core.Must(timeout.New(timeout.Config{Name: "total", Limit: time.Second}))
		inner := core.Must(timeout.New(timeout.Config{Name: "attempt", Limit: 600 * time.Millisecond}))
		attempts := 0
		_, err := timeout.Do(t.Context(), outer, func(ctx context.Context) (int, error) {
			for {
				attempts++
				n, err := timeout.Do(ctx, inner, lasting(time.Hour, returnsErr))
				if ctx.Err() != nil {
					return n, err
				}
				requireName(t, "attempt", err)
			}
		})
		requireName(t, "total", err)
		require.Equal(t, 2, attempts)
		require.Equal(t, timeout.Stats{TimedOut: 1, Failed: 1}, inner.Stats())
		require.Equal(t, timeout.Stats{TimedOut: 1}, outer.Stats())

		// The same one twice: the inner call does not take the outer one's end for its own.
		_, err = timeout.Do(t.Context(), outer, func(ctx context.Context) (int, error) {
			time.Sleep(time.Millisecond)
			return timeout.Do(ctx, outer, lasting(time.Hour, returnsCause))
		})
		requireName(t, "total", err)
		require.Equal(t, timeout.Stats{TimedOut: 2, Failed: 1}, outer.Stats())
	})
}

func TestContextIsReleased(t *testing.T) {
	t.Parallel()
	limit := core.Must(timeout.New(timeout.Config{}))
	for _, end := range []error{nil, errBoom} {
		var ended <-chan struct{}
		func() {
			defer func() { require.Equal(t, end != nil, recover() != nil) }()
			_, err := timeout.Do(t.Context(), limit, func(ctx context.Context) (int, error) {
				if ended = ctx.Done(); end != nil {
					panic(end)
				}
				return 0, end
			})
			require.NoError(t, err)
		}()
		select {
		case <-ended:
		default:
			t.Error("the context is alive after the call")
		}
	}
}

func TestEvent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var events []registry.Event
		limit := core.Must(timeout.New(timeout.Config{Limit: time.Second, Registry: eventtest.Registry(func(ctx context.Context, e registry.Event) {
			require.NoError(t, ctx.Err(), "the caller's context")
			events = append(events, e)
		})}))
		_, err := timeout.Do(t.Context(), limit, func(context.Context) (int, error) { time.Sleep(3 * time.Second); return 0, errBoom })
		require.Equal(t, []registry.Event{{Text: "timed out", Call: true, Attrs: []slog.Attr{
			slog.Duration("limit", time.Second), slog.Duration("elapsed", 3*time.Second), slog.Any("err", err),
		}}}, events)
	})
}

func TestTimeoutIsAMechanism(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limit := core.Must(timeout.New(timeout.Config{Limit: time.Second}))
		_, err := core.Do(t.Context(), core.Must(core.NewPipeline(limit)), lasting(time.Hour, returnsErr))
		require.ErrorIs(t, err, timeout.ErrTimeout)
	})
}

func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	limit := core.Must(timeout.New(timeout.Config{Limit: time.Hour}))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				_, _ = timeout.Do(t.Context(), limit, func(context.Context) (int, error) { return 0, nil })
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 1600, limit.Stats().Succeeded)
}

// mallocs counts the allocations of one run of f. Not for parallel tests.
func mallocs(f func()) float64 {
	const runs = 5_000
	f()
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range runs {
		f()
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / runs
}

func TestAllocatesTheContextAlone(t *testing.T) { //nolint:paralleltest // allocations are counted
	near, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	limited := core.Must(timeout.New(timeout.Config{Limit: time.Hour}))
	unlimited := core.Must(timeout.New(timeout.Config{Limit: -1}))
	captured := 1
	op := func(context.Context) (int, error) {
		if captured++; captured < 0 {
			return 0, errBoom
		}
		return captured, nil
	}
	floor := mallocs(func() {
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Hour, errBoom)
		_, _ = op(ctx)
		cancel()
	})
	for _, tt := range []struct {
		name string
		ctx  context.Context
		t    *timeout.Timeout
		want float64
	}{
		{"limit", t.Context(), limited, floor},
		{"nearer deadline of the caller", near, limited, 0},
		{"no limit", t.Context(), unlimited, 0},
	} {
		got := mallocs(func() { _, _ = timeout.Do(tt.ctx, tt.t, op) })
		require.InDelta(t, tt.want, got, 0.05, tt.name)
	}
}

//go:noinline
func answer(context.Context) (int, error) { return 42, nil }

func BenchmarkFloorContextWithTimeout(b *testing.B) {
	parent := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		ctx, cancel := context.WithTimeoutCause(parent, time.Hour, errBoom)
		_, _ = answer(ctx)
		cancel()
	}
}

func BenchmarkDo(b *testing.B) {
	limit, ctx := core.Must(timeout.New(timeout.Config{Limit: time.Hour})), b.Context()
	b.ReportAllocs()
	for b.Loop() {
		_, _ = timeout.Do(ctx, limit, answer)
	}
}

func BenchmarkDoNearerDeadline(b *testing.B) {
	limit := core.Must(timeout.New(timeout.Config{Limit: time.Hour}))
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	b.ReportAllocs()
	for b.Loop() {
		_, _ = timeout.Do(ctx, limit, answer)
	}
}
