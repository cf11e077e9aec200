package ratelimit

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/nested"
	"github.com/gresil/gresil/internal/recorder"
)

// An exchange is the state of one request that goes on to the handler, in one allocation:
// BenchmarkServer counts its bytes, so the state that few requests need is in their
// Charge. It is never used again: the header values may point into it.
type exchange struct {
	ctx      context.Context        //nolint:containedctx // of the request, for a refund when the header is sent
	charge   atomic.Pointer[Charge] // nil until it is looked up
	rec      recorder.Recorder
	rule     *rule
	limiter  *ratelimit.Limiter
	key      string
	standing standing // of the key, unless there is a charge from the beginning
	lines    *lines   // nil without HeaderDraft10
	limited  [1]string
	fields   bool        // it sends more than X-Rate-Limited
	free     bool        // it takes nothing
	silent   bool        // it sends nothing
	single   bool        // the fields about one limit are ours
	begun    atomic.Bool // the response has; the Recorder is not for every goroutine
}

// exchange returns a new one, and prepares what writes its fields: into the same allocation.
func (s *settings) exchange(u *rule, out *fields) *exchange {
	switch style := s.cfg.Headers; {
	case style == 0 || s.cfg.Shadow:
		return &exchange{rule: u}
	case style == HeaderXRateLimit || style == HeaderDraft03:
		x := &struct {
			exchange
			roomOfThree
		}{exchange: exchange{rule: u, fields: true}}
		out.style, out.values, out.text = style, x.values[:], x.text[:0]
		return &x.exchange
	default:
		x := &struct {
			exchange
			roomOfFive
			lines lines
		}{exchange: exchange{rule: u, fields: true}}
		x.exchange.lines = &x.lines
		out.style, out.lines, out.values, out.text = style, &x.lines, x.values[:], x.text[:0]
		return &x.exchange
	}
}

// writer returns what writes the fields once more.
func (x *exchange) writer(h http.Header, ours *lines) fields {
	return fields{header: h, style: x.rule.set.cfg.Headers, lines: ours}
}

// A standing is a Result of one limit that allowed, without the fields that are zero then:
// half its size.
type standing struct {
	granted, limit, remaining int64
	next, full                time.Duration
	at                        int64
	charged                   uint64
	plan                      limits.ID
	which                     uint8
}

// hold stores r. It returns false if r has other fields: if s.result() is not r, which is slower to compare.
func (s *standing) hold(r *Result) bool {
	*s = standing{r.Permits, r.Limit, r.Remaining, r.NextAfter, r.FullAfter, r.Receipt.At, r.Receipt.Parts[0], r.Plan, uint8(r.Which)}
	plan := r.Plan
	if r.Permits <= 0 {
		plan = 0
	}
	return r.Allowed && r.Wait == 0 && r.RetryAfter == 0 && r.Which == int(s.which) && r.Receipt.More == nil &&
		r.Receipt.Plans == [len(r.Receipt.Plans)]limits.ID{plan} && r.Receipt.Parts == [len(r.Receipt.Parts)]uint64{s.charged}
}

func (s *standing) result() Result {
	r := Result{Allowed: true, Permits: s.granted, Limit: s.limit, Remaining: s.remaining, NextAfter: s.next, FullAfter: s.full, Plan: s.plan, Which: int(s.which)}
	if s.granted > 0 {
		r.Receipt.Plans[0] = s.plan
	}
	r.Receipt.At, r.Receipt.Parts[0] = s.at, s.charged
	return r
}

// serve calls the handler.
func (x *exchange) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	x.ctx = r.Context()
	x.rec.Observe(x)
	defer func() {
		if !x.rec.Wrote() {
			x.OnHeader(http.StatusOK)
		}
	}()
	if s := x.rule.set; s.cfg.ChargeInContext || s.handlers.Load() > 1 {
		nested.Serve(x, w, r, next)
		return
	}
	next.ServeHTTP(w, r)
}

// OnHeader is called just before the header is sent: it updates the fields with the changes
// since they were written.
func (x *exchange) OnHeader(status int) {
	x.begun.Store(true) // before charge is looked at: see Charge.claim
	c := x.charge.Load()
	if c != nil && c.answers() {
		return
	}
	refused := x.rec.Rejected() != nil
	if refused {
		c = x.held()
		_ = c.Refund(x.ctx) // it comes back in its time
	}
	if x.silent {
		return
	}
	h, style := x.rec.Header(), x.rule.set.cfg.Headers
	if status == 0 || status == http.StatusSwitchingProtocols {
		drop(h, style) // also after Hijack: a ReverseProxy then sends the header itself
		return
	}
	if x.rec.Informed() {
		c = x.held()
		limited(h, new([1]string), false)
	}
	if c != nil && x.fields {
		c.mu.Lock()
		defer c.mu.Unlock()
		out := x.writer(h, x.lines)
		if x.rec.Informed() { // some handlers clear the header then
			out.write(c.links, least(c.links), false)
		}
		if c.changed { // once: it is not called again
			out.update(c, refused)
		}
	}
	unite(h, style, x.lines)
}

// Value finds the exchange of a server, and a charge, for [recorder.Value].
func (x *exchange) Value(key any) any {
	switch k := key.(type) {
	case chargeKey:
		if k.server == nil || k.server == x.rule.set.Server {
			return x.held()
		}
	case exchangeKey:
		if k.server == x.rule.set.Server {
			return x
		}
	}
	return nil
}

// InContext is Value for the keys that the context has: a charge only with ChargeInContext.
func (x *exchange) InContext(key any) any {
	if _, ok := key.(chargeKey); ok && !x.rule.set.cfg.ChargeInContext {
		return nil
	}
	return x.Value(key)
}

// String is the text of the context of the request.
func (x *exchange) String() string { return x.rule.set.String() }

// An exchangeKey finds the exchange of a server.
type exchangeKey struct{ server *Server }

// held returns the charge, which is made by the first lookup.
func (x *exchange) held() *Charge {
	if c := x.charge.Load(); c != nil {
		return c
	}
	var links []link
	if !x.free {
		links = []link{{limiter: x.limiter, name: x.rule.set.limiter.Name(), key: x.key, result: x.standing.result()}}
	}
	x.charge.CompareAndSwap(nil, newCharge(x, links, 0))
	return x.charge.Load()
}

// newCharge makes the charge of x, before any change. The fields about one limit are about
// links[counts].
func newCharge(x *exchange, links []link, counts int) *Charge {
	c := &Charge{x: x, links: links, left: -1}
	if len(links) > 0 && links[0].text == nil {
		links[0].text = x.rule.texts.of(x.limiter)
	}
	if x.single {
		c.capacity, c.left = clamped(links[counts].result.Limit), clamped(links[counts].result.Remaining)
	}
	return c
}
