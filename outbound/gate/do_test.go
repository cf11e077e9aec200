package gate_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/blame"
	"github.com/gresil/gresil/outbound/gate"
)

// What other mechanisms reject was not sent: it is no answer of the vendor, and uses no slot.
func TestRejectionsHoldNothing(t *testing.T) {
	t.Parallel()
	for name, rejection := range map[string]error{
		"breaker":    &breaker.OpenError{Name: "b"},
		"limiter":    &ratelimit.LimitedError{Name: "l", Result: ratelimit.Result{RetryAfter: time.Minute}},
		"other gate": &gate.LimitedError{Gate: "other", Until: time.Now().Add(time.Hour)},
		"full":       gate.ErrFull,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, gate.Config{Limits: perSecond(1)}, func(t tester, g *gate.Gate) {
				require.ErrorIs(t, rejection, core.ErrRejected)
				start, n := time.Now(), 0
				for range 3 {
					err := g.Do(t.Context(), gate.Call{}, func(context.Context) error { n++; return rejection })
					require.Same(t, rejection, err)
				}
				require.Equal(t, 3, n)
				require.Empty(t, g.Holds())
				require.Zero(t, g.Stats().Sent)
				require.Zero(t, time.Since(start))
				repeated := func(context.Context) error { return &blame.Error{Err: rejection, Sent: true} } // after an attempt that was made
				require.ErrorIs(t, g.Do(t.Context(), gate.Call{}, repeated), rejection)
				require.EqualValues(t, 1, g.Stats().Sent)
				require.Empty(t, g.Holds())
			})
		})
	}
}

// The context of an attempt is that of the caller, and ends with the call.
func TestContextOfAttempt(t *testing.T) {
	t.Parallel()
	type key struct{}
	cause := errors.New("the caller has left")
	bubble(t, gate.Config{}, func(t tester, g *gate.Gate) {
		ctx, cancel := context.WithCancelCause(context.WithValue(t.Context(), key{}, "value"))
		var seen []context.Context
		require.NoError(t, g.Do(ctx, gate.Call{}, func(ctx context.Context) error {
			seen = append(seen, ctx)
			require.Equal(t, "value", ctx.Value(key{}))
			return ctx.Err()
		}))
		require.ErrorIs(t, seen[0].Err(), context.Canceled)
		require.ErrorIs(t, g.Do(ctx, gate.Call{}, func(ctx context.Context) error {
			cancel(cause)
			return context.Cause(ctx)
		}), cause)
		require.ErrorIs(t, do(ctx, g, gate.Call{}, 0), cause)
	})
}

// A refusal is learned though the caller has left meanwhile.
func TestRefusalAfterCancel(t *testing.T) {
	t.Parallel()
	bubble(t, gate.Config{}, func(t tester, g *gate.Gate) {
		ctx, cancel := context.WithCancel(t.Context())
		require.ErrorIs(t, g.Do(ctx, gate.Call{}, func(context.Context) error { cancel(); return refusal{time.Minute} }), context.Canceled)
		require.Len(t, g.Holds(), 1)
		require.EqualValues(t, 1, g.Stats().Limited)
		ctx, cancel = context.WithCancel(t.Context())
		require.NoError(t, g.Resume(ctx, "", ""))
		require.ErrorIs(t, g.Do(ctx, gate.Call{}, func(context.Context) error { cancel(); return ctx.Err() }), context.Canceled)
		require.Empty(t, g.Holds())
	})
}
