package ratelimit

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
)

// A Charge is what one request has taken of the limits of one [Server], and for the
// handler to change: to charge failed logins only, or what a request turned out to
// cost. [From] finds it. The RateLimit fields of the response tell what became of it
// if that is before the first byte of the response; the permits can be taken and
// given back at any time. That ctx is done does not keep it from being done, as when
// the client has left: it could choose to.
//
// It is safe for concurrent use. It never waits for permits. The Charge of a request
// that Allow has let pass takes nothing: it grants all, and the Limit of its results
// is 0. That of a request in Shadow takes as ever, and its results are all Allowed.
type Charge struct {
	x     *exchange
	mu    sync.Mutex // over all below, and the results of the links of x
	kept  bool       // what the request itself took is in taken
	final bool       // Reject has answered

	changed bool // since the fields were written
	taken   []charged
	refused charged // the last
}

// charged is a take.
type charged struct {
	limiter *ratelimit.Limiter
	key     string
	cost    int64
	result  Result
	link    int // its place among the links; below 0: none
}

// A chargeKey finds a charge in a context: that of a server or, with none, the
// innermost.
type chargeKey struct{ server *Server }

// Value finds the charge, and what is further out.
func (x *exchange) Value(key any) any {
	if k, ok := key.(chargeKey); ok && (k.server == nil || k.server == x.server) {
		return x.held()
	}
	return x.Context.Value(key)
}

// held returns the charge, which is made when it is asked for.
func (x *exchange) held() *Charge {
	if c := x.charge.Load(); c != nil {
		return c
	}
	x.charge.CompareAndSwap(nil, &Charge{x: x})
	return x.charge.Load()
}

// From returns the Charge of the request that ctx belongs to: of several limiters
// around the handler, that of the innermost. It is false where there is none, as for
// a request that all of them exclude.
func From(ctx context.Context) (*Charge, bool) {
	c, ok := ctx.Value(chargeKey{}).(*Charge)
	return c, ok
}

// From is the function From for this limiter, wherever it is among others.
func (s *Server) From(ctx context.Context) (*Charge, bool) {
	c, ok := ctx.Value(chargeKey{s}).(*Charge)
	return c, ok
}

