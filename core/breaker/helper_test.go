package breaker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
)

var errOp = errors.New("operation failed")

func newBreaker(t *testing.T, cfg breaker.Config) *breaker.Breaker {
	t.Helper()
	b, err := breaker.New(cfg)
	require.NoError(t, err)
	return b
}

// run makes one call for each letter: S succeeds, F fails, I is ignored. Every one
// must be admitted.
func run(t *testing.T, b *breaker.Breaker, outcomes string) {
	t.Helper()
	for i, c := range outcomes {
		p, err := b.Acquire(t.Context())
		require.NoError(t, err, "call %d of %s", i+1, outcomes)
		p.Done(outcomeOf(c))
	}
}

func outcomeOf(c rune) core.Outcome {
	switch c {
	case 'S':
		return core.Success
	case 'F':
		return core.Failure
	}
	return core.Ignored
}

func acquire(t *testing.T, b *breaker.Breaker) breaker.Permit {
	t.Helper()
	p, err := b.Acquire(t.Context())
	require.NoError(t, err)
	return p
}

// rejected requires that a call is not admitted and returns how.
func rejected(t *testing.T, b *breaker.Breaker) *breaker.OpenError {
	t.Helper()
	_, err := b.Acquire(t.Context())
	require.ErrorIs(t, err, breaker.ErrOpen)
	require.ErrorIs(t, err, core.ErrRejected)
	open, ok := errors.AsType[*breaker.OpenError](err)
	require.True(t, ok)
	return open
}

func refused(t *testing.T, b *breaker.Breaker) {
	t.Helper()
	_ = rejected(t, b)
}

// A journal writes down what the hooks are told.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) add(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, fmt.Sprintf(format, args...))
}

// take returns what was written since the last time.
func (j *journal) take() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	lines := j.lines
	j.lines = nil
	return lines
}

// changes are hooks that write down changes of state and resets.
func (j *journal) changes() breaker.Hooks {
	return breaker.Hooks{
		StateChanged: func(_ context.Context, i breaker.Info) {
			s := fmt.Sprintf("%v>%v", i.From, i.State)
			if i.Manual {
				s += " manual"
			}
			if i.Opened > 0 {
				s += fmt.Sprintf(" n=%d", i.Opened)
			}
			if i.State == breaker.Open {
				s += fmt.Sprintf(" for %v", i.OpenFor)
			}
			j.add("%s", s)
		},
		Reset: func(context.Context, breaker.Info) { j.add("reset") },
	}
}

// calls are hooks that write down calls, and rejections.
func (j *journal) calls() breaker.Hooks {
	return breaker.Hooks{
		Recorded: func(_ context.Context, i breaker.Info) { j.add("%v %v", i.Outcome, i.FailureRate) },
		Rejected: func(_ context.Context, i breaker.Info) { j.add("rejected %v", i.State) },
	}
}

func lines(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, "; ")
}

const second = time.Second
