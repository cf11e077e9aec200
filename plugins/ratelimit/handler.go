package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/nested"
	"github.com/gresil/gresil/internal/override"
	"github.com/gresil/gresil/internal/recorder"
	"github.com/gresil/gresil/internal/reject"
	"github.com/gresil/gresil/server"
)

func (s *settings) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if s = s.forRequest(w, r, next); s == nil || s.exempt(w, r, next) {
		return
	}
	p, also := s.priceOf(r)
	u, cost, limiter := p.rule, p.cost, p.limiter
	if p.err != nil {
		s.fail(w, r, next, http.StatusInternalServerError, p.err)
		return
	}
	key, ok := s.keyOf(u, r)
	if !ok {
		s.forbid(w, r, next, errNoKey)
		return
	}
	own := [1]link{{limiter: limiter, name: s.limiter.Name(), key: key}}
	links := own[:]
	for _, a := range also { // routes that it may be of, too
		key, _ := s.keyOf(a.rule, r)
		links = append(links, link{limiter: a.limiter, text: a.texts.of(a.limiter), name: s.limiter.Name(), key: key})
	}
	if s.layers != nil {
		links = s.layered(links, r)
	}
	counts, err := s.decide(r.Context(), links, cost)
	if err != nil {
		s.fail(w, r, next, http.StatusServiceUnavailable, err)
		return
	}
	result := &links[counts].result
	if s.cfg.Headers != 0 || !result.Allowed {
		links[0].text = u.texts.of(limiter)
	}
	if s.refuses(result) {
		s.reject(w, r, links, counts, cost)
		return
	}
	s.count(result)
	var out fields
	x := s.exchange(u, &out)
	x.limiter, x.key = limiter, key
	x.silent = s.cfg.Shadow || result.Limit <= 0
	w = x.rec.Wrap(w)
	if !x.silent {
		x.announce(w, r, &out, links, counts, cost)
	}
	if len(links) > 1 || !x.standing.hold(result) {
		x.charge.Store(newCharge(x, slices.Clone(links), counts))
	}
	x.serve(w, r, next)
}

// forRequest returns the settings of a request: with overrides they have one rule. It is nil if the
// request was served or answered.
func (s *settings) forRequest(w http.ResponseWriter, r *http.Request, next http.Handler) *settings {
	f := override.From[Server, ServerCall](r.Context(), s.Server)
	if f == nil {
		return s
	}
	first, more := s.rules(r)
	if more != nil {
		p, _ := s.priceOf(r)
		first = p.rule
	}
	u := *first
	call := ServerCall{Key: s.cfg.Key, Weight: u.weight}
	if f(&call); call.Disabled {
		next.ServeHTTP(w, r)
		return nil
	}
	c := *s
	if c.cfg.Key, c.key = call.Key, call.Key; c.key == nil {
		c.key = server.ClientIP
	}
	u.set, u.weight = &c, call.Weight
	c.routes, c.others = nil, &u
	return &c
}

// exempt serves or answers a request without a limit, and reports whether it did.
func (s *settings) exempt(w http.ResponseWriter, r *http.Request, next http.Handler) bool {
	switch key := (exchangeKey{s.Server}); {
	case nested.Pass(recorder.Value(w, key) != nil, s.handlers.Load() > 1, key, w, r, next): // an outer handler of s let it pass
	case s.cfg.Exclude != nil && s.cfg.Exclude(r):
		next.ServeHTTP(w, r)
	case s.cfg.Block != nil && s.cfg.Block(r):
		s.forbid(w, r, next, errBlocked)
	case s.cfg.Allow != nil && s.cfg.Allow(r):
		s.free(w, r, next, &s.counters.allowListed)
	default:
		return false
	}
	return true
}

// refuses reports whether the request of r is rejected. A Result without a Limit is that of
// a store that failed, and lets it pass.
func (s *settings) refuses(r *Result) bool { return !r.Allowed && r.Limit > 0 && !s.cfg.Shadow }

// count counts a request that goes on to the handler.
func (s *settings) count(r *Result) {
	switch {
	case r.Limit <= 0:
		s.counters.failed.Add(1)
	case r.Allowed:
		s.counters.allowed.Inc()
	default:
		s.counters.shadowed.Add(1)
	}
}

