package breaker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/server"
)

// A Server rejects requests to a handler that keeps failing, with 503 and
// Retry-After. Any number of handlers may share it, and with it how they do.
type Server struct {
	one     *breaker.Breaker // or
	group   *breaker.Group   // when there is a Key
	mu      sync.Mutex       // of SetConfig
	current atomic.Pointer[serverRules]
}

// serverRules are a ServerConfig as it is used.
type serverRules struct {
	cfg      ServerConfig
	classify func(*http.Request, *server.Recorder) core.Outcome
}

// NewServer makes a plugin. It returns what [ServerConfig.Validate] finds, or the
// [*core.DuplicateError] of the registry.
func NewServer(cfg ServerConfig) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Server{}
	s.current.Store(&serverRules{cfg: cfg, classify: cfg.classify()})
	var err error
	if cfg.Key == nil {
		s.one, err = breaker.New(cfg.core())
	} else {
		s.group, err = breaker.NewGroup(cfg.core(), cfg.group())
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Name returns the name of the plugin.
func (s *Server) Name() string {
	if s.one != nil {
		return s.one.Name()
	}
	return s.group.Name()
}

// Phase is just inside [server.Admission]: a request that waits for its permits at a
// limiter must not hold the slot of a trial.
func (s *Server) Phase() server.Phase { return server.Admission + 10 }

// Config returns the ServerConfig that the plugin has, as it was given.
func (s *Server) Config() ServerConfig { return s.current.Load().cfg }

// SetConfig replaces the ServerConfig while the plugin is in use. Where the new one
// cannot be used, the old one stays. The breakers keep their states and counts, as
// SetConfig of core/breaker tells. Name, Registry and MaxKeys must not change, nor
// whether there is a Key; a Name or Registry that is zero stays what it is.
func (s *Server) SetConfig(cfg ServerConfig) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.Config()
	cfg.Name, cfg.Registry = cmp.Or(cfg.Name, was.Name), cmp.Or(cfg.Registry, was.Registry)
	err := cfg.Validate()
	if cfg.MaxKeys != was.MaxKeys {
		err = errors.Join(err, &core.ConfigError{Field: "breaker.ServerConfig.MaxKeys", Value: cfg.MaxKeys, Reason: fmt.Sprintf("must stay %d", was.MaxKeys)})
	}
	if (cfg.Key == nil) != (was.Key == nil) {
		err = errors.Join(err, &core.ConfigError{Field: "breaker.ServerConfig.Key", Value: cfg.Key != nil, Reason: fmt.Sprintf("must stay set: %v", was.Key != nil)})
	}
	if err != nil {
		return err
	}
	set := s.group.SetConfig
	if s.one != nil {
		set = s.one.SetConfig
	}
	if err := set(cfg.core()); err != nil {
		return relabel("breaker.ServerConfig.", err)
	}
	s.current.Store(&serverRules{cfg: cfg, classify: cfg.classify()})
	return nil
}

// For returns the breaker of a key, or nil if no request has used it yet. Requests
// without a key have the empty one. If there is no Key in the ServerConfig,
// there is only one breaker, whatever the key.
func (s *Server) For(key string) *Breaker {
	if s.one != nil {
		return s.one
	}
	return s.group.Lookup(key)
}

// Group returns all the breakers, or nil where there is no Key in the
// ServerConfig.
func (s *Server) Group() *breaker.Group { return s.group }

// Stats returns the counts so far.
func (s *Server) Stats() breaker.Stats {
	if s.one != nil {
		return s.one.Stats()
	}
	return s.group.Stats().Stats
}

// Observe adds hooks to those of the Config, until cancel is called.
func (s *Server) Observe(h Hooks) (cancel func()) {
	if s.one != nil {
		return s.one.Observe(h)
	}
	return s.group.Observe(h)
}

// Close takes the breaker out of its registry. The plugin goes on working. A
// second Close does nothing; the error is always nil.
func (s *Server) Close() error {
	if s.one != nil {
		return s.one.Close()
	}
	return s.group.Close()
}

// Handler returns next with the breaker around it. It fits chi's Use and With.
func (s *Server) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rules, call := s.current.Load(), overridden[ServerCall](r.Context(), overrideKey[Server]{s})
		if call.Disabled {
			next.ServeHTTP(w, r)
			return
		}
		permit, err := s.breaker(rules, call.Key, r).Acquire(r.Context())
		if err != nil {
			server.Reject(w, r, server.Rejection{Err: err})
			return
		}
		if call.Classify == nil {
			call.Classify = rules.classify
		}
		serve(&exchange{call: call, trip: rules.cfg.Trip, request: r, permit: permit}, next, w)
	})
}

func serve(x *exchange, next http.Handler, w http.ResponseWriter) {
	w = x.sent.Wrap(w)
	x.sent.OnHeader(x.judge)
	outcome, returned := core.Ignored, false
	defer func() {
		if returned {
			return
		}
		panicked := recover()                                    // nil after a Goexit
		if panicked != nil && panicked != http.ErrAbortHandler { //nolint:errorlint // net/http compares it so
			outcome = core.Failure
		}
		x.permit.Done(outcome) // which does nothing after the header
		if panicked != nil {
			panic(panicked)
		}
	}()
	next.ServeHTTP(w, x.request)
	if !x.judged {
		x.judge(0)
	}
	returned = true
}

// An exchange is one request. It is judged once.
type exchange struct {
	call    ServerCall // with a Classify
	trip    func(*http.Request, *server.Recorder) time.Duration
	request *http.Request
	sent    server.Recorder
	permit  breaker.Permit
	judged  bool
}

// judge gives the permit back: at the final header, since the handler of a stream
// may not return for hours, which would keep a slot of half-open as long.
func (x *exchange) judge(int) {
	trip, outcome := time.Duration(0), core.Failure
	rejected := x.sent.Rejected() != nil // further in: no call was made
	if x.trip != nil && !rejected {
		trip = x.trip(x.request, &x.sent)
	}
	if trip <= 0 && (rejected || x.call.Failed == nil || !x.call.Failed(x.request, &x.sent)) {
		outcome = x.call.Classify(x.request, &x.sent)
	}
	x.judged = true
	if trip > 0 {
		x.permit.Trip(trip)
	} else {
		x.permit.Done(outcome)
	}
}

func (s *Server) breaker(rules *serverRules, key string, r *http.Request) *breaker.Breaker {
	switch {
	case s.one != nil:
		return s.one
	case key != "":
		return s.group.Get(key)
	}
	of, _ := rules.cfg.Key(make([]byte, 0, 64), r)
	return s.group.Get(string(of))
}

// ServerCall is what one request to a [Server] may change.
type ServerCall struct {
	// Disabled sends the request past the breaker: it is neither rejected nor
	// counted.
	Disabled bool
	// Key is the key of the breaker to use. If empty, it is that of the request.
	// Where there is no Key in the ServerConfig there is only one breaker, and it
	// says nothing.
	Key string
	// Failed makes the request a failure where it returns true; where it does not,
	// Classify is asked. It is not asked for a request that a plugin further in
	// rejected. It must not write.
	Failed func(r *http.Request, sent *server.Recorder) bool
	// Classify tells how the request went. If nil, it is that of the ServerConfig.
	Classify func(r *http.Request, sent *server.Recorder) core.Outcome
}

// Override returns a context under which this plugin, and no other, treats a request
// as f says, for a middleware further out. Overrides nest: the innermost is applied
// last. A nil f changes nothing.
func (s *Server) Override(ctx context.Context, f func(*ServerCall)) context.Context {
	return override(ctx, overrideKey[Server]{s}, f)
}
