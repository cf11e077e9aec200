package retry_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/retry"
	"github.com/gresil/gresil/internal/eventtest"
	"github.com/gresil/gresil/internal/registry"
)

var (
	errBoom = errors.New("boom")
	errWeb  = errors.New("web")
)

const ms = time.Millisecond

// exactly is Kresil's default strategy: exact, without jitter.
func exactly() backoff.Strategy {
	return backoff.Exponential{Delay: 500 * ms, Max: time.Minute, Jitter: -1}
}

// observed returns a registry that calls f for each event of the policies in it, with its verdict.
func observed(f func(verdict string, e registry.Event)) *core.Registry {
	return eventtest.Registry(func(_ context.Context, e registry.Event) {
		f(map[string]string{
			"attempt failed, a retry follows": "again", "retry succeeded": "done", "retries exhausted": "exhausted",
			"error is not retried": "ignored", "retry suppressed": e.Attr("reason").String(),
		}[e.Text], e)
	})
}

// noted returns a registry that appends what happens, as in "again 1" or "done 2".
func noted(events *[]string) *core.Registry {
	return observed(func(verdict string, e registry.Event) {
		*events = append(*events, fmt.Sprintf("%s %d", verdict, e.Attr("retry").Int64()))
	})
}

// A script is an operation whose attempts end as listed; the last goes on for ever.
type script struct {
	ends  []error
	calls int
}

func (s *script) run(context.Context) (string, error) {
	s.calls++
	err := s.ends[min(s.calls, len(s.ends))-1]
	if err != nil {
		return "", err
	}
	return "fine", nil
}

// takes, deferred in a bubble, checks how long it took there: defer takes(t, d)().
func takes(t *testing.T, want time.Duration) func() {
	t.Helper()
	start := time.Now()
	return func() { require.Equal(t, want, time.Since(start)) }
}

// A rejection asks for a wait.
type rejection struct{ after time.Duration }

func (rejection) Error() string               { return "no" }
func (rejection) Is(target error) bool        { return target == core.ErrRejected }
func (r rejection) RetryAfter() time.Duration { return r.after }

// suppressed is one retry that was not made.
func suppressed(why retry.Verdict) (s [retry.OverBudget + 1]uint64) {
	s[why] = 1
	return s
}
