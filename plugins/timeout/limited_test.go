package timeout

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Between the two steps of expire, somebody else finds that the limit has struck.
func TestLiftEndsWhatIsAboutToExpire(t *testing.T) {
	t.Parallel()
	var l limited
	cause := &Error{Name: "api", Limit: time.Hour}
	l.start(t.Context(), cause, time.Now())
	l.state.Store(struck)
	require.NoError(t, l.Err())
	require.False(t, l.lift())
	require.Equal(t, context.DeadlineExceeded, l.Err())
	require.Equal(t, error(cause), context.Cause(&l))
	require.False(t, l.expire(nil), "once")
}

func TestLiftedLimitDoesNotStrike(t *testing.T) {
	t.Parallel()
	var l limited
	l.start(t.Context(), &Error{Limit: time.Hour}, time.Now())
	require.True(t, l.lift())
	require.False(t, l.expire(nil))
	require.True(t, l.lift())
	require.NoError(t, l.Err())
	l.release()
	require.Equal(t, context.Canceled, l.Err())
}
