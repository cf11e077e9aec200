package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"

	"github.com/gresil/gresil/internal/blame"
)

// ErrNotReplayable is the error of a request that cannot be sent again, because its body
// was read and is not available again.
var ErrNotReplayable = errors.New("client: request body cannot be sent again")

// A Replay gives every attempt at one request a body of its own, and closes the
// caller's body exactly once. It is for one RoundTrip: make one with
// [NewReplay], call Attempt for each attempt, and Close after the last one. Prepare checks
// before the decision on another attempt whether it can have a body.
//
// Each attempt sends the trailers that the caller sets in req.Trailer before the end of
// the body.
//
// A body comes from GetBody if the request has it; http.NewRequest sets it for strings
// and bytes. Otherwise the body is streamed, and can be sent again only until more than
// maxBuffer bytes of it were read: with maxBuffer 0, until anything was read. So an
// upload of any size that never got a connection is repeated without a copy in memory.
// The price is that net/http sees a reader of this package: a file is copied to the
// socket, without sendfile. The same applies to every body that is not in memory, since
// [Explain] observes how it is read.
//
// The methods are for one goroutine; transports may read the bodies in any goroutine,
// also those of several attempts at once.
type Replay struct {
	req      *http.Request
	stream   *stream    // a body without GetBody
	trailers *trailers  // nil if req has none
	current  *onceClose // the body of the newest attempt, if it must be closed
	fresh    io.ReadCloser
	prepared bool // fresh is the result of GetBody for the next attempt
	attempts int
}

// NewReplay prepares req, which is never changed. Up to maxBuffer bytes of a
// body without GetBody are kept while they are sent; zero, or a Content-Length
// above it, keeps nothing. Negative means that such a body will not be sent
// again at all.
func NewReplay(req *http.Request, maxBuffer int64) Replay {
	r := Replay{req: req}
	if req.Body != http.NoBody { // the rest apart, so that this function is inlined
		r.keep(maxBuffer)
	}
	return r
}

// keep prepares what later attempts need of a body.
func (r *Replay) keep(maxBuffer int64) {
	if r.req.Body == nil {
		return
	}
	if len(r.req.Trailer) > 0 {
		r.trailers = &trailers{req: r.req, declared: r.req.Trailer.Clone(), turn: make(chan struct{}, 1)}
	}
	if r.req.GetBody == nil && maxBuffer >= 0 {
		r.stream = newStream(r.req.Body, r.req.ContentLength, maxBuffer)
	}
}

// replayable reports whether another attempt can have a body.
func (r *Replay) replayable() bool {
	if r.stream != nil {
		return r.stream.whole()
	}
	return r.attempts == 0 || r.req.GetBody != nil || !hasBody(r.req)
}

// Prepare calls GetBody for the body of the next attempt, before it is certain that
// there will be one. The error is the one that Attempt would return. After nil, Attempt
// does not fail, unless the body is streamed and the attempt before goes on reading it.
func (r *Replay) Prepare() error {
	if !r.replayable() {
		return ErrNotReplayable
	}
	if r.prepared || r.stream != nil || r.attempts == 0 || !hasBody(r.req) {
		return nil
	}
	fresh, err := r.req.GetBody()
	if err != nil {
		return fmt.Errorf("client: GetBody: %w", blame.Strip(err)) // the attempt before is not to blame
	}
	r.fresh, r.prepared = fresh, true
	return nil
}

// Attempt returns a request for the next attempt. The first can be the caller's own:
// treat it as a RoundTripper does. Later ones are deep copies that may be changed. The
// error is [ErrNotReplayable], or wraps the one of GetBody.
func (r *Replay) Attempt(ctx context.Context) (*http.Request, error) {
	body, own := r.req.Body, true // the caller's own
	switch {
	case r.stream != nil:
		reader := r.stream.reader()
		if reader == nil {
			return nil, ErrNotReplayable
		}
		reader.watch.length = r.req.ContentLength
		body, own = reader, false
	case !hasBody(r.req):
	case r.attempts == 0 && watchOf(body) != nil: // an outer Replay guards it, and those of GetBody
	case r.attempts == 0:
		body, own = r.guard(body)
	default:
		if err := r.Prepare(); err != nil {
			return nil, err
		}
		body = r.fresh
		r.current, r.fresh, r.prepared = nil, nil, false
		if body != nil {
			body, _ = r.guard(body)
		}
	}
	r.attempts++
	attempt := r.req
	switch {
	case r.attempts > 1:
		attempt = r.again(ctx)
	case r.trailers != nil || !own || !reflect.TypeOf(ctx).Comparable() || ctx != r.req.Context():
		attempt = r.req.WithContext(ctx)
	default:
		return attempt, nil
	}
	attempt.Body = body
	if r.current != nil && attempt.GetBody != nil {
		attempt.GetBody = r.current.again(attempt.GetBody)
	}
	if r.trailers != nil {
		r.trailers.attach(attempt)
	}
	return attempt, nil
}

// again returns a deep copy of the request. Trailer is not copied: the attempt before
// may still be filling it.
func (r *Replay) again(ctx context.Context) *http.Request {
	if r.trailers == nil {
		return r.req.Clone(ctx)
	}
	bare := r.req.WithContext(ctx)
	bare.Trailer = nil
	return bare.Clone(ctx)
}

// Close says that there are no more attempts. It closes the caller's body,
// unless an attempt has it: that may still be writing it when its RoundTrip has
// returned, and closes it then. It also closes one that was prepared for nothing.
func (r *Replay) Close() { r.end(false) }

// Abort is Close for an attempt that ended in a panic, and so will not close
// its body.
func (r *Replay) Abort() { r.end(true) }

func (r *Replay) end(abort bool) {
	if r.fresh != nil {
		_ = r.fresh.Close() // it was not read
		r.fresh, r.prepared = nil, false
	}
	switch {
	case r.stream != nil:
		r.stream.end(abort)
	case r.attempts == 0:
		CloseBody(r.req)
	case abort && r.current != nil:
		_ = r.current.Close()
	}
}

func hasBody(req *http.Request) bool { return req.Body != nil && req.Body != http.NoBody }
