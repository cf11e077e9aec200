package logs_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/retry"
	"github.com/gresil/gresil/logs"
)

// Of one text and instance there is a warning in a minute, with the number of what it stands for.
func TestWarningsAreSampled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := &core.Registry{}
		p, other := core.Must(retry.New(retry.Config{Name: "p", Registry: registry})), core.Must(retry.New(retry.Config{Name: "q", Registry: registry}))
		b, a := newBook(t, registry, slog.LevelWarn, logs.Config{})
		refuse := func(p *retry.Policy) { require.Error(t, p.SetConfig(retry.Config{MaxAttempts: -1})) }
		warning := func(name, count string) string {
			return `level=WARN msg="config refused, the old one is kept" kind=retry name=` + name +
				` err="retry.Config.MaxAttempts = -1: must be >= 0 (0 means 3)" count=` + count
		}
		for range 30 {
			refuse(p)
			time.Sleep(time.Second)
		}
		refuse(other)
		require.Equal(t, []string{warning("p", "1"), warning("q", "1")}, b.read(), "each instance warns for itself")
		time.Sleep(30*time.Second - 1)
		refuse(p)
		require.Empty(t, b.read())
		time.Sleep(time.Nanosecond)
		refuse(p)
		require.Equal(t, []string{warning("p", "31")}, b.read(), "those that were not logged are counted")
		refuse(p)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		require.NoError(t, a.Run(ctx))
		require.Equal(t, []string{warning("p", "1")}, b.read())
		refuse(p)
		require.Equal(t, []string{warning("p", "1")}, b.read())
	})
}
