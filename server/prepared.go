package server

import (
	"net/http"
	"time"

	"github.com/gresil/gresil/internal/rejected"
)

// A Prepared is a [Rejection] whose body is prepared in each format, for a plugin that
// rejects many requests. It is safe for concurrent use.
type Prepared struct {
	status     int
	json, text []byte
}

// Prepare prepares a rejection. Its RetryAfter, Err and Unmarked do not count: see
// [Prepared.Reject].
func Prepare(rej Rejection) *Prepared {
	rej.complete()
	return &Prepared{status: rej.Status, json: rej.json(), text: rej.text()}
}

// Reject answers a request as the function [Reject] does, with a Retry-After of wait in
// seconds, rounded up and at least 1; if negative, there is none. The plugins around w
// see the error of err, which is not called if there are none.
func (p *Prepared) Reject(w http.ResponseWriter, r *http.Request, wait time.Duration, err func() error) {
	if wrote(w) {
		return
	}
	var why error
	for rec := range recorders(w) {
		if why == nil {
			why = err()
		}
		rec.rejected = why
	}
	if n := rejected.Of(r.Context()); n != nil {
		n.Err, n.Status = err(), p.status
	}
	switch begin(w, r, p.status, wait) {
	case asText:
		_, _ = w.Write(p.text)
	case asJSON:
		_, _ = w.Write(p.json)
	case noBody:
	}
}
