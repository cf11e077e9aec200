package timeout

import (
	"context"
	"math"
	"net/http"

	"github.com/gresil/gresil/internal/deadline"
	"github.com/gresil/gresil/internal/override"
	"github.com/gresil/gresil/internal/reject"
	"github.com/gresil/gresil/server"
)

// ServerOptions say how a [Server] limits handlers. The zero value sets a deadline in the context of the request.
type ServerOptions struct {
	// Disabled runs all handlers without a limit.
	Disabled bool
	// Cut answers at the limit even if the handler still runs. It uses http.TimeoutHandler, which buffers the response: a handler cannot
	// stream, and its informational responses (1xx) are not sent. An answer at the limit to a request with a body closes the connection of
	// HTTP/1. Put the plugin around the whole router: chi reuses its routing context when ServeHTTP returns. Override cannot change it.
	Cut bool
	// OnRejected answers a request that exceeded its limit. rej.Err is an *Error. If nil, it is server.Reject.
	OnRejected func(w http.ResponseWriter, r *http.Request, rej server.Rejection)
}

// A Server limits the time of handlers. It is safe for concurrent use. It is a server.Plugin.
type Server struct {
	timeout *mechanism
	opts    ServerOptions
}

// NewServer makes a plugin. If limit is nil, it makes one of the zero Config.
func NewServer(limit *Timeout, opts ServerOptions) *Server {
	return &Server{timeout: mechanismOf(limit), opts: opts}
}

// Handler returns next with the limit around it. It fits Use and With of chi, unless Cut is set.
func (s *Server) Handler(next http.Handler) http.Handler {
	limited := next
	if s.opts.Cut {
		limited = http.TimeoutHandler(buffered(next), math.MaxInt64, cutText) // the limit is in the context
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		opts := override.Apply(r.Context(), s, &s.opts)
		if opts.Disabled {
			next.ServeHTTP(w, r)
			return
		}
		x := serving{server: s, limit: s.timeout.Limit(r.Context()), w: w, r: r, reject: opts.OnRejected}
		if s.opts.Cut {
			x.cut(limited) //nolint:contextcheck // it takes that of r
		} else {
			x.serve(next) //nolint:contextcheck // likewise
		}
	})
}

// Override returns a context under which f changes the options of this plugin, for an outer middleware. Overrides nest; the
// innermost is applied last.
func (s *Server) Override(ctx context.Context, f func(*ServerOptions)) context.Context {
	return override.Context(ctx, s, f)
}

// Phase returns server.Handling.
func (s *Server) Phase() server.Phase { return server.Handling }

// String returns the type and the name of the timeout, as in "timeout.Server(default)".
func (s *Server) String() string { return "timeout.Server(" + s.timeout.Life().Name() + ")" }

// A serving is one request.
type serving struct {
	server *Server
	limit  *deadline.Limit
	w      http.ResponseWriter
	r      *http.Request
	reject func(http.ResponseWriter, *http.Request, server.Rejection)
	ctx    context.Context //nolint:containedctx // of the handler
	err    error           // of the handler; nil if there was a response
}

// serve runs the handler. If it returns late and has not answered, serve answers the request.
func (x *serving) serve(next http.Handler) {
	var rec reject.Recorder
	w := rec.Wrap(x.w)
	x.run(next, w, func() {
		if x.err = nil; rec.Wrote() {
			return
		}
		if x.err = x.ctx.Err(); x.limit.Struck(x.r.Context(), x.ctx) {
			x.answer()
		}
	})
}

// run runs a handler under the limit, calls f, and counts the request.
func (x *serving) run(h http.Handler, w http.ResponseWriter, f func()) {
	var cancel context.CancelFunc
	x.ctx, cancel = x.limit.Context(x.r.Context())
	defer cancel()
	x.err = errPanic
	defer func() { _ = x.server.timeout.Count(x.r.Context(), x.ctx, x.limit, x.err) }() // also after a panic
	h.ServeHTTP(w, x.r.WithContext(x.ctx))
	f()
}

// answer answers a request that exceeded its limit. The handler was called, so the error does not match core.ErrRejected.
func (x *serving) answer() {
	reject.With(x.w, x.r, server.Rejection{
		Status: http.StatusServiceUnavailable, RetryAfter: -1, Detail: "The request took too long.", Err: context.Cause(x.ctx),
	}, -1, x.reject, server.Reject)
}
