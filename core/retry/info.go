package retry

import (
	"context"
	"fmt"
	"time"
)

// Info describes a retry for the operation ([FromContext]), Config.Delay and the hooks.
type Info struct {
	// Retry is the number of the retry, from 1. It is 0 before any retry.
	Retry int
	// Err is the error of the attempt before this retry; in the hooks for the end
	// of a call, of the last attempt.
	Err error
	// Result is the result of that same attempt, if it came without an error.
	Result any
	// Delay is the wait before this retry, or 0. In Suppressed it is the wait that was
	// too long, or that was canceled.
	Delay time.Duration
	// Source is the source of Delay.
	Source Source
	// Elapsed is the time since the call began. It is measured for a policy that
	// has a hook, an observer, a Delay function or a MaxElapsed, and 0 for others.
	Elapsed time.Duration
	// Verdict is the decision after the attempt.
	Verdict Verdict
}

// Source is the source of a wait.
type Source uint8

const (
	// FromBackoff is a wait by Config.Backoff or Config.Delay.
	FromBackoff Source = iota
	// FromRetryAfter is the wait of the failed attempt's error, if it is longer than
	// the one by Config.Backoff or Config.Delay.
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

// FromContext returns the Info of the attempt that runs under ctx, of the innermost of
// nested retries. On a first attempt, and outside of any retry, it is the zero Info: its
// Retry is 0.
func FromContext(ctx context.Context) Info {
	if info, _ := ctx.Value(infoKey{}).(*Info); info != nil {
		return *info
	}
	return Info{}
}
