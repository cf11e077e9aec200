package server

import (
	"cmp"
	"errors"
	"net/http"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/reject"
)

// A Rejection is the response to a request that is not served. It is also an error: a function that a plugin calls with a request,
// such as a Weight, can return it to choose the response. The zero value is a 503.
type Rejection struct { //nolint:errname // it is a response first, and can be returned as an error
	// Status is the status. If zero, it is 503.
	Status int
	// RetryAfter is how long the client should wait. It is sent in seconds, rounded up. If zero, it is what Err asks for
	// (core.RetryAfter). If Err asks for nothing, or RetryAfter is negative, none is sent.
	RetryAfter time.Duration
	// Type is a URI that names the kind of problem. If empty, it is "about:blank".
	Type string
	// Title is a short text about the kind of problem. If empty, it is the text of the status.
	Title string
	// Detail explains this rejection to people. It is sent unchanged, so it must not reveal internals. It can be empty.
	Detail string
	// Policies are the names of the limits that were exceeded, sent as violated-policies. It can be empty.
	Policies []string
	// Err is the reason, for hooks and logs, such as a *ratelimit.LimitedError. It is never sent. It can be nil.
	Err error
}

// Reject answers a request with a rejection: with problem details (RFC 9457), or with plain text if the client prefers that. A plugin
// without an OnRejected calls it. An OnRejected can change the rejection and call it too. If the body of the request was not read, the
// connection is closed, unless the rest of the body is small and has arrived.
//
// A breaker further out does not count the request. But if Err is set and does not match core.ErrRejected, the breaker judges the status,
// as it does for any handler. If an outer plugin has seen that the response has begun, Reject does nothing.
func Reject(w http.ResponseWriter, r *http.Request, rej Rejection) {
	if reject.Wrote(w) {
		return
	}
	if rej.Err == nil {
		rej.Err = core.ErrRejected
	}
	if errors.Is(rej.Err, core.ErrRejected) {
		reject.Announce(w, r, cmp.Or(rej.Status, http.StatusServiceUnavailable), func() error { return rej.Err })
	}
	details := reject.Details{Type: rej.Type, Title: rej.Title, Status: rej.Status, Detail: rej.Detail, Policies: rej.Policies}
	details.Body().Send(w, r, reject.Wait(rej.RetryAfter, rej.Err))
}

// Error returns the text of the status, the detail and Err.
func (r Rejection) Error() string {
	status := r.Status
	if status == 0 {
		status = http.StatusServiceUnavailable
	}
	text := "server: " + http.StatusText(status)
	if r.Detail != "" {
		text += ": " + r.Detail
	}
	if r.Err != nil {
		text += ": " + r.Err.Error()
	}
	return text
}

// Unwrap returns Err.
func (r Rejection) Unwrap() error { return r.Err }
