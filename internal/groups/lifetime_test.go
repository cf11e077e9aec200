package groups_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/internal/groups"
	"github.com/gresil/gresil/internal/registry"
)

// The context for new work ends with that of Run, and the other one Grace later. Close ends both when it no longer waits.
func TestLifetime(t *testing.T) {
	t.Parallel()
	const second = time.Second
	closed, running, cause := errors.New("closed"), errors.New("running"), errors.New("no patience")
	for name, c := range map[string]struct {
		runs, rest        bool
		grace             time.Duration // negative: none is given
		canceled          time.Duration // the context of Run; 0: never
		closes            time.Duration // 0: never
		stopping, working time.Duration // ends of the contexts of work, or 0
	}{
		"canceled":              {runs: true, grace: 3 * second, canceled: second, stopping: second, working: 4 * second},
		"canceled, no grace":    {runs: true, canceled: second, stopping: second, working: second},
		"closed":                {runs: true, grace: 3 * second, closes: second, stopping: 11 * second, working: 11 * second},
		"canceled, then closed": {runs: true, grace: -1, canceled: second, closes: 2 * second, stopping: second, working: 12 * second},
		"canceled, then rest":   {runs: true, rest: true, grace: 3 * second, canceled: second, closes: 2 * second, stopping: 12 * second, working: 12 * second},
		"closed without Run":    {rest: true, closes: second, stopping: 11 * second, working: 11 * second},
		"nothing":               {closes: second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var l groups.Lifetime
				l.Init(closed, running, &registry.Listeners{})
				begin, stopping, working := time.Now(), time.Duration(0), time.Duration(0)
				work := func(a, b context.Context) {
					<-a.Done()
					stopping = time.Since(begin)
					<-b.Done()
					working = time.Since(begin)
				}
				var rest func(a, b context.Context)
				if c.rest {
					rest = work
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if c.runs {
					grace := func() time.Duration { return c.grace }
					if c.grace < 0 {
						grace = nil
					}
					go func() { require.NoError(t, l.Run(ctx, grace, work)) }()
					synctest.Wait()
					require.Equal(t, running, l.Run(ctx, nil, work))
				}
				if c.canceled > 0 {
					time.AfterFunc(c.canceled, cancel)
				}
				if c.closes > 0 {
					time.Sleep(c.closes)
					patient, stop := context.WithTimeoutCause(t.Context(), 10*second, cause)
					defer stop()
					if err := l.Close(patient, rest); c.runs || c.rest {
						require.Equal(t, cause, err)
					} else {
						require.NoError(t, err)
					}
					require.True(t, l.Closed())
					require.Equal(t, closed, l.Run(ctx, nil, work))
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				require.Equal(t, []time.Duration{c.stopping, c.working}, []time.Duration{stopping, working})
			})
		})
	}
}

// An error after the end of its context is none of the engine. The next one is, and so is the end of the outage.
func TestEngineIs(t *testing.T) {
	t.Parallel()
	var l groups.Lifetime
	listeners := &registry.Listeners{}
	l.Init(nil, nil, listeners)
	var seen []string
	listeners.Add(false, func(_ context.Context, e registry.Event) { seen = append(seen, e.Text) })
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	l.EngineIs(ended, context.Canceled)
	l.EngineIs(t.Context(), nil)
	require.Empty(t, seen)
	l.EngineIs(t.Context(), errors.New("out of reach"))
	l.EngineIs(ended, nil)
	require.Equal(t, []string{"engine failed", "engine has recovered"}, seen)
}
