package server

import "net/http"

// A StatusError is an error with the status of the response to a request. Functions
// that a plugin calls with a request, such as a Weight, return it for a bad request.
type StatusError struct {
	Status int    // as in 411
	Detail string // for the client to read; may be empty
	Err    error  // for hooks, never sent; may be nil
}

// Error has the text of the status, the detail and the cause.
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
