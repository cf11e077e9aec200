package logs_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/cooldown"
	"github.com/gresil/gresil/core/ratelimit"
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
		require.Equal(t, `level=INFO msg="calls are made again" kind=cooldown name=vendor held_until=2000-01-01T00:00:01.000Z`, lines[1])
		lines = all.read()
		require.Contains(t, lines, `level=DEBUG msg="call was held back" kind=cooldown name=vendor key=k waited=1s`)
		require.Contains(t, lines, `level=DEBUG msg="call rejected, since the key is held" kind=cooldown name=vendor key=k waited=0s`)
	})
}
