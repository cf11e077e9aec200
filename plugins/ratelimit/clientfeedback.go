package ratelimit

import (
	"net/http"
	"time"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/internal/header"
)

// DefaultFeedback returns the wait of [client.RetryAfter], or 0. It is the Feedback of a
// [ClientConfig] that has none, where a limit of a part cannot hold a whole host: with a Key
// of the user's own for all responses, otherwise for those that are a limit by themselves.
//
// It does not know which resource or partition (pk) a field is about: the Key must distinguish
// these. The result is the wait of the server, which can be a century: MaxHold of the
// ClientConfig limits it.
func DefaultFeedback(resp *http.Response, _ time.Time) time.Duration {
	wait, _ := client.RetryAfter(resp)
	return wait
}

// throttled reports whether a server sends such a response to hold its clients back.
func throttled(resp *http.Response) bool {
	return resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusServiceUnavailable
}

// asksToWait reports whether resp has a Retry-After that asks for a wait, which counts with any
// status from 400 on.
func asksToWait(resp *http.Response) bool {
	if resp.StatusCode < http.StatusBadRequest {
		return false
	}
	_, told := client.RetryAfter(&http.Response{StatusCode: resp.StatusCode, Header: header.OnlyRetryAfter(resp.Header)})
	return told
}
