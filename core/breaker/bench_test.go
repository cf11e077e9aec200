package breaker_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
)

// A condition is a breaker, and the outcomes of its calls in turn.
type condition struct {
	cfg   breaker.Config
	calls []core.Outcome
	state breaker.State
}

func conditions() map[string]condition {
	success := []core.Outcome{core.Success}
	fails := append(make([]core.Outcome, 0, 50), core.Failure)
	for range 49 {
		fails = append(fails, core.Success)
	}
	return map[string]condition{
		"closed":       {breaker.Config{}, success, breaker.Closed},
		"one in fifty": {breaker.Config{}, fails, breaker.Closed},
		"time window":  {breaker.Config{WindowTime: time.Minute}, success, breaker.Closed},
		"slow calls":   {breaker.Config{SlowCall: time.Minute}, success, breaker.Closed},
		"open":         {breaker.Config{}, nil, breaker.ForcedOpen},
		"half-open":    {breaker.Config{Trials: 1000}, []core.Outcome{core.Ignored}, breaker.HalfOpen},
	}
}

func (c condition) calling(tb testing.TB) func() {
	tb.Helper()
	b, err := breaker.New(c.cfg)
	require.NoError(tb, err)
	require.NoError(tb, b.SetState(c.state))
	ctx, n := context.Background(), 0
	return func() {
		p, err := b.Acquire(ctx)
		if (err == nil) != (c.calls != nil) {
			tb.Fatal(err)
		}
		if err == nil {
			p.Done(c.calls[n%len(c.calls)])
			n++
		}
	}
}

func TestNoAllocations(t *testing.T) {
	for name, c := range conditions() {
		require.Zero(t, testing.AllocsPerRun(1000, c.calling(t)), name)
	}
	b, ctx := newBreaker(t, breaker.Config{}), t.Context()
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		_, _ = breaker.Do(ctx, b, func(context.Context) (*int, error) { return nil, nil })
	}))
	g := newGroup(t, breaker.Config{})
	require.Zero(t, testing.AllocsPerRun(1000, func() { g.For("a") }))
}

func BenchmarkAcquire(b *testing.B) {
	for _, name := range []string{"closed", "one in fifty", "time window", "slow calls", "open", "half-open"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			call := conditions()[name].calling(b)
			for b.Loop() {
				call()
			}
		})
	}
}

func BenchmarkFor(b *testing.B) {
	g := core.Must(breaker.NewGroup(breaker.Config{}))
	for i := range 1000 {
		g.For(fmt.Sprint(i))
	}
	b.ReportAllocs()
	for b.Loop() {
		g.For("500")
	}
}