// announce writes the fields of a request that goes on to the handler.
func (x *exchange) announce(w http.ResponseWriter, r *http.Request, out *fields, links []link, counts int, cost int64) {
	h := w.Header()
	if x.fields {
		out.header = h
		x.single = out.write(links, counts, false)
	}
	limited(h, &x.limited, false)
	if f := x.rule.set.cfg.OnSuccess; f != nil {
		f(w, r, links[counts].info(cost))
		if x.lines != nil {
			x.lines.keep(h)
		}
	}
}

// free serves a request that takes nothing.
func (s *settings) free(w http.ResponseWriter, r *http.Request, next http.Handler, counter *atomic.Uint64) {
	counter.Add(1)
	x := &exchange{rule: s.others, free: true, silent: s.cfg.Shadow}
	w = x.rec.Wrap(w)
	if !x.silent {
		limited(w.Header(), &x.limited, false)
	}
	x.serve(w, r, next)
}

// The reasons for a 403.
var (
	errNoKey   = fmt.Errorf("ratelimit: the request has no key: %w", core.ErrRejected)
	errBlocked = fmt.Errorf("ratelimit: the request is blocked: %w", core.ErrRejected)
)

// forbid answers a request that is blocked, or has no key.
func (s *settings) forbid(w http.ResponseWriter, r *http.Request, next http.Handler, why error) {
	if s.cfg.Shadow {
		s.free(w, r, next, &s.counters.shadowed)
		return
	}
	s.counters.blocked.Add(1)
	s.answer(w, r, server.Rejection{Status: http.StatusForbidden, RetryAfter: -1, Err: why})
}

// fail answers a request that could not be decided.
func (s *settings) fail(w http.ResponseWriter, r *http.Request, next http.Handler, status int, err error) {
	if s.cfg.Shadow {
		s.free(w, r, next, &s.counters.failed)
		return
	}
	s.counters.failed.Add(1)
	rejection := server.Rejection{Status: status, Err: err}
	if known, ok := errors.AsType[server.Rejection](err); ok && (known.Status == 0 || known.Status >= 400 && known.Status < 600) {
		rejection = known
	}
	recorder.MarkRejected(w, err) // whatever the error: the handler is not called
	s.answer(w, r, rejection)
}

// answer answers a request that is not served.
func (s *settings) answer(w http.ResponseWriter, r *http.Request, rej server.Rejection) {
	reject.With(w, r, rej, rej.RetryAfter, s.cfg.OnRejected, server.Reject)
}

// decide takes n permits of each link or of none, and returns which of them counts.
// The error is never a refusal.
func (s *settings) decide(ctx context.Context, links []link, n int64) (counts int, err error) {
	if s.cfg.MaxWait == 0 || s.cfg.Shadow {
		return take(ctx, links, n)
	}
	if len(links) == 1 {
		links[0].result, err = links[0].limiter.Wait(ctx, links[0].key, n)
	} else {
		// The links are waited for in turn, and MaxWait is for all of them.
		bounded, cancel := context.WithTimeout(ctx, s.cfg.MaxWait)
		defer cancel()
		counts, err = chained(bounded, links, n, ratelimit.Chain.Wait)
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil { // it waited for one, and then for too long
			return take(ctx, links, n)
		}
	}
	if errors.Is(err, ratelimit.ErrLimited) {
		err = nil
	}
	return counts, err
}

// A taking takes n permits of links, as decide does.
type taking func(ctx context.Context, links []link, n int64) (counts int, err error)

// take is decide without a wait.
func take(ctx context.Context, links []link, n int64) (counts int, err error) {
	if len(links) == 1 {
		links[0].result, err = links[0].limiter.Take(ctx, links[0].key, n)
		return 0, err
	}
	return chained(ctx, links, n, ratelimit.Chain.Take)
}

// takeAtMost takes up to n permits, the same of each link.
func takeAtMost(ctx context.Context, links []link, n int64) (counts int, err error) {
	if len(links) == 1 {
		links[0].result, err = links[0].limiter.TakeAtMost(ctx, links[0].key, n)
		return 0, err
	}
	for range 4 {
		if counts, err = take(ctx, links, 0); err != nil {
			return take(ctx, links, n) // where OnStoreError decides
		}
		left := links[counts].result.Remaining
		counts, err = take(ctx, links, min(n, max(1, left)))
		if err != nil || links[counts].result.Allowed || left < 1 {
			break
		}
	}
	return counts, err
}
