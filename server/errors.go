package server

import "net/http"

// A StatusError is an error that says how to answer the request that it is
// about. A function that a plugin asks something about a request, as what it
// weighs, returns one where the request is at fault.
type StatusError struct {
	Status int    // as in 411
	Detail string // for the client to read; may be empty
	Err    error  // for hooks, never sent; may be nil
}

// Error names the status and what is known of the cause.
func (e *StatusError) Error() string {
	text := "server: " + http.StatusText(e.Status)
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns Err.
func (e *StatusError) Unwrap() error { return e.Err }
