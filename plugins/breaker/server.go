package breaker

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/internal/override"
	"github.com/gresil/gresil/internal/registry"
	"github.com/gresil/gresil/internal/reject"
	"github.com/gresil/gresil/server"
)

// ServerOptions say how a [Server] applies its breakers to requests. With the zero value, there is one breaker for all requests.
type ServerOptions struct {
	// Disabled sends all requests past the breakers: they are neither rejected nor counted.
	Disabled bool
	// Key returns the key of the breaker for a request, such as server.Pattern. A request without a key passes. If nil, there is one breaker
	// for all requests.
	Key server.Key
	// Classify returns the outcome of a request by its status, which is 0 for a connection that was taken over. It is called once, before the
	// header is sent. A handler that panics counts as a failure; a request that an inner plugin has rejected is ignored. If nil, it is
	// server.Classify.
	Classify func(r *http.Request, status int) core.Outcome
	// OnRejected answers a request that is rejected. Retry-After is set. rej.Err is an *OpenError. If nil, it is server.Reject,
	// which is also called if OnRejected writes nothing.
	OnRejected func(w http.ResponseWriter, r *http.Request, rej server.Rejection)
}

// A Server rejects requests while the breaker of their key is open. It is safe for concurrent use. It is a server.Plugin.
type Server struct {
	group *Group
	opts  ServerOptions
}

// NewServer makes a plugin. If group is nil, it makes one of the zero Config.
func NewServer(group *Group, opts ServerOptions) *Server {
	return &Server{bound(group, false), opts}
}

// bound returns group, or a new one, and notes whether keys are hosts.
func bound(group *Group, hosts bool) *Group {
	if group == nil {
		group = core.Must(NewGroup(Config{}))
	}
	registry.BindKeys(group, hosts)
	return group
}

// Override returns a context under which f changes the options of this plugin, for an outer middleware. Overrides nest; the
// innermost is applied last.
func (s *Server) Override(ctx context.Context, f func(*ServerOptions)) context.Context {
	return override.Context(ctx, s, f)
}

// Phase returns the phase just inside of server.Admission, so that a request that waits there does not occupy a trial.
func (s *Server) Phase() server.Phase { return server.Admission + 10 }

// String returns the type and the name of the group, as in "breaker.Server(default)".
func (s *Server) String() string { return "breaker.Server(" + s.group.Name() + ")" }

// Handler returns next with the breakers around it. It fits Use and With of chi. If a request passes the same breaker twice, at a router
// and at a route in it, only the outer handler counts it. It is counted twice if a writer between them has no Unwrap, such as that of a
// http.TimeoutHandler; with a single trial, it is then rejected while half-open. A timeout.Server with Cut has no such effect.
func (s *Server) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		opts := override.Apply(r.Context(), s, &s.opts)
		key, ok := "", !opts.Disabled
		if ok && opts.Key != nil {
			key, ok = opts.Key(r)
		}
		var b *breaker.Breaker
		if ok {
			b = s.group.For(key)
		}
		if !ok || reject.Observed(r.Context(), w, func(o any) bool { x, ok := o.(*exchange); return ok && x.breaker == b }) {
			next.ServeHTTP(w, r)
			return
		}
		permit, err := b.Acquire(r.Context())
		if err != nil {
			reject.With(w, r, server.Rejection{Err: err}, 0, opts.OnRejected, server.Reject)
			return
		}
		x := &exchange{opts: opts, request: r, breaker: b, permit: permit}
		x.serve(next, w)
	})
}

// An exchange is one request. It is judged once.
type exchange struct {
	opts    *ServerOptions
	request *http.Request
	sent    reject.Recorder
	breaker *breaker.Breaker
	permit  breaker.Permit
	upload  upload
	judged  bool
}

func (x *exchange) serve(next http.Handler, w http.ResponseWriter) {
	w = x.sent.Wrap(w)
	x.sent.Observe(x)
	outcome, returned := core.Ignored, false
	defer func() {
		if returned {
			return
		}
		panicked := recover()                                    // nil after a Goexit
		if panicked != nil && panicked != http.ErrAbortHandler { //nolint:errorlint // net/http compares it so
			outcome = core.Failure
		}
		x.permit.Done(outcome) // it does nothing after the header
		if panicked != nil {
			panic(panicked)
		}
	}()
	if r := x.request; r.Body != nil && r.Body != http.NoBody {
		x.upload.ReadCloser, x.upload.ctx = r.Body, r.Context()
		r.Body = &x.upload
	}
	next.ServeHTTP(w, x.request)
	if !x.judged {
		x.OnHeader(x.sent.Status())
	}
	returned = true
}

// OnHeader ends the permit at the final header: the handler of a stream might return hours later, and would occupy a trial until then.
func (x *exchange) OnHeader(status int) {
	x.judged = true
	outcome, classify := core.Ignored, x.opts.Classify
	if classify == nil {
		classify = server.Classify
	}
	if x.sent.Rejected() == nil { // otherwise an inner plugin has rejected it: no call was made
		outcome = classify(x.request, status)
	}
	if outcome == core.Failure && x.upload.blamed(status) {
		outcome = core.Ignored
	}
	x.permit.Done(outcome)
}

// An upload is the body of a request to a handler. The handler can pass it to a transport, which reads it in another goroutine.
type upload struct {
	io.ReadCloser
	ctx context.Context //nolint:containedctx // of the request

	mu     sync.Mutex
	since  time.Time     // when the present Read began; zero if there is none
	waited time.Duration // in earlier Reads
	stuck  bool          // it was closed while a Read ran
	closed bool
	failed bool // a Read has failed, or the time was up while one waited
}

// slow is a bound for the time that Reads have waited for the client: above it, a timeout during a Read does not count against the handler.
const slow = 100 * time.Millisecond

func (u *upload) Read(p []byte) (int, error) {
	late := u.ctx.Err() != nil
	u.update(func() { u.since = time.Now() })
	n, err := u.ReadCloser.Read(p)
	u.update(func() {
		u.stop()
		struck := u.ctx.Err() != nil && u.waited >= slow
		u.failed = u.failed || !late && (struck || err != nil && err != io.EOF)
	})
	return n, err
}

// update calls f unless the handler has closed the body.
func (u *upload) update(f func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.closed {
		f()
	}
}

// stop ends the measurement of the present Read, and reports whether there is one.
func (u *upload) stop() (runs bool) {
	if runs = !u.since.IsZero(); runs {
		u.waited += time.Since(u.since)
		u.since = time.Time{}
	}
	return runs
}

// Close ends the present Read, and notes whether there was one.
func (u *upload) Close() error {
	u.update(func() { u.stuck, u.closed = u.stop(), true })
	return u.ReadCloser.Close()
}

// blamed reports whether a failure can be the fault of the client: its body could not be read, or the time was up, here or in an inner
// proxy, while a Read waited for the body.
func (u *upload) blamed(status int) bool {
	if u.ReadCloser == nil {
		return false
	}
	u.update(func() {
		if u.stuck = u.stop(); u.stuck {
			u.since = time.Now() // the Read continues
		}
	})
	u.mu.Lock()
	defer u.mu.Unlock()
	limited := u.ctx.Err() != nil || status >= http.StatusBadGateway && status <= http.StatusGatewayTimeout
	return u.failed || limited && u.stuck && u.waited >= slow
}
