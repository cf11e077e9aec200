package breaker_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/core/timeout"
)

// secondError is a cause of the user's own, which says its limit.
type secondError struct{}

func (secondError) Error() string            { return "the job took too long" }
func (secondError) Timeout() bool            { return true }
func (secondError) TimeLimit() time.Duration { return time.Second }

// unknownError is one that does not.
type unknownError struct{ secondError }

func (unknownError) TimeLimit() {}

func hang(ctx context.Context) (int, error) {
	<-ctx.Done()
	return 0, context.Cause(ctx)
}

func TestAnOuterLimitIsAFailureIfTheOperationHadHalfOfItsTime(t *testing.T) {
	t.Parallel()
	const outer, own = time.Second, 300 * time.Millisecond
	for name, c := range map[string]struct {
		cause error
		own   time.Duration // of a timeout inside of the breaker
		left  time.Duration
		want  core.Outcome
	}{
		"half of the outer":                     {&timeout.Error{Limit: outer}, 0, outer / 2, core.Failure},
		"half of the user's own":                {secondError{}, 0, outer / 2, core.Failure},
		"less than half of the user's own":      {secondError{}, 0, outer/2 - 1, core.Ignored},
		"half of its own":                       {&timeout.Error{Limit: outer}, own, own / 2, core.Failure},
		"half of its own, outer not known":      {unknownError{}, own, own / 2, core.Failure},
		"outer not known":                       {unknownError{}, 0, 1, core.Failure},
		"a deadline without a cause":            {nil, 0, outer, core.Ignored},
	} {
		for which, cfg := range map[string]breaker.Config{
			"zero":   {},
			"custom": {Classify: func(ctx context.Context, v any, err error) core.Outcome { return breaker.DefaultClassify(ctx, v, err) }},
		} {
			synctest.Test(t, func(t *testing.T) {
				b := core.Must(breaker.New(cfg))
				ctx, cancel := context.WithTimeoutCause(t.Context(), outer, c.cause)
				defer cancel()
				time.Sleep(outer - c.left) // other work
				operation := hang
				if c.own != 0 {
					limit := core.Must(timeout.New(timeout.Config{Limit: c.own}))
					operation = func(ctx context.Context) (int, error) { return timeout.Do(ctx, limit, hang) }
				}
				_, err := breaker.Do(ctx, b, operation)
				require.Equal(t, context.Cause(ctx), err, "the caller gets what came")
				s := b.Stats()
				require.Equal(t, c.want == core.Failure, s.Failures == 1, "%s: %s", name, which)
				require.Equal(t, c.want == core.Ignored, s.Ignored == 1, "%s: %s", name, which)
			})
		}
	}
}

func TestOtherErrorsUnderAnOuterLimitAreFailures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := core.Must(breaker.New(breaker.Config{}))
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, secondError{})
		defer cancel()
		time.Sleep(time.Second - 1)
		_, err := breaker.Do(ctx, b, func(context.Context) (int, error) { return 0, errors.New("down") })
		require.Error(t, err)
		require.EqualValues(t, 1, b.Stats().Failures, "it came in time")
	})
}
