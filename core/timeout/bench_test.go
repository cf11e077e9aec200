package timeout_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/timeout"
)

// runs are operations under a limit, and the same by hand.
func runs(tb testing.TB) map[string]func() {
	tb.Helper()
	near, cancel := context.WithTimeout(tb.Context(), time.Minute)
	tb.Cleanup(cancel)
	ctx, answer := tb.Context(), func(context.Context) (int, error) { return 42, nil }
	do := func(ctx context.Context, d time.Duration) func() {
		limit := core.Must(timeout.New(timeout.Config{Limit: d}))
		return func() { _, _ = timeout.Do(ctx, limit, answer) }
	}
	return map[string]func(){
		"limit": do(ctx, time.Hour), "nearer deadline": do(near, time.Hour), "no limit": do(ctx, -1),
		"by hand": func() {
			ctx, cancel := context.WithTimeoutCause(ctx, time.Hour, errBoom)
			_, _ = answer(ctx)
			cancel()
		},
	}
}

func TestAllocations(t *testing.T) { //nolint:paralleltest // allocations are counted
	all := runs(t)
	require.Equal(t, testing.AllocsPerRun(1000, all["by hand"]), testing.AllocsPerRun(1000, all["limit"]), "the context alone")
	require.Zero(t, testing.AllocsPerRun(1000, all["nearer deadline"]))
	require.Zero(t, testing.AllocsPerRun(1000, all["no limit"]))
}

func BenchmarkDo(b *testing.B) {
	for _, name := range []string{"by hand", "limit", "nearer deadline"} {
		b.Run(name, func(b *testing.B) {
			run := runs(b)[name]
			b.ReportAllocs()
			for b.Loop() {
				run()
			}
		})
	}
}
