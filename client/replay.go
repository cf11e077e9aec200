package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"

	"github.com/gresil/gresil/internal/blame"
	"github.com/gresil/gresil/internal/roundtrip"
)

// ErrNotReplayable is the error of a request whose body cannot be sent again.
var ErrNotReplayable = errors.New("client: request body cannot be sent again")

// A Replay gives each attempt at one request a body, and closes the caller's body once. It is for plugins that send a request
// more than once, and for those that judge an attempt with [Classify]. Its methods are for one goroutine.
type Replay struct {
	req      *http.Request
	stream   *stream       // of a body without GetBody
	fresh    io.ReadCloser // of GetBody, for the next attempt
	once     bool          // it is sent once
	attempts int
}

// NewReplay prepares a request. A body is sent again by GetBody, which http.NewRequest sets for strings and bytes. Without it,
// up to maxBuffer bytes are kept while they are sent; with 0, a body can be sent again as long as nothing of it was read. A
// request with trailers is sent once.
//
// Keeping nothing has a price too: net/http sees a reader of this package, so a file is copied to the socket without sendfile.
func NewReplay(req *http.Request, maxBuffer int64) *Replay {
	r := &Replay{req: req}
	if req.Body != nil { // the rest apart, so that this function is inlined: TestReplay_Allocations
		r.keep(maxBuffer)
	}
	return r
}

//go:noinline
func (r *Replay) keep(maxBuffer int64) {
	r.once = len(r.req.Trailer) > 0 // the caller may fill it while the body is read
	if r.req.GetBody == nil && r.req.Body != http.NoBody {
		if r.req.ContentLength > maxBuffer {
			maxBuffer = 0 // a part would be useless
		}
		r.stream = &stream{source: r.req.Body, limit: maxBuffer, pull: make(chan struct{}, 1)}
	}
}

// Ready returns the error that the next Attempt would return. After nil, Attempt does not fail, unless there is no GetBody and
// the attempt before goes on reading the body.
func (r *Replay) Ready() error {
	switch {
	case r.attempts == 0 || r.fresh != nil || r.req.Body == nil || r.req.Body == http.NoBody:
		return nil
	case r.once:
		return ErrNotReplayable
	case r.stream != nil:
		return r.stream.use(nil)
	}
	fresh, err := r.req.GetBody()
	if err != nil {
		return fmt.Errorf("client: GetBody: %w", blame.Strip(err)) // the attempt before is not to blame
	}
	if r.fresh = fresh; fresh == nil {
		r.fresh = http.NoBody
	}
	return nil
}

// Attempt returns the request of the next attempt, or ErrNotReplayable, or the error of GetBody. The first is the caller's own
// if it can be; later ones are copies that can be changed.
func (r *Replay) Attempt(ctx context.Context) (*http.Request, error) {
	if err := r.Ready(); err != nil {
		return nil, err
	}
	sent := r.req.Body
	switch {
	case r.stream != nil:
		v := &view{stream: r.stream}
		if err := r.stream.use(v); err != nil {
			return nil, err
		}
		sent = v
	case r.fresh != nil:
		sent, r.fresh = r.fresh, nil
	}
	// A Replay further out observes its bodies, also those of GetBody.
	bare := sent == nil || sent == http.NoBody || observed(sent) != nil || small(sent, r.req.ContentLength)
	r.attempts++
	attempt := r.req
	switch {
	case r.attempts > 1:
		attempt = r.req.Clone(ctx)
		attempt.Body = sent
	case !bare || !reflect.TypeOf(ctx).Comparable() || ctx != r.req.Context():
		attempt = r.req.WithContext(ctx)
	}
	if !bare {
		(&body{ReadCloser: sent, length: r.req.ContentLength}).send(attempt)
	}
	return attempt, nil
}

// Close says that there is no further attempt, also after a panic. It closes the caller's body unless a transport does: the one
// that has it may still be sending it when its RoundTrip has returned. After a panic of a transport, close the body of its
// request as well.
func (r *Replay) Close() {
	if r.fresh != nil {
		_ = r.fresh.Close() // it was not read
		r.fresh = nil
	}
	switch {
	case r.stream != nil:
		r.stream.end()
	case r.attempts == 0:
		roundtrip.CloseBody(r.req)
	}
}
