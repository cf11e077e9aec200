package logs_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/cooldown"
	"github.com/gresil/gresil/core/event"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/core/retry"
	"github.com/gresil/gresil/logs"
)

func TestStoreFailuresThatWereNotLoggedAreToldOfLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := &core.Registry{}
		store := brokenStore{core.Must(ratelimit.NewMemory(0))}
		l := core.Must(ratelimit.New(ratelimit.Config{Name: "l", Registry: registry, Store: store}))
		b, a := newBook(t, registry, slog.LevelInfo, logs.Config{Keys: true})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- a.Run(ctx) }()
		failing := func(times int) {
			for range times {
				_, _ = l.Take(t.Context(), "k", 1)
			}
		}
		line := func(count string) {
			t.Helper()
			text := b.read()
			require.Len(t, text, 1)
			require.Contains(t, text[0], `level=WARN msg="limit store failed" kind=ratelimit name=l key=k err=`)
			require.Contains(t, text[0], count)
		}
		failing(10)
		line("count=1")
		time.Sleep(2 * time.Minute)
		line("count=9")
		failing(3)
		line("count=1")
		cancel()
		require.NoError(t, <-ended)
		require.NoError(t, a.Close())
		line("count=2")
	})
}

func TestAHandlerThatPanicsLosesNoWarning(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := &core.Registry{}
		one, two := core.Must(event.New[int](1)), core.Must(event.New[int](1))
		p := core.Must(retry.New(retry.Config{
			Name: "api", Registry: registry, Backoff: backoff.None{},
			Hooks: retry.Hooks{Exhausted: func(context.Context, retry.Info) { panic("hook") }},
		}))
		require.NoError(t, registry.Add("event", "one", one))
		require.NoError(t, registry.Add("event", "two", two))
		_, _ = retry.Do(t.Context(), p, fail)
		for range 3 {
			one.Add(1)
			two.Add(1)
		}
		b, broken := new(book), true
		a := core.Must(logs.New(registry, slog.New(nosy{b.logger(slog.LevelInfo).Handler(), func() {
			if broken {
				panic("handler")
			}
		}}), logs.Config{}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.NoError(t, a.Run(ctx))
		require.Nil(t, b.read())
		broken = false
		require.NoError(t, a.Close())
		require.ElementsMatch(t, []string{
			`level=WARN msg="hooks panicked" kind=retry name=api count=1`,
			`level=WARN msg="events dropped" kind=event name=one count=2`,
			`level=WARN msg="events dropped" kind=event name=two count=2`,
		}, b.read())
	})
}

func TestTagsAreInAGroupAndFollowTheRegistry(t *testing.T) {
	t.Parallel()
	registry := &core.Registry{}
	p := core.Must(retry.New(retry.Config{Name: "x", Registry: registry, MaxAttempts: 1}))
	b, _ := newBook(t, registry, slog.LevelDebug, logs.Config{Calls: true})
	call := func() []string {
		_, _ = retry.Do(t.Context(), p, fail)
		return dropElapsed(b.read())
	}
	const before, after = `level=DEBUG msg="retries exhausted" kind=retry name=x `, `retry=0 elapsed=0s err=down`
	require.NoError(t, registry.Tag("", "", map[string]string{"level": "high", "err": "none"}))
	require.Equal(t, []string{before + "tags.err=none tags.level=high " + after}, call())
	require.NoError(t, registry.Tag("", "", nil))
	require.Equal(t, []string{before + after}, call())
}

func TestReplaceByTheSameInstanceRepeatsNoWarning(t *testing.T) {
	t.Parallel()
	registry := &core.Registry{}
	p := core.Must(retry.New(retry.Config{
		Name: "api", Registry: registry, Backoff: backoff.None{},
		Hooks: retry.Hooks{Exhausted: func(context.Context, retry.Info) { panic("hook") }},
	}))
	b, a := newBook(t, registry, slog.LevelInfo, logs.Config{})
	_, _ = retry.Do(t.Context(), p, fail)
	_, err := registry.Replace("retry", "api", p)
	require.NoError(t, err)
	_, err = registry.Replace("retry", "api", p)
	require.NoError(t, err)
	require.NoError(t, a.Close())
	const replaced = `level=INFO msg="instance replaced" kind=retry name=api`
	require.Equal(t, []string{replaced, replaced, `level=WARN msg="hooks panicked" kind=retry name=api count=1`}, b.read())

	b, _ = newBook(t, registry, slog.LevelInfo, logs.Config{})
	other := core.Must(retry.New(retry.Config{MaxAttempts: 1}))
	_, err = registry.Replace("retry", "api", other)
	require.NoError(t, err)
	require.Equal(t, []string{`level=WARN msg="hooks panicked" kind=retry name=api count=1`, replaced}, b.read(), "another one is let go with a last look")
}

func TestRunLogsNothingAfterClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := &core.Registry{}
		b, a := newBook(t, registry, slog.LevelInfo, logs.Config{})
		ended := make(chan error)
		go func() { ended <- a.Run(t.Context()) }()
		synctest.Wait()
		require.NoError(t, a.Close())
		registry.Subscribe(func(core.RegistryEvent) { panic("subscriber") })
		require.NoError(t, registry.Add("fake", "f", new(fake)))
		require.NoError(t, <-ended, "and it ends")
		time.Sleep(time.Hour)
		require.NoError(t, a.Run(t.Context()))
		require.Nil(t, b.read())
	})
}

// What is still to be looked at when the handler closes the adapter is not logged.
func TestTheHandlerMayClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := &core.Registry{}
		audit := core.Must(event.New[int](1))
		require.NoError(t, registry.Add("event", "audit", audit))
		var a *logs.Adapter
		b := new(book)
		a = core.Must(logs.New(registry, slog.New(nosy{b.logger(slog.LevelInfo).Handler(), func() {
			_ = a.Close()
			audit.Add(1)
			audit.Add(2)
		}}), logs.Config{}))
		registry.Subscribe(func(core.RegistryEvent) { panic("subscriber") })
		require.NoError(t, registry.Add("fake", "f", new(fake)))
		require.NoError(t, a.Run(t.Context()))
		require.Equal(t, []string{`level=WARN msg="subscribers panicked" kind=registry name=default count=1`}, b.read())
	})
}

func TestACooldownIsLogged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := &core.Registry{}
		c := core.Must(cooldown.New(cooldown.Config{Name: "vendor", Registry: registry}))
		few, _ := newBook(t, registry, slog.LevelDebug, logs.Config{})
		all, _ := newBook(t, registry, slog.LevelDebug, logs.Config{Calls: true, Keys: true})
		c.Hold(t.Context(), "k", time.Second)
		p, err := c.Acquire(t.Context(), "k")
		require.NoError(t, err)
		p.Done(core.Success)
		c.Hold(t.Context(), "k", time.Hour)
		_, err = c.Acquire(t.Context(), "k")
		require.Error(t, err)
		lines := few.read()
		require.Len(t, lines, 3)
		require.Regexp(t, `level=INFO msg="calls are held back" kind=cooldown name=vendor until=2000-01-01T00:00:01`, lines[0])
		require.Equal(t, `level=INFO msg="calls are made again" kind=cooldown name=vendor`, lines[1])
		lines = all.read()
		require.Contains(t, lines, `level=DEBUG msg="call was held back" kind=cooldown name=vendor key=k waited=1s`)
		require.Contains(t, lines, `level=DEBUG msg="call rejected, since the key is held" kind=cooldown name=vendor key=k waited=0s`)
	})
}
