package timeout_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
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

// lasting returns an operation that lasts an hour unless its context ends, and then returns what end makes of that.
func lasting(end func(context.Context) (int, error)) func(context.Context) (int, error) {
	return func(ctx context.Context) (int, error) {
		select {
		case <-time.After(time.Hour):
			return 7, nil
		case <-ctx.Done():
			return end(ctx)
		}
	}
}

func returnsErr(ctx context.Context) (int, error)   { return 0, ctx.Err() }
func returnsCause(ctx context.Context) (int, error) { return 0, context.Cause(ctx) }
func wrapsInURL(ctx context.Context) (int, error) {
	return 0, &url.Error{Op: "Get", URL: "/", Err: context.Cause(ctx)}
}

func TestDo(t *testing.T) {
	t.Parallel()
	wrap := func(f string, err func(context.Context) error) func(context.Context) (int, error) {
		return func(ctx context.Context) (int, error) { return 0, fmt.Errorf(f, err(ctx)) }
	}
	gone := errors.New("the user left")
	leaves := func(ctx context.Context) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancelCause(ctx)
		time.AfterFunc(time.Second, func() { cancel(gone) })
		return ctx, func() { cancel(nil) }
	}
	second := func(ctx context.Context) (context.Context, context.CancelFunc) {
		return context.WithTimeout(ctx, time.Second)
	}
	const late = `timeout: "api" took longer than 1s`
	for name, c := range map[string]struct {
		ctx   func(context.Context) (context.Context, context.CancelFunc)
		limit time.Duration
		op    func(context.Context) (int, error)
		err   error  // as it was returned
		late  string // the text of the timeout's
	}{
		"context's error":       {nil, 0, lasting(returnsErr), nil, late},
		"cause":                 {nil, 0, lasting(returnsCause), nil, late},
		"wrapped error":         {nil, 0, lasting(wrap("x: %w", context.Context.Err)), nil, late + ": x: context deadline exceeded"},
		"wrapped cause":         {nil, 0, lasting(wrap("x: %w", context.Cause)), nil, late + ": x: " + late},
		"a timeout around it":   {nil, 0, lasting(wrapsInURL), nil, `Get "/": ` + late},
		"a cancellation by it":  {nil, 0, lasting(wrap("x: %w", func(context.Context) error { return context.Canceled })), nil, late},
		"another error after":   {nil, 0, lasting(func(context.Context) (int, error) { return 1, errBoom }), nil, late + ": boom"},
		"success":               {nil, 0, func(context.Context) (int, error) { return 7, nil }, nil, ""},
		"success after":         {nil, 0, func(context.Context) (int, error) { time.Sleep(time.Hour); return 7, nil }, nil, ""},
		"failure":               {nil, 0, func(context.Context) (int, error) { return 0, errBoom }, errBoom, ""},
		"a deadline of its own": {nil, 0, func(context.Context) (int, error) { return 0, context.DeadlineExceeded }, context.DeadlineExceeded, ""},
		"caller cancels":        {leaves, time.Minute, lasting(returnsCause), gone, ""},
		"a nearer deadline":     {second, time.Minute, lasting(returnsErr), context.DeadlineExceeded, ""},
		"one as near":           {second, time.Second, lasting(returnsErr), context.DeadlineExceeded, ""},
		"no limit":              {nil, -1, lasting(returnsErr), nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, events, start := t.Context(), 0, time.Now()
				if c.ctx != nil {
					var cancel context.CancelFunc
					ctx, cancel = c.ctx(ctx)
					defer cancel()
				}
				limit := core.Must(timeout.New(timeout.Config{
					Name: "api", Limit: cmp.Or(c.limit, time.Second), Registry: eventtest.Registry(func(context.Context, registry.Event) { events++ }),
				}))
				got, err := core.Do(ctx, core.Must(core.NewPipeline(limit)), c.op)
				if c.late != "" {
					require.Equal(t, []any{timeout.Stats{TimedOut: 1}, time.Second, 1}, []any{limit.Stats(), time.Since(start), events})
					requireTimeout(t, err, c.late)
					require.Equal(t, name == "another error after", errors.Is(err, errBoom))
					return
				}
				require.Equal(t, []any{c.err, 0}, []any{err, events})
				if c.err != nil {
					require.Equal(t, timeout.Stats{Failed: 1}, limit.Stats())
					return
				}
				require.Equal(t, []any{7, timeout.Stats{Succeeded: 1}}, []any{got, limit.Stats()})
			})
		})
	}
}

