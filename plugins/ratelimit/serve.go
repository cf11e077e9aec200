package ratelimit

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync/atomic"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/server"
)

// An exchange is all there is about one request, in one allocation, and its
// context. It is never used again, so the key and the header values may point into
// it.
type exchange struct {
	context.Context //nolint:containedctx // it is one
	server          *Server
	charge          atomic.Pointer[Charge] // nil until somebody asks for it
	rec             server.Recorder
	header          header
	links           []link
	own             [1]link // links, unless there are layers
	rule            *rule
	free            bool        // it takes nothing
	silent          bool        // it sends nothing
	begun           atomic.Bool // the response has; the Recorder is not for every goroutine
	text            [40]byte
	request         http.Request // that of the handler, whose context this is
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if s.cfg.Exclude != nil && s.cfg.Exclude(r) {
		next.ServeHTTP(w, r)
		return
	}
	x := &exchange{server: s}
	w = x.rec.Wrap(w)
	switch {
	case s.cfg.Block != nil && s.cfg.Block(r):
		s.forbid(x, w, r, next)
		return
	case s.cfg.Allow != nil && s.cfg.Allow(r):
		if !s.cfg.Shadow {
			x.header.limited(w.Header(), false)
		}
		s.free(x, w, r, next, &s.counters.allowListed)
		return
	}
	u := s.rule(r)
	cost, err := u.weigh(r)
	if err != nil {
		s.fail(x, w, r, next, http.StatusInternalServerError, err)
		return
	}
	limiter, err := u.limiterFor(r)
	if err != nil {
		s.fail(x, w, r, next, http.StatusInternalServerError, err)
		return
	}
	key, ok := s.keyOf(x.text[:0], u, r)
	if !ok {
		s.forbid(x, w, r, next)
		return
	}
	x.rule = u
	x.own[0] = link{limiter: limiter, text: u.texts.of(limiter), name: s.limiter.Name(), key: key}
	x.links = x.own[:]
	if s.layers != nil {
		x.links = s.layered(x.links, r)
	}
	counts, err := s.decide(r.Context(), x.links, cost)
	if err != nil {
		s.fail(x, w, r, next, http.StatusServiceUnavailable, err)
		return
	}
	result := &x.links[counts].result
	switch {
	case result.Limit <= 0: // the store failed, and lets pass
		s.counters.failed.Add(1)
		x.silent = true
	case s.cfg.Shadow:
		if result.Allowed {
			s.counters.allowed.Inc()
		} else {
			s.counters.shadowed.Add(1)
		}
		x.silent = true
	default:
		x.header.write(w.Header(), s.cfg.Headers, x.links, counts, !result.Allowed)
		if !result.Allowed {
			s.counters.rejected.Inc()
			s.refuse(w, r, violated(x.links), Info{Name: x.links[counts].name, Key: x.links[counts].key, Cost: cost, Result: *result})
			return
		}
		s.counters.allowed.Inc()
		if s.cfg.OnSuccess != nil {
			s.cfg.OnSuccess(w, r, Info{Name: x.links[counts].name, Key: x.links[counts].key, Cost: cost, Result: *result})
			x.header.changedOnPurpose(w.Header())
		}
	}
	x.serve(w, r, next)
}

// String keeps the request out of what prints its context.
func (x *exchange) String() string { return "ratelimit.Server(" + x.server.Name() + ")" }

// within makes x the context of the handler.
func (x *exchange) within(ctx context.Context) context.Context {
	x.Context = ctx
	return x
}

// serve calls the handler.
func (x *exchange) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	x.rec.Observe(x)
	x.request = *r.WithContext(x.within(r.Context())) // which is inlined: the copy is made in place
	inner := &x.request
	defer func() { //nolint:contextcheck // x is the context of the request
		if !x.rec.Wrote() {
			x.OnHeader(http.StatusOK)
		}
		// What is left behind on the copy is looked for on the original: by
		// net/http, which removes the files, and by logs and metrics further out.
		if r.MultipartForm == nil {
			r.MultipartForm = inner.MultipartForm
		}
		if inner.Pattern != "" {
			r.Pattern = inner.Pattern
		}
	}()
	next.ServeHTTP(w, inner)
}

// OnHeader is called just before the header goes out: what happened since the fields
// were written is now in them.
func (x *exchange) OnHeader(status int) {
	x.begun.Store(true) // before charge is looked at: see Charge.claim
	c := x.charge.Load()
	if c != nil && c.answers() {
		return
	}
	refused := x.rec.Rejected() != nil
	if refused {
		c = x.held()
		_ = c.Refund(x) // it comes back in its time
	}
	if x.silent || status == 0 {
		return
	}
	h, style := x.rec.Header(), x.server.cfg.Headers
	if status == http.StatusSwitchingProtocols {
		drop(h, style)
		return
	}
	informed := x.rec.Informed()
	if informed {
		c = x.held()
	}
	if c != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		if informed {
			x.header.restore(h, style, x.links, least(x.links))
		}
		if c.changed { // once: it is not called again
			x.header.update(h, style, x.links, least(x.links), refused)
		}
	}
	x.header.unite(h, style)
}

