package ratelimit

import "time"

// Info is the argument of OnRejected and OnSuccess.
type Info struct {
	Name   string        // of the limiter
	Key    string        // a copy; it might be a secret
	Cost   int64         // as requested
	Result Result        // of the store; zero when it failed
	Waited time.Duration // how long the request did
	Err    error         // why it was not decided
}