// Take takes n further permits of the key of the request, and of its layers, or none:
// the Result tells, which is that of the limit that counts. After a refusal nothing
// is taken, and the handler decides how to go on: it can [Charge.Reject]. The error
// is never a refusal: n is negative, the store has failed and OnStoreError is [Deny],
// or the limiter is closed.
func (c *Charge) Take(ctx context.Context, n int64) (Result, error) {
	if c.x.free {
		return freely(n)
	}
	c.mu.Lock()
	links := slices.Clone(c.x.links)
	c.mu.Unlock()
	counts, err := take(context.WithoutCancel(ctx), links, n)
	if err != nil {
		return Result{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keep()
	for i, l := range links {
		if l.result.Limit <= 0 {
			continue // the store failed, and lets pass
		}
		c.x.links[i].result, c.changed = l.result, true
		if l.result.Granted > 0 {
			c.taken = append(c.taken, charged{l.limiter, l.key, n, l.result, i})
		}
	}
	c.x.counts = counts
	return c.outcome(charged{links[counts].limiter, links[counts].key, n, links[counts].result, counts}), nil
}

// TakeKey takes n permits of another key, as Take does of that of the request, for
// what only the handler knows: the user name in a form. It is a key as Key finds
// them, under the limit of this request, and no layer is charged. Where it could be
// taken for one of another kind, begin it with what it is: "user:ann".
func (c *Charge) TakeKey(ctx context.Context, key string, n int64) (Result, error) {
	if c.x.free {
		return freely(n)
	}
	limiter := c.x.links[0].limiter
	key = c.x.mark + string(escape([]byte(key), 0))
	result, err := limiter.Take(context.WithoutCancel(ctx), key, n)
	if err != nil {
		return Result{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	take := charged{limiter, key, n, result, -1}
	if result.Granted > 0 {
		c.taken = append(c.taken, take)
	}
	return c.outcome(take), nil
}

// Peek tells how the key of the request stands, by the limit that has least left. It
// takes nothing.
func (c *Charge) Peek(ctx context.Context) (Result, error) {
	if c.x.free {
		return freely(0)
	}
	c.mu.Lock()
	links := slices.Clone(c.x.links)
	c.mu.Unlock()
	counts, err := take(context.WithoutCancel(ctx), links, 0)
	return links[counts].result, err
}

// Refund gives back what the request has taken so far, by itself and by Take and
// TakeKey, as far as time has not. The error has all that failed; what could not be
// given back comes back in its time.
func (c *Charge) Refund(ctx context.Context) error {
	c.mu.Lock()
	c.keep()
	taken := c.taken
	c.taken = nil
	c.mu.Unlock()
	var errs []error
	for _, t := range slices.Backward(taken) {
		now, err := t.limiter.Refund(context.WithoutCancel(ctx), t.key, t.result)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if t.link >= 0 {
			c.mu.Lock()
			now.Allowed = true // it is no refusal
			c.x.links[t.link].result, c.changed = now, true
			c.mu.Unlock()
		}
	}
	return errors.Join(errs...)
}

// Reject answers a request that has been refused by Take or TakeKey, with their
// result, just as the limiter would have done before the handler: with 429, or 413,
// all the fields, and OnRejected. It gives back all that the request took, here and
// further out. Where the response has begun, it does nothing.
func (c *Charge) Reject(w http.ResponseWriter, r *http.Request, result Result) {
	if c.x.rec.Wrote() {
		return
	}
	_ = c.Refund(r.Context()) // it comes back in its time
	s := c.x.server
	s.counters.rejected.Inc()
	links, counts, info := c.refusal(result)
	if !c.x.silent {
		c.x.header.rewrite(w.Header(), s.cfg.Headers, links, counts, true)
	}
	s.refuse(w, r, links, info)
}

// refusal returns what is to be said about the refusal of a handler.
func (c *Charge) refusal(result Result) (links []link, counts int, info Info) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.final = true
	links, counts = slices.Clone(c.x.links), c.x.counts
	if links == nil { // allow-listed, and all the same
		links = []link{{limiter: c.x.server.limiter, text: c.x.server.others.texts.of(c.x.server.limiter), name: c.x.server.Name()}}
	}
	info = Info{Key: links[counts].key}
	if result == c.refused.result {
		info.Key, info.Cost = c.refused.key, c.refused.cost
		counts = max(0, c.refused.link)
		if c.refused.link >= 0 { // what was given back counts
			now := links[counts].result
			result.Remaining, result.NextAfter, result.FullAfter = now.Remaining, now.NextAfter, now.FullAfter
		}
	}
	result.Allowed = false
	links[counts].result = result
	info.Name, info.Result = links[counts].name, result
	return links, counts, info
}

// outcome is what a caller is told about a take. The lock is held.
func (c *Charge) outcome(t charged) Result {
	if !t.result.Allowed {
		c.refused = t
		if c.x.server.cfg.Shadow {
			t.result.Allowed = true
		}
	}
	return t.result
}

// keep notes what the request itself took, before its result is replaced by a later
// one. The lock is held.
func (c *Charge) keep() {
	if c.kept {
		return
	}
	c.kept = true
	for i, l := range c.x.links {
		if l.result.Granted > 0 {
			c.taken = append(c.taken, charged{l.limiter, l.key, l.result.Granted, l.result, i})
		}
	}
}

// freely is the result of a request that takes nothing.
func freely(n int64) (Result, error) {
	if n < 0 {
		return Result{}, &core.ConfigError{Field: "ratelimit cost", Value: n, Reason: "must be >= 0 (0 only looks)"}
	}
	return Result{Allowed: true}, nil
}

// settle brings the fields up to date. It is true when Reject has seen to them.
func (c *Charge) settle(h http.Header, style HeaderStyle, refused bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changed && !c.final {
		c.changed = false
		c.x.counts = least(c.x.links)
		c.x.header.update(h, style, c.x.links, c.x.counts, refused)
	}
	return c.final
}

// least is the place of the link that has least left.
func least(links []link) (counts int) {
	for i, l := range links {
		if l.result.Limit > 0 && (links[counts].result.Limit <= 0 || l.result.Remaining < links[counts].result.Remaining) {
			counts = i
		}
	}
	return counts
}
