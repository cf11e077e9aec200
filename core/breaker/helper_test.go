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
	"github.com/gresil/gresil/internal/eventtest"
	"github.com/gresil/gresil/internal/registry"
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

// changes returns a registry that writes down changes of state and resets.
func (j *journal) changes() *core.Registry { return eventtest.Registry(j.change) }

// calls returns a registry that writes down calls and rejections.
func (j *journal) calls() *core.Registry { return eventtest.Registry(j.call) }

// all returns a registry that writes down both.
func (j *journal) all() *core.Registry {
	return eventtest.Registry(func(ctx context.Context, e registry.Event) {
		j.change(ctx, e)
		j.call(ctx, e)
	})
}

func (j *journal) change(_ context.Context, e registry.Event) {
	switch e.Text {
	case "circuit breaker changed its state":
		s := fmt.Sprintf("%v>%v", e.Attr("from"), e.Attr("to"))
		if e.Attr("reason").String() == "set by hand" {
			s += " manual"
		}
		if n := e.Attr("opened").Int64(); n > 0 {
			s += fmt.Sprintf(" n=%d", n)
		}
		if e.Attr("to").String() == "open" {
			s += fmt.Sprintf(" for %v", e.Attr("open_for"))
		}
		j.add("%s", s)
	case "circuit breaker was reset":
		j.add("reset")
	}
}

func (j *journal) call(_ context.Context, e registry.Event) {
	switch e.Text {
	case "circuit breaker recorded a call":
		j.add("%v %v", e.Attr("outcome"), e.Attr("failure_rate"))
	case "circuit breaker rejected a call":
		j.add("rejected %v", e.Attr("state"))
	}
}

// listened returns a registry that calls f for each event of this text.
func listened(text string, f func(e registry.Event)) *core.Registry {
	return eventtest.Registry(func(_ context.Context, e registry.Event) {
		if e.Text == text {
			f(e)
		}
	})
}

const (
	changedText  = "circuit breaker changed its state"
	recordedText = "circuit breaker recorded a call"
	rejectedText = "circuit breaker rejected a call"
	exceededText = "circuit breaker would have opened"
)

func lines(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, "; ")
}

const second = time.Second
