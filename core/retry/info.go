package retry

import (
	"context"
	"fmt"
	"time"
)

// Info tells of a retry: to the operation ([FromContext]), to Config.Delay and
// to the hooks.
type Info struct {
	// Retry is the number of the retry, from 1. It is 0 when only the first
	// attempt is made.
	Retry int
	// Err is the error of the attempt before this retry; in the hooks for the end
	// of a call, of the last attempt.
	Err error
	// Result is the result of that same attempt, if it came without an error.
	Result any
	// Delay is the wait before this retry. In Suppressed it is the wait that there
	// was no time for, or that was canceled. It is 0 where there is none.
	Delay time.Duration
	// Source tells where Delay comes from.
	Source Source
	// Elapsed is the time since the call began. It is measured for a policy that
	// has a hook, an observer, a Delay function or a MaxElapsed, and 0 for others.
	Elapsed time.Duration
	// Verdict is what follows the attempt.
	Verdict Verdict
}

// Source tells where a wait comes from.
type Source uint8

const (
	// FromBackoff is a wait by Config.Backoff or Config.Delay.
	FromBackoff Source = iota
	// FromRetryAfter is a wait that the failed attempt asked for, and that is
	// longer than the one by Config.Backoff or Config.Delay.
	FromRetryAfter
)

// String returns "backoff" or "retry_after".
func (s Source) String() string {
	switch s {
	case FromBackoff:
		return "backoff"
	case FromRetryAfter:
		return "retry_after"
	}
	return fmt.Sprintf("Source(%d)", uint8(s))
}

// MarshalText returns the same text as String.
func (s Source) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

type infoKey struct{}

// FromContext tells the operation which attempt it is. With retries inside
// retries the innermost one speaks. On a first attempt, and outside of any
// retry, it returns the zero Info: its Retry is 0.
func FromContext(ctx context.Context) Info {
	if info, _ := ctx.Value(infoKey{}).(*Info); info != nil {
		return *info
	}
	return Info{}
}
