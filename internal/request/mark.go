package request

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/gresil/gresil/core"
)

// DrainTime is the time to read a response that is discarded, by default.
const DrainTime = 500 * time.Millisecond

// HasIdempotencyKey reports whether req has an Idempotency-Key or X-Idempotency-Key header,
// also without a value.
func HasIdempotencyKey(req *http.Request) bool {
	_, ok := req.Header["Idempotency-Key"]
	_, x := req.Header["X-Idempotency-Key"]
	return ok || x
}

// A mark is in the context of the request of a rejection, and refers to that request:
// a context derived from it has the mark as well.
type mark struct {
	req *http.Request
	err error
}

type markKey struct{}

// Mark returns a copy of req that is marked with err.
func Mark(req *http.Request, err error) *http.Request {
	m := &mark{err: err}
	m.req = req.WithContext(context.WithValue(req.Context(), markKey{}, m))
	return m.req
}

// Marked returns the error that req is marked with, or nil. A request that was made of a
// marked one does not inherit the mark.
func Marked(req *http.Request) error {
	if m := markOf(req); m != nil {
		return m.err
	}
	return nil
}

// Rejected reports whether resp or err is that of a rejection by an inner plugin, so that no
// call was made.
func Rejected(resp *http.Response, err error) bool {
	return errors.Is(err, core.ErrRejected) || resp != nil && resp.Request != nil && Marked(resp.Request) != nil
}

func markOf(req *http.Request) *mark {
	if m, _ := req.Context().Value(markKey{}).(*mark); m != nil && m.req == req {
		return m
	}
	return nil
}

// WithContext returns req with another context, which must have the values of its own
// one. A mark moves to the result.
func WithContext(req *http.Request, ctx context.Context) *http.Request { //nolint:revive // as in net/http, the request comes first
	moved := req.WithContext(ctx)
	if m := markOf(req); m != nil {
		m.req = moved
	}
	return moved
}

// Restore makes the request of resp the caller's again, as a plain transport returns it,
// if it is the one that was sent instead.
func Restore(resp *http.Response, sent, caller *http.Request) {
	if resp != nil && resp.Request == sent {
		resp.Request = caller
	}
}