// free serves a request that takes nothing.
func (s *Server) free(x *exchange, w http.ResponseWriter, r *http.Request, next http.Handler, counter *atomic.Uint64) {
	counter.Add(1)
	x.free = true
	x.silent = s.cfg.Shadow
	x.serve(w, r, next)
}

// forbid answers a request that is not wanted.
func (s *Server) forbid(x *exchange, w http.ResponseWriter, r *http.Request, next http.Handler) {
	if s.cfg.Shadow {
		s.free(x, w, r, next, &s.counters.shadowed)
		return
	}
	s.counters.blocked.Add(1)
	server.Reject(w, r, server.Rejection{Status: http.StatusForbidden, RetryAfter: -1})
}

// fail answers a request about which nothing can be decided.
func (s *Server) fail(x *exchange, w http.ResponseWriter, r *http.Request, next http.Handler, status int, err error) {
	if s.cfg.Shadow {
		s.free(x, w, r, next, &s.counters.failed)
		return
	}
	s.counters.failed.Add(1)
	rejection := server.Rejection{Status: status, Err: err}
	var known *server.StatusError
	if errors.As(err, &known) && known.Status >= 400 && known.Status < 600 {
		rejection.Status, rejection.Detail = known.Status, known.Detail
	}
	server.Reject(w, r, rejection)
}

// decide takes n permits of each link or of none, and returns which of them counts.
// The error is never a refusal.
func (s *Server) decide(ctx context.Context, links []link, n int64) (counts int, err error) {
	if s.cfg.MaxWait == 0 || s.cfg.Shadow {
		return take(ctx, links, n)
	}
	if len(links) == 1 {
		links[0].result, err = links[0].limiter.Wait(ctx, links[0].key, n)
	} else {
		// The links are waited for in turn, and MaxWait is for all of them.
		bounded, cancel := context.WithTimeout(ctx, s.cfg.MaxWait)
		defer cancel()
		counts, err = settled(links)(chainOf(links).Wait(bounded, n))
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

// take is decide for who does not wait.
func take(ctx context.Context, links []link, n int64) (counts int, err error) {
	if len(links) == 1 {
		links[0].result, err = links[0].limiter.Take(ctx, links[0].key, n)
		return 0, err
	}
	return settled(links)(chainOf(links).Take(ctx, n))
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
		counts, err = take(ctx, links, min(n, max(1, links[counts].result.Remaining)))
		if err != nil || links[counts].result.Allowed {
			break
		}
	}
	return counts, err
}

// settled keeps what a chain has decided.
func settled(links []link) func(ratelimit.ChainResult, error) (int, error) {
	return func(all ratelimit.ChainResult, err error) (int, error) {
		for i := range all.Each {
			links[i].result = all.Each[i]
		}
		return all.Link, err
	}
}

// refuse answers a request that a limit does not allow. Its fields are set.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, violated []string, info Info) {
	limited := &ratelimit.LimitedError{Name: info.Name, Result: info.Result}
	after := info.Result.RetryAfter
	if after == 0 && info.Result.Remaining > 0 {
		after = -1 // a handler refuses, and only it knows why
	}
	server.SetRetryAfter(w.Header(), after)
	w.Header().Set("Cache-Control", "no-store")
	wait := w.Header().Get("Retry-After")
	if s.cfg.OnRejected != nil {
		server.MarkRejected(w, limited)
		s.cfg.OnRejected(w, r, info) // if it writes, Reject does not
	}
	rejection := server.Rejection{Status: http.StatusRequestEntityTooLarge, RetryAfter: after, Policies: violated, Err: limited}
	if info.Result.RetryAfter == Never {
		rejection.Detail = "The request costs " + strconv.FormatInt(info.Cost, 10) + ", and the limit is " + strconv.FormatInt(info.Result.Limit, 10) + "."
	} else {
		rejection.Status = http.StatusTooManyRequests
		rejection.Type = "https://iana.org/assignments/http-problem-types#quota-exceeded"
		rejection.Title = "Request cannot be satisfied as assigned quota has been exceeded"
		rejection.Detail = "Rate limit exceeded."
		if wait != "" {
			rejection.Detail += " Try again in " + wait + "s."
		}
	}
	server.Reject(w, r, rejection)
}

// violated are the names of the limits that have refused.
func violated(links []link) (names []string) {
	for i := range links {
		if l := &links[i]; l.result.Limit > 0 && !l.result.Allowed {
			names = append(names, l.text.part(&l.result).name)
		}
	}
	return names
}
