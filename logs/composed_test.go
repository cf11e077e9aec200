package logs_test

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/core/retry"
	"github.com/gresil/gresil/logs"
)

// A composed is built on mechanisms, as a plugin is.
type composed []any

func (c *composed) Mechanisms() []any { return *c }

func TestTheMechanismsOfAComposedInstanceHaveItsName(t *testing.T) {
	t.Parallel()
	registry := &core.Registry{}
	policy := core.Must(retry.New(retry.Config{MaxAttempts: 1}))
	db := core.Must(breaker.New(breaker.Config{}))
	plugin := &composed{policy, db}
	require.NoError(t, registry.Add("plugin", "api", plugin))
	b, _ := newBook(t, registry, slog.LevelDebug, logs.Config{Calls: true})
	_, _ = retry.Do(t.Context(), policy, fail)
	require.NoError(t, db.SetState(breaker.ForcedOpen))
	lines := b.read()
	require.Len(t, lines, 2)
	require.Contains(t, lines[0], `msg="retries exhausted" kind=plugin name=api`)
	require.Contains(t, lines[1], `msg="circuit breaker changed its state" kind=plugin name=api from=closed to=forced_open`)
	registry.Remove("plugin", "api", plugin)
	require.Equal(t, []string{`level=DEBUG msg="instance removed" kind=plugin name=api`}, b.read())
	_, _ = retry.Do(t.Context(), policy, fail)
	db.Reset()
	require.Empty(t, b.read())
}