func requireTimeout(t *testing.T, err error, text string) {
	t.Helper()
	require.EqualError(t, err, text)
	require.ErrorIs(t, err, timeout.ErrTimeout)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, context.Canceled)
	require.True(t, (&url.Error{Err: err}).Timeout(), "net/http looks no deeper than this")
	e, _ := errors.AsType[*timeout.Error](err)
	require.Equal(t, time.Second, e.Limit)
	var ne net.Error = e
	require.True(t, ne.Timeout() && e.Temporary() && os.IsTimeout(e))
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
				_, err := timeout.Do(bubbled{t.Context(), c.ctx}, limit, lasting(returnsErr))
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
				n, err := timeout.Do(ctx, inner, lasting(returnsErr))
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
			return timeout.Do(ctx, outer, lasting(returnsCause))
		})
		requireName(t, "total", err)
		require.Equal(t, timeout.Stats{TimedOut: 2, Failed: 1}, outer.Stats())
	})
}

func TestContextIsReleased(t *testing.T) {
	t.Parallel()
	for end, limit := range map[error]*timeout.Timeout{nil: nil, errBoom: core.Must(timeout.New(timeout.Config{}))} {
		var ended <-chan struct{}
		func() {
			defer func() { require.Equal(t, end != nil, recover() != nil) }()
			_, err := timeout.Do(t.Context(), limit, func(ctx context.Context) (int, error) {
				_, limited := ctx.Deadline()
				require.True(t, limited)
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

// A rejection of another call, by which an errgroup cancels this one, says nothing about it.
func TestCallerCanceledByRejection(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		takes time.Duration
		want  timeout.Stats
	}{
		"within the limit": {500 * time.Millisecond, timeout.Stats{Failed: 1}},
		"over the limit":   {3 * time.Second, timeout.Stats{TimedOut: 1}},
	} {
		synctest.Test(t, func(t *testing.T) {
			limit := core.Must(timeout.New(timeout.Config{Limit: time.Second}))
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(row.takes-1, func() { cancel(core.ErrRejected) })
			_, err := timeout.Do(ctx, limit, func(context.Context) (int, error) { time.Sleep(row.takes); return 0, errBoom })
			require.ErrorIs(t, err, errBoom)
			require.Equal(t, row.want.TimedOut > 0, errors.Is(err, timeout.ErrTimeout), name)
			require.Equal(t, row.want, limit.Stats(), name)
		})
	}
}

// What runs has the limit that it began with.
func TestSetConfig(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limit, start := core.Must(timeout.New(timeout.Config{Limit: time.Minute})), time.Now()
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				_, err := timeout.Do(t.Context(), limit, lasting(returnsErr))
				require.ErrorIs(t, err, timeout.ErrTimeout)
				require.Equal(t, time.Minute, time.Since(start))
				for range 200 {
					_ = limit.SetConfig(timeout.Config{Limit: time.Duration(i+1) * time.Hour})
					_, err := timeout.Do(t.Context(), limit, func(context.Context) (int, error) { return 0, nil })
					require.NoError(t, err)
				}
			})
		}
		synctest.Wait()
		require.NoError(t, limit.SetConfig(timeout.Config{Limit: time.Second}))
		_, err := timeout.Do(t.Context(), limit, lasting(returnsErr))
		require.ErrorIs(t, err, timeout.ErrTimeout)
		require.Equal(t, time.Second, time.Since(start))
		all.Wait()
		require.Equal(t, "succeeded=1600 failed=0 timed_out=9", limit.Stats().String())
	})
}
