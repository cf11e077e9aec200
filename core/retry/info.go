package retry

import (
	"context"
	"time"
)

// Info describes a retry for the operation ([FromContext]), and Config.Delay.
type Info struct {
	// Retry is the number of the retry, from 1. It is 0 before any retry.
	Retry int
	// Err is the error of the attempt before this retry.
	Err error
	// Result is the result of that same attempt, if it came without an error.
	Result any
	// Delay is the wait before this retry, or 0.
	Delay time.Duration
	// FromRetryAfter reports whether Delay is the wait of the failed attempt's error,
	// which is longer than that of Config.Backoff or Config.Delay.
	FromRetryAfter bool
	// Elapsed is the time since the call began. It is measured for a policy that
	// has a Delay function or a MaxElapsed, and 0 for others.
	Elapsed time.Duration
	// Verdict is the decision after the attempt.
	Verdict Verdict
}

// A Retry describes a retry that is about to be made.
type Retry struct {
	Name    string        // of the policy
	Attempt int           // the number of the next attempt, from 2
	Wait    time.Duration // before it
	Err     error         // of the last attempt
	Result  any           // of the last attempt, if that is retried, such as an *http.Response
}

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
