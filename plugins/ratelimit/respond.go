package ratelimit

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/recorder"
	"github.com/gresil/gresil/internal/reject"
	"github.com/gresil/gresil/internal/rejected"
	"github.com/gresil/gresil/server"
)

// The reasons for a 403.
var (
	errNoKey   = fmt.Errorf("ratelimit: the request has no key: %w", core.ErrRejected)
	errBlocked = fmt.Errorf("ratelimit: the request is blocked: %w", core.ErrRejected)
)

// Handler returns next with the limit around it. It fits Use and With of chi.
func (s *Server) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.passes(w, r) {
			next.ServeHTTP(w, r)
		}
	})
}

// passes reports whether a request goes on to the handler. If not, it is answered.
func (s *Server) passes(w http.ResponseWriter, r *http.Request) bool {
	opts := s.options(r.Context())
	switch {
	case opts.Disabled:
		return true
	case opts.Block != nil && opts.Block(r):
		return opts.fail(w, r, http.StatusForbidden, errBlocked)
	case opts.Allow != nil && opts.Allow(r):
		opts.limited(w.Header(), new([1]string), false)
		return true
	}
	var room [1]charge
	charges, err := s.charges(room[:0], r, opts)
	if err != nil {
		return opts.fail(w, r, http.StatusInternalServerError, err)
	}
	return s.admit(w, r, opts, charges)
}

// admit takes what a request takes, and sets the fields. If it is refused, it is answered.
func (s *Server) admit(w http.ResponseWriter, r *http.Request, opts *ServerOptions, charges []charge) bool {
	decides, err := opts.take(r.Context(), s.limiter, charges)
	if err != nil {
		return opts.fail(w, r, http.StatusServiceUnavailable, err)
	}
	c := &charges[decides]
	switch {
	case opts.Shadow || c.result.Limit <= 0: // the store has failed, and lets it pass
		return true
	case c.result.Allowed:
		opts.inform(w.Header(), charges, decides)
		return true
	}
	opts.inform(w.Header(), charges[decides:decides+1], 0)
	opts.refuse(w, r, c)
	return false
}

// Respond takes n permits of another key in a handler, such as the user name of a login. If they are refused, it answers the
// request as the plugin does, and returns false. The limit is that of Named, or Config.Limit. Keys are counted apart from those
// of requests. Refund of the limiter gives take back. The fields of the response change only if it is refused. While the store fails
// with Allow, and with Shadow, it returns true.
func (s *Server) Respond(w http.ResponseWriter, r *http.Request, key string, n int64) (take Result, ok bool) {
	opts := s.options(r.Context())
	if opts.Disabled || opts.Allow != nil && opts.Allow(r) {
		return Result{Allowed: true}, true
	}
	c := []charge{{limit: s.root.limit, key: markRespond + cmp.Or(s.root.prefix, ":") + key, n: n}}
	if _, err := opts.take(r.Context(), s.limiter, c); err != nil {
		return Result{}, opts.fail(w, r, http.StatusServiceUnavailable, err)
	}
	if take = c[0].result; take.Allowed || take.Limit <= 0 || opts.Shadow {
		return take, true
	}
	opts.inform(w.Header(), c, 0)
	opts.refuse(w, r, &c[0])
	return take, false
}

// refuse answers a request that a limit has refused. Its fields are set.
func (o *ServerOptions) refuse(w http.ResponseWriter, r *http.Request, c *charge) {
	p := c.limit.prepared().policy(&c.result)
	why := func() error {
		return &LimitedError{Name: c.limit.limiter.Name(), Limit: c.limit.under, Key: c.key, Result: c.result}
	}
	never := c.result.RetryAfter < 0
	if o.OnRejected == nil && !never { // as server.Reject, with a body that is prepared
		if recorder.Mark(w, why) {
			if n := rejected.Of(r.Context()); n != nil {
				n.Tell(why(), http.StatusTooManyRequests)
			}
			p.refusal.Send(w, r, c.result.RetryAfter)
		}
		return
	}
	q := quotaExceeded(p.name)
	rej := server.Rejection{Status: q.Status, Type: q.Type, Title: q.Title, Detail: q.Detail, Policies: q.Policies, RetryAfter: c.result.RetryAfter, Err: why()}
	if never {
		rej.Status, rej.Type, rej.Title = http.StatusRequestEntityTooLarge, "", ""
		rej.Detail = "The request costs " + strconv.FormatInt(c.n, 10) + ", and the limit is " + strconv.FormatInt(c.result.Limit, 10) + "."
	}
	o.reject(w, r, rej)
}

// fail answers a request that is not decided by a limit, unless Shadow lets it pass.
func (o *ServerOptions) fail(w http.ResponseWriter, r *http.Request, status int, err error) (passes bool) {
	if o.Shadow {
		return true
	}
	if errors.Is(err, core.ErrConfig) {
		status = http.StatusInternalServerError
	}
	rej, ok := errors.AsType[server.Rejection](err)
	if !ok || rej.Status != 0 && (rej.Status < 400 || rej.Status > 599) {
		rej = server.Rejection{Status: status, RetryAfter: -1, Err: err}
	}
	recorder.MarkRejected(w, err) // whatever the error: the handler is not called
	o.reject(w, r, rej)
	return false
}

// reject answers a request that is not served.
func (o *ServerOptions) reject(w http.ResponseWriter, r *http.Request, rej server.Rejection) {
	reject.With(w, r, rej, rej.RetryAfter, o.OnRejected, server.Reject)
}
