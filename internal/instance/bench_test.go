package instance_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/core/bulkhead"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/core/retry"
	"github.com/gresil/gresil/internal/registry"
)

// Events of single calls cost nothing unless there is a listener for them, as there is none in production.
//
//nolint:paralleltest // allocations are counted
func TestCallsWithoutListenersDoNotAllocate(t *testing.T) {
	ctx := t.Context()
	var r registry.Registry
	limiter := core.Must(ratelimit.New(ratelimit.Config{Registry: (*core.Registry)(&r), Limit: ratelimit.PerSecond(1 << 30)}))
	refusing := core.Must(ratelimit.New(ratelimit.Config{Name: "refusing", Registry: (*core.Registry)(&r), Limit: ratelimit.PerHour(1)}))
	hosts := core.Must(breaker.NewGroup(breaker.Config{Registry: (*core.Registry)(&r)}))
	bulk := core.Must(bulkhead.New(bulkhead.Config{Registry: (*core.Registry)(&r), Limit: 2}))
	policy := core.Must(retry.New(retry.Config{Registry: (*core.Registry)(&r)}))
	key := string([]byte("203.0.113.77"))
	calls := map[string]func(){
		"limiter, allowed": func() { _, _ = limiter.Take(ctx, key, 1) },
		"limiter, refused": func() { _, _ = refusing.Take(ctx, key, 1) },
		"breaker": func() {
			p, err := hosts.For(key).Acquire(ctx)
			if err == nil {
				p.Done(core.Success)
			}
		},
		"bulkhead": func() {
			p, err := bulk.Acquire(ctx, key, 1)
			if err == nil {
				p.Done(core.Success)
			}
		},
		"retry": func() { _, _ = retry.Do(ctx, policy, func(context.Context) (int, error) { return 1, nil }) },
	}
	for _, listened := range []bool{false, true} {
		if listened {
			for _, e := range r.Entries() {
				e.Source.Events(false, func(context.Context, registry.Event) {})
			}
		}
		for name, call := range calls {
			require.Zero(t, testing.AllocsPerRun(1000, call), "%s, with a listener of changes: %t", name, listened)
		}
	}
}
