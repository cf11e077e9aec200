package ratelimit

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/reject"
	"github.com/gresil/gresil/server"
)

// The reasons for a 403.
var (
	errNoKey   = fmt.Errorf("ratelimit: the request has no key: %w", core.ErrRejected)
	errBlocked = fmt.Errorf("ratelimit: the request is blocked: %w", core.ErrRejected)
)

// Respond takes n permits for another key in a handler, such as the user name of a login. If they are refused, it answers the request as
// the plugin does, and returns false. The limit is that of Named, or Config.Limit. These keys are counted separately from those of
// requests. To give back the permits, pass take to the Refund method of the limiter. The fields of the response change only on a refusal.
// With Shadow, and while the store fails under Allow, it returns true.
func (s *Server) Respond(w http.ResponseWriter, r *http.Request, key string, n int64) (take Result, ok bool) {
	opts := s.options(r.Context())
	if opts.Disabled || opts.Allow != nil && opts.Allow(r) {
		return Result{Allowed: true}, true
	}
	c := []charge{{limit: s.root.limit, key: markRespond + cmp.Or(s.root.prefix, ":") + key, n: n}}
	_, ok = s.admit(w, r, opts, c)
	return c[0].result, ok
}

// refuse answers a request that a limit has refused.
func (o *ServerOptions) refuse(w http.ResponseWriter, r *http.Request, c *charge) {
	o.inform(w.Header(), []charge{*c}, 0)
	_, p := c.limit.prepared(&c.result)
	why := func() error {
		return &LimitedError{Name: c.limit.limiter.Name(), Limit: c.limit.under, Key: c.key, Result: c.result}
	}
	never := c.result.RetryAfter < 0
	if o.OnRejected == nil && !never { // like server.Reject, with a prepared body
		if reject.Announce(w, r, http.StatusTooManyRequests, why) {
			p.refusal.Send(w, r, c.result.RetryAfter)
		}
		return
	}
	rej := quotaExceeded(p.name)
	if rej.RetryAfter, rej.Err = c.result.RetryAfter, why(); never {
		rej.Status, rej.Type, rej.Title = http.StatusRequestEntityTooLarge, "", ""
		rej.Detail = "The request costs " + strconv.FormatInt(c.n, 10) + ", and the limit is " + strconv.FormatInt(c.result.Limit, 10) + "."
	}
	reject.With(w, r, rej, rej.RetryAfter, o.OnRejected, server.Reject)
}

// fail answers a request that fails for another reason than a limit, unless Shadow lets it pass.
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
	if !errors.Is(rej, core.ErrRejected) { // whatever the error: the handler is not called
		rej.Err = fmt.Errorf("ratelimit: %w: %w", core.ErrRejected, cmp.Or(rej.Err, err))
	}
	reject.With(w, r, rej, rej.RetryAfter, o.OnRejected, server.Reject)
	return false
}
