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
	"github.com/gresil/gresil/internal/eventtest"
	"github.com/gresil/gresil/internal/registry"
)

var (
	errBoom = errors.New("boom")
	errWeb  = errors.New("web")
)

const ms = time.Millisecond

// exactly is Kresil's default strategy: exact, without jitter.
func exactly() backoff.Strategy { return backoff.Exponential{Jitter: -1} }

// noted returns a registry that appends the events of the policies in it, as in "again 1" or "done 2".
func noted(events *[]string) *core.Registry {
	return eventtest.Registry(func(_ context.Context, e registry.Event) {
		what := map[string]string{
			"attempt failed, a retry follows": "again", "retry succeeded": "done", "retries exhausted": "exhausted",
			"error is not retried": "ignored", "retry suppressed": e.Attr("reason").String(),
		}[e.Text]
		*events = append(*events, fmt.Sprintf("%s %d", what, e.Attr("retry").Int64()))
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

// asks is an ordinary error that asks for a wait.
type asks time.Duration

func (asks) Error() string               { return "busy" }
func (a asks) RetryAfter() time.Duration { return time.Duration(a) }

// A list is an error that == cannot compare.
type list []string

func (l list) Error() string { return l[0] }
