// Package blametest has a context for tests of package blame and its users.
package blametest

import (
	"context"
	"errors"
	"time"
)

// ErrLate is the cause of a context of [Late].
var ErrLate = errors.New("the caller has no time")

// Late returns a context whose deadline is reached, and whose timer ends it a millisecond later: a
// connection with the same deadline notices it first.
func Late(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(ctx)
	time.AfterFunc(time.Millisecond, func() { cancel(ErrLate) })
	return late{ctx, time.Now()}
}

type late struct {
	context.Context //nolint:containedctx // it is one

	deadline time.Time
}

func (c late) Deadline() (time.Time, bool) { return c.deadline, true }
