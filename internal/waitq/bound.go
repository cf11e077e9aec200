package waitq

import (
	"cmp"
	"context"
	"math"
	"time"
)

// Longest returns how long a call may wait by the MaxWait of a Config: if that is zero, 10
// seconds; if negative, without a limit.
func Longest(maxWait time.Duration) time.Duration {
	if maxWait < 0 {
		return math.MaxInt64
	}
	return cmp.Or(maxWait, 10*time.Second)
}

// Within is Longest for a call whose wait also ends with ctx, which can be that of [Begin].
func Within(ctx context.Context, maxWait time.Duration) time.Duration {
	most := Longest(maxWait)
	if b, ok := ctx.(*begun); ok && maxWait >= 0 {
		most -= time.Since(b.at)
	}
	if deadline, ok := ctx.Deadline(); ok {
		most = min(most, time.Until(deadline))
	}
	return most
}

// begun is a context for several waits that begin now.
type begun struct {
	context.Context //nolint:containedctx // it is one
	at              time.Time
}

// Begin returns a context for several waits of which MaxWait bounds the sum: for [Within], all of them begin now.
func Begin(ctx context.Context) context.Context { return &begun{ctx, time.Now()} }
