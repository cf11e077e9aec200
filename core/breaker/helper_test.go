package breaker_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/breaker"
)

var errDown = errors.New("operation failed")

func minute() backoff.Strategy { return backoff.Constant{Delay: time.Minute} }

func newBreaker(t *testing.T, cfg breaker.Config) *breaker.Breaker {
	t.Helper()
	b, err := breaker.New(cfg)
	require.NoError(t, err)
	return b
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

// run makes calls: S succeeds, F fails, I is ignored, s and f are slow (2s), R must be rejected. The time of a minute passes at a
// dash, a second at a dot, and at O, C, H, M, D, X the state is set by hand.
func run(t *testing.T, b *breaker.Breaker, calls string) {
	t.Helper()
	hand := map[rune]breaker.State{'O': breaker.Open, 'C': breaker.Closed, 'H': breaker.HalfOpen, 'M': breaker.MetricsOnly, 'D': breaker.Disabled, 'X': breaker.ForcedOpen}
	for i, c := range calls {
		switch c {
		case ' ':
		case '-':
			time.Sleep(time.Minute)
		case '.':
			time.Sleep(time.Second)
		case 'R':
			_, err := b.Acquire(t.Context())
			require.ErrorIs(t, err, breaker.ErrOpen, "call %d of %s", i+1, calls)
			require.ErrorIs(t, err, core.ErrRejected)
		case 'O', 'C', 'H', 'M', 'D', 'X':
			require.NoError(t, b.SetState(hand[c]))
		default:
			p, err := b.Acquire(t.Context())
			require.NoError(t, err, "call %d of %s", i+1, calls)
			if c > 'a' {
				time.Sleep(2 * time.Second)
				c -= 'a' - 'A'
			}
			p.Done(outcomeOf(c))
		}
	}
}

// A journal writes down changes of state.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) changed(_ context.Context, c breaker.StateChange) {
	j.mu.Lock()
	defer j.mu.Unlock()
	line := fmt.Sprintf("%v > %v: %s", c.From, c.To, c.Reason)
	if c.OpenFor > 0 {
		line += fmt.Sprintf(", for %v", c.OpenFor)
	}
	j.lines = append(j.lines, line)
}

// take returns what was written since the last time.
func (j *journal) take() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	lines := j.lines
	j.lines = nil
	return lines
}
