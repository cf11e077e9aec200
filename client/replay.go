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

// A Replay gives each attempt of one request a body, and closes the caller's body once. It is for plugins that send a request more than
// once, and for those that judge an attempt with [Classify]. Its methods must be called from one goroutine.
type Replay struct {
	req      *http.Request
	stream   *stream       // the body, if there is no GetBody
	fresh    io.ReadCloser // from GetBody, for the next attempt
	once     bool          // the body is sent only once
	attempts int
}

// NewReplay prepares a request. For another attempt, GetBody makes the body, which http.NewRequest sets for strings and bytes. Without
// GetBody, up to maxBuffer bytes are kept while they are sent; if maxBuffer is 0, a body can be sent again as long as nothing of it was
// read. A request with trailers is sent once.
//
// Even if nothing is kept, there is a price: net/http sees a reader of this package, so a file is copied to the socket without sendfile.
func NewReplay(req *http.Request, maxBuffer int64) *Replay {
	r := &Replay{req: req}
	if req.Body != nil { // the rest is separate, so that this function is inlined: TestReplay_Allocations
		r.keep(maxBuffer)
	}
	return r
}

//go:noinline
func (r *Replay) keep(maxBuffer int64) {
	r.once = len(r.req.Trailer) > 0 // the caller may fill it while the body is read
	if r.req.GetBody == nil && r.req.Body != http.NoBody {
		if r.req.ContentLength > maxBuffer {
			maxBuffer = 0 // keeping a part would be useless
		}
		r.stream = &stream{source: r.req.Body, limit: maxBuffer, pull: make(chan struct{}, 1)}
	}
}

// Ready returns the error that the next Attempt would return. If that is nil, Attempt does not fail, unless there is no GetBody and the
// previous attempt still reads the body.
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
		return fmt.Errorf("client: GetBody: %w", blame.Strip(err)) // the previous attempt is not to blame
	}
	if r.fresh = fresh; fresh == nil {
		r.fresh = http.NoBody
	}
	return nil
}

// Attempt returns the request of the next attempt, or ErrNotReplayable, or the error of GetBody. The first is the caller's own request, if
// possible; later ones are copies that can be changed.
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
	// If a Replay further out observes the body, it observes those of GetBody too.
	bare := sent == nil || sent == http.NoBody || observed(sent) != nil || small(sent, r.req.ContentLength)
	r.attempts++
	attempt := r.req
	// Comparing a struct panics if one of its fields holds a map, for example; to find out costs more than a copy of the request.
	is := reflect.TypeOf(ctx)
	canCompare := is.Kind() == reflect.Pointer || is.Size() == 0 && is.Comparable()
	switch {
	case r.attempts > 1:
		attempt = r.req.Clone(ctx)
		attempt.Body = sent
	case !bare || !canCompare || ctx != r.req.Context():
		attempt = r.req.WithContext(ctx)
	}
	if !bare {
		(&body{ReadCloser: sent, length: r.req.ContentLength}).send(attempt)
	}
	return attempt, nil
}

// Close ends the attempts; call it even after a panic. It closes the caller's body, unless a transport does that, which may still be
// sending the body after RoundTrip has returned. After a panic of a transport, close the body of its request as well.
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
