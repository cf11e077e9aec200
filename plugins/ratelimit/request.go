package ratelimit

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/gresil/gresil/internal/override"
	"github.com/gresil/gresil/internal/routes"
	"github.com/gresil/gresil/internal/validate"
	"github.com/gresil/gresil/internal/waitq"
	"github.com/gresil/gresil/server"
)

// Handler returns next with the limit around it. It fits Use and With of chi.
func (s *Server) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.passes(w, r) {
			next.ServeHTTP(w, r)
		}
	})
}

// passes reports whether a request goes on to the handler. Otherwise it answers the request.
func (s *Server) passes(w http.ResponseWriter, r *http.Request) bool {
	opts := s.options(r.Context())
	switch {
	case opts.Disabled:
		return true
	case opts.Block != nil && opts.Block(r):
		return opts.fail(w, r, http.StatusForbidden, errBlocked)
	case opts.Allow != nil && opts.Allow(r):
		if !opts.NoXRateLimited && !opts.Shadow {
			w.Header().Set(rateLimited, "false")
		}
		return true
	}
	charges, err := s.charges(make([]charge, 0, 1), r, opts) // on the stack
	if err != nil {
		return opts.fail(w, r, http.StatusInternalServerError, err)
	}
	decides, ok := s.admit(w, r, opts, charges)
	if ok && !opts.Shadow && charges[decides].result.Limit > 0 {
		opts.inform(w.Header(), charges, decides)
	}
	return ok
}

// options returns the options for a request.
func (s *Server) options(ctx context.Context) *ServerOptions {
	if !s.overridden.Load() {
		return &s.opts
	}
	return override.Apply(ctx, s.shared, &s.opts)
}

// A charge is a number of permits that a request takes for one key, and the decision about them.
type charge struct {
	limit  *limit
	key    string
	n      int64
	result Result
	at     time.Time // from which the times of result count; only set with XRateLimit
}

// charges appends the charges of a request: usually that of one rule, and those of the layers.
func (s *Server) charges(all []charge, r *http.Request, opts *ServerOptions) ([]charge, error) {
	find := opts.Key
	if find == nil {
		find = server.ClientIP
	}
	key, ok := find(r)
	if !ok {
		return nil, server.Rejection{Status: http.StatusForbidden, RetryAfter: -1, Err: errNoKey}
	}
	first, more := s.root, []*rule(nil)
	if s.routes != nil {
		seen := routes.Seen{}
		if by := chi.RouteContext(r.Context()); by != nil {
			seen = routes.Seen{Path: by.RoutePath, Method: by.RouteMethod, Mounted: len(by.RoutePatterns) > 0}
		}
		first, more = s.routes.Find(r, seen)
	}
	most := int64(0)
	for _, u := range append([]*rule{first}, more...) {
		c := charge{limit: u.limit, key: key, n: 1}
		if u.prefix != "" || strings.HasPrefix(key, "#") {
			c.key = cmp.Or(u.prefix, markKey) + key
		}
		weight := u.weight
		if weight == nil {
			weight = opts.Weight
		}
		if weight != nil {
			n, err := weight(r)
			if err == nil && n < 0 {
				err = validate.Bad("ratelimit.ServerOptions.Weight", n, "must return >= 0 (0 takes nothing)")
			}
			if err != nil {
				return nil, err
			}
			c.n = n
		}
		if u.tiered && opts.Tier != nil {
			c.limit = s.limit(opts.Tier(r))
		}
		most = max(most, c.n)
		if same := slices.IndexFunc(all, func(other charge) bool { return other.key == c.key }); same >= 0 { // rules of one limit
			all[same].n = max(all[same].n, c.n)
		} else {
			all = append(all, c)
		}
	}
	for _, l := range s.layers {
		removed := l.limiter != s.limiter && s.limiter.Under(l.under) == s.limiter // its name, by SetConfig
		if key, ok := l.key(r); ok && !removed {
			all = append(all, charge{limit: l.limit, key: l.prefix + key, n: most})
		}
	}
	return all, nil
}

// admit takes all charges or none, and reports whether the request passes; otherwise it answers the request. decides is as in take. After an
// error, the deciding charge has no result.
func (s *Server) admit(w http.ResponseWriter, r *http.Request, opts *ServerOptions, charges []charge) (decides int, passes bool) {
	decides, err := opts.take(r.Context(), s.limiter, charges)
	c := &charges[decides]
	switch {
	case err != nil:
		c.result = Result{}
		return decides, opts.fail(w, r, http.StatusServiceUnavailable, err)
	case c.result.Allowed, c.result.Limit <= 0, opts.Shadow: // 0: the store has failed, and OnStoreError lets it pass
		return decides, true
	}
	opts.refuse(w, r, c)
	return decides, false
}

// take takes all charges or none, in their order, and returns which of them decides: the one that refuses, or the one with the
// fewest permits left. An error is never a refusal.
func (o *ServerOptions) take(ctx context.Context, limiter *Limiter, charges []charge) (decides int, err error) {
	waits := o.Wait && !o.Shadow
	if waits {
		ctx = waitq.Begin(ctx) // MaxWait limits all of them together
	}
	for i := range charges {
		c := &charges[i]
		if len(c.key) > 256 { // stores bound the number of keys, not their length
			sum := sha256.Sum256([]byte(c.key))
			c.key = markLong + hex.EncodeToString(sum[:])
		}
		if o.XRateLimit {
			c.at = time.Now() // a moment after the decision, the end of its hour would be rounded up to the next second
		}
		if !waits {
			c.result, err = c.limit.limiter.Take(ctx, c.key, c.n)
		} else if c.result, err = c.limit.limiter.Wait(ctx, c.key, c.n); errors.Is(err, ErrLimited) {
			err = nil
		}
		if waits && o.XRateLimit && (c.result.Wait > 0 || !c.result.Allowed) {
			c.at = time.Now()
		}
		if err != nil || !c.result.Allowed {
			for _, earlier := range slices.Backward(charges[:i]) {
				_ = limiter.Refund(ctx, earlier.result) // if it fails, the permits recover with time
			}
			return i, err
		}
		if i > 0 && tighter(&c.result, &charges[decides].result) {
			decides = i
		}
	}
	return decides, nil
}

// tighter reports whether a has fewer permits left than b or, if both have the same number, gets its next permit later.
func tighter(a, b *Result) bool {
	if a.Limit <= 0 || b.Limit <= 0 { // nothing is known: the store has failed
		return a.Limit > 0
	}
	return a.Remaining < b.Remaining || a.Remaining == b.Remaining && a.NextAfter > b.NextAfter
}
