package breaker

import (
	"net/http"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/internal/blame"
	"github.com/gresil/gresil/internal/nested"
	"github.com/gresil/gresil/internal/recorder"
	"github.com/gresil/gresil/internal/reject"
	"github.com/gresil/gresil/server"
)

// Handler returns next with the breaker around it. It fits chi's Use and With. A request
// that passes several handlers of one Server, as of a router and of a router mounted in it,
// is counted by the outermost with the same breaker. A request that a handler makes itself,
// with another ResponseWriter, is counted separately.
func (s *Server) Handler(next http.Handler) http.Handler {
	s.handlers.Add(1)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		current := s.life.Load()
		call := s.overridden(r.Context(), ServerCall{Classify: current.Settings})
		if call.Disabled {
			next.ServeHTTP(w, r)
			return
		}
		b := s.breaker(&current.Config, call.Key, r)
		key := exchangeKey{b}
		if nested.Pass(recorder.Value(w, key) != nil, s.handlers.Load() > 1, key, w, r, next) { // an outer handler counts it with b
			return
		}
		permit, err := b.Acquire(r.Context())
		if err != nil {
			reject.With(w, r, server.Rejection{Err: err}, 0, current.Config.OnRejected, server.Reject)
			return
		}
		if call.Classify == nil {
			call.Classify = current.Settings
		}
		x := &exchange{server: s, breaker: b, call: call, request: r, permit: permit}
		if _, bounded := r.Context().Deadline(); bounded {
			x.started = time.Now() // only an outer limit needs it
		}
		serve(x, next, w) //nolint:contextcheck // it is that of the request
	})
}

func (s *Server) breaker(cfg *ServerConfig, key string, r *http.Request) *Breaker {
	switch {
	case s.one != nil:
		return s.one
	case key != "":
		return s.group.Get(key)
	}
	of, ok := cfg.Key(r)
	if !ok {
		of = ""
	}
	return s.group.Get(of)
}

func serve(x *exchange, next http.Handler, w http.ResponseWriter) {
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
	upload := x.request.Body != nil && x.request.Body != http.NoBody
	if upload || x.server.handlers.Load() > 1 {
		visit := nested.Enter(x, x.request)
		defer visit.Leave(x.request)
		x.request = visit.Request() // a mux sets the Pattern on it, for Classify
	}
	if upload {
		x.upload = &uploadBody{ReadCloser: x.request.Body, ctx: x.request.Context(), length: x.request.ContentLength}
		x.request.Body = x.upload
	}
	next.ServeHTTP(w, x.request)
	if !x.judged {
		x.OnHeader(0)
	}
	returned = true
}

// An exchange is one request. It is judged once.
type exchange struct {
	server  *Server
	breaker *Breaker
	call    ServerCall // with a Classify
	request *http.Request
	sent    recorder.Recorder
	permit  breaker.Permit
	started time.Time   // zero without a deadline
	upload  *uploadBody // nil without a body
	judged  bool
}

// OnHeader ends the permit at the final header: the handler of a stream might return hours
// later, and a trial would keep its slot as long.
func (x *exchange) OnHeader(int) {
	outcome := core.Ignored
	if status := x.sent.Status(); x.sent.Rejected() == nil { // otherwise an inner plugin rejected it: no call was made
		outcome = x.call.Classify(x.request, status)
		if outcome == core.Failure && x.excused(status) {
			outcome = core.Ignored
		}
	}
	x.judged = true
	done(&x.permit, outcome, 0, 0)
}

// excused reports whether the client is at fault for a failure: see ServerConfig.Classify.
func (x *exchange) excused(status int) bool {
	ctx, upload := x.request.Context(), x.upload
	if err := ctx.Err(); err != nil {
		return upload != nil && (upload.broken() || upload.slow(0)) ||
			breaker.DefaultClassify(ctx, nil, blame.Outer(ctx, x.started, 0, err)) != core.Failure
	}
	gateway := status >= http.StatusBadGateway && status <= http.StatusGatewayTimeout
	return upload != nil && (upload.broken() || gateway && upload.slow(100*time.Millisecond))
}

// An exchangeKey finds the exchange of a breaker.
type exchangeKey struct{ breaker *Breaker }

// Value finds the exchange, for [recorder.Value].
func (x *exchange) Value(key any) any {
	if k, ok := key.(exchangeKey); ok && k.breaker == x.breaker {
		return x
	}
	return nil
}

// InContext is Value, for inner handlers of the same Server.
func (x *exchange) InContext(key any) any { return x.Value(key) }

// String is the text of the context of the request.
func (x *exchange) String() string { return x.server.String() }
