package ratelimit

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/recorder"
)

// A Charge is the permits that one request has taken of the limits of one [Server]. The
// handler can change it: to charge failed logins only, or a cost that is known later.
// [ChargeOf] finds it. The RateLimit fields of the response have the changes that were made
// before its first byte; permits can be taken and refunded at any time. All methods run
// even if ctx is done, as when the client has left: it could choose to.
//
// To limit failures, such as wrong passwords, take before checking the secret and refund
// on success. A limit that is checked afterwards shows an attacker that a guess was right.
//
// A Charge is safe for concurrent use, also with the response, as when the handler runs on
// after a timeout. It never waits for permits. The Charge of a request that Allow has let
// pass takes nothing: it grants everything, and the Limit of its results is 0. The Charge of
// a request in Shadow takes permits, and its results are all Allowed.
type Charge struct {
	x       *exchange
	mu      sync.Mutex // over all below, and the header of x
	links   []link     // none for a request that is free
	kept    bool       // the take of the request itself is in taken
	changed bool       // since the fields were written
	taken   []charged
	refused []refusal // the last maxRefusals, the newest at the end
	count   int64     // of all refusals
	claimed error     // by Reject, which can still be too late

	capacity, left int64 // as in the fields about one limit, if they are ours
}

// charged is a take.
type charged struct {
	limiter *ratelimit.Limiter
	key     string
	cost    int64
	result  Result
	link    int // its place among the links; below 0: none
}

// A refusal is a take whose result can be passed to Reject.
type refusal struct {
	charged
	violated []*part
}

const maxRefusals = 8

// A chargeKey finds a charge: that of a server or, with none, the innermost.
type chargeKey struct{ server *Server }

// ChargeOf returns the Charge of the request that w answers: of several limiters around
// the handler, that of the innermost. It finds them through Unwrap, as
// [http.NewResponseController] does, and through a method Value, which the timeout plugin
// has. It is false if there is no charge, as for a request that all limiters exclude, or
// if a middleware in between hides it with a writer that has neither: see
// ServerConfig.ChargeInContext.
func ChargeOf(w http.ResponseWriter) (*Charge, bool) {
	return charge(recorder.Value(w, chargeKey{}))
}

// ChargeOf is the function ChargeOf for this limiter, inner or outer.
func (s *Server) ChargeOf(w http.ResponseWriter) (*Charge, bool) {
	return charge(recorder.Value(w, chargeKey{s}))
}

// ChargeFrom is [ChargeOf] for code that has no ResponseWriter, and below a middleware
// whose writer hides the charge. It finds the charges of limiters with ChargeInContext.
func ChargeFrom(ctx context.Context) (*Charge, bool) {
	return charge(ctx.Value(chargeKey{}))
}

// ChargeFrom is the function ChargeFrom for this limiter, inner or outer.
func (s *Server) ChargeFrom(ctx context.Context) (*Charge, bool) {
	return charge(ctx.Value(chargeKey{s}))
}

func charge(v any) (*Charge, bool) { c, ok := v.(*Charge); return c, ok }

// Take takes n further permits of the key of the request, and of its layers, or none. The
// Result is that of the limit that counts. After a refusal nothing is taken, and the
// handler decides: it can [Charge.Reject]. The error is never a refusal: n is negative,
// the store has failed and OnStoreError is [Deny], or the limiter is closed. If the store
// has failed and OnStoreError is [Allow], the Result is Allowed and its Limit is 0.
func (c *Charge) Take(ctx context.Context, n int64) (Result, error) { return c.take(ctx, n, take) }

// TakeAtMost takes n permits, or as many as are left, for a cost that is known too late to
// refuse. Permits is their number. It is refused if none are left. With layers it takes the
// same number of each: it reads the smallest first, and is also refused if other requests
// were faster several times.
func (c *Charge) TakeAtMost(ctx context.Context, n int64) (Result, error) {
	return c.take(ctx, n, takeAtMost)
}

// TakeKey takes n permits of another key, as Take does of the key of the request, such as
// the user name in a form. The limit is that of this request, and no layer is charged. Keys
// of different kinds need different prefixes, as "user:ann". An n of 0 only reads.
func (c *Charge) TakeKey(ctx context.Context, key string, n int64) (Result, error) {
	if c.x.free {
		return freely(n)
	}
	limiter := c.links[0].limiter
	key = c.x.rule.mark + escape(key)
	result, err := limiter.Take(context.WithoutCancel(ctx), key, n)
	if err != nil {
		return Result{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	take := charged{limiter, key, n, result, -1}
	if result.Permits > 0 {
		c.taken = append(c.taken, take)
	}
	return c.outcome(take, nil), nil
}

// Peek returns the state of every limit of the request: that of the config or of its route,
// and its layers, each with its Name, Key and Result. It takes nothing. If the store has
// failed, it returns an error, also with [Allow]. Take of 0 returns the one with the fewest
// permits left.
func (c *Charge) Peek(ctx context.Context) ([]Info, error) {
	if c.x.free {
		return nil, nil
	}
	links, _, err := c.apply(ctx, 0, take)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	infos := make([]Info, len(links))
	for i, l := range links {
		infos[i] = Info{Name: l.name, Key: l.key, Result: c.outcome(charged{l.limiter, l.key, 0, l.result, i}, nil)}
	}
	return infos, nil
}

// take is Take by a way to take.
func (c *Charge) take(ctx context.Context, n int64, how taking) (Result, error) {
	if c.x.free {
		return freely(n)
	}
	links, counts, err := c.apply(ctx, n, how)
	if err != nil {
		return Result{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	l := &links[counts]
	return c.outcome(charged{l.limiter, l.key, n, l.result, counts}, violated(links)), nil
}

// apply takes permits of the links, and returns a copy of them with the results.
func (c *Charge) apply(ctx context.Context, n int64, how taking) (links []link, counts int, err error) {
	c.mu.Lock()
	links = slices.Clone(c.links)
	c.mu.Unlock()
	if counts, err = how(context.WithoutCancel(ctx), links, n); err != nil {
		return nil, 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keep()
	for i, l := range links {
		if l.result.Limit <= 0 {
			continue // the store failed, and lets pass
		}
		c.links[i].learn(l.result)
		c.changed = true
		if l.result.Permits > 0 {
			c.taken = append(c.taken, charged{l.limiter, l.key, n, l.result, i})
		}
	}
	return links, counts, nil
}

// learn adopts the state of the key in r, unless it is older than the known one: takes can
// overlap. A result without a time, as a refusal, counts if it has less left.
func (l *link) learn(r Result) {
	known := &l.result
	if known.Limit <= 0 || r.Receipt.At > known.Receipt.At || r.Remaining < known.Remaining {
		r.Receipt.At = max(r.Receipt.At, known.Receipt.At)
		*known = r
	}
}

// Refund refunds all permits that the request has taken so far, by itself and by Take and
// TakeKey, unless they have recovered. The error joins those of all refunds that failed;
// their permits recover with time.
func (c *Charge) Refund(ctx context.Context) error {
	c.mu.Lock()
	c.keep()
	taken := c.taken
	c.taken = nil
	c.mu.Unlock()
	var errs []error
	for _, t := range slices.Backward(taken) {
		ctx, now := context.WithoutCancel(ctx), Result{}
		t.result.Receipt.Key = t.key
		err := t.limiter.Refund(ctx, t.result)
		if err == nil {
			now, err = t.limiter.Peek(ctx, t.key)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if t.link >= 0 {
			c.mu.Lock()
			known := &c.links[t.link].result
			now.Allowed, now.Receipt.At = true, known.Receipt.At // it is no refusal
			*known, c.changed = now, true
			c.mu.Unlock()
		}
	}
	return errors.Join(errs...)
}

// Reject answers a request that Take, TakeAtMost or TakeKey has refused with result, as
// the limiter does before the handler: with 429 or 413, all the fields, and OnRejected. It
// refunds all permits of this request, also those of outer limiters; permits of earlier
// requests, as failed attempts, stay taken. If the request must stay charged, as with a
// wrong password, write another response.
//
// It returns false, and does nothing, if there is nothing to refuse, and the handler
// continues: in Shadow; for a request that Allow has let pass; for a result whose Limit is
// 0, which is that of no limit; and if the response has begun, as by an earlier Reject.
//
// The handler can pass the result of a Take of 0 as a refusal. If nothing is left, Retry-After is
// its NextAfter; otherwise there is no Retry-After.
func (c *Charge) Reject(w http.ResponseWriter, r *http.Request, result Result) bool {
	refused, ok := c.claim(w, result)
	if !ok {
		return false
	}
	_ = c.Refund(r.Context()) // it comes back in its time
	s := c.x.rule.set
	s.counters.rejected.Inc()
	info := c.write(w.Header(), &refused)
	after := info.Result.RetryAfter
	if after == 0 && info.Result.Remaining > 0 {
		after = -1 // the handler refuses, and only it knows why
	}
	s.refuse(w, r, refused.violated, info, after)
	return true
}

// claim finds the take of a result, and reports whether there is a response to write.
func (c *Charge) claim(w http.ResponseWriter, result Result) (refused refusal, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.x.rule.set
	if s.cfg.Shadow || c.x.free || result.Limit <= 0 || c.claimed != nil || c.x.begun.Load() {
		return refusal{}, false
	}
	why := &ratelimit.LimitedError{Name: s.Name(), Result: result}
	if !recorder.MarkRejected(w, why) {
		return refusal{}, false
	}
	c.claimed = why
	counts := least(c.links)
	refused.charged = charged{key: c.links[counts].key, result: result, link: counts}
	for _, known := range slices.Backward(c.refused) {
		if known.result == result {
			refused = known
			break
		}
	}
	return refused, true
}

// write writes the fields of a refusal.
func (c *Charge) write(h http.Header, refused *refusal) Info {
	c.mu.Lock()
	defer c.mu.Unlock()
	links, counts, result := slices.Clone(c.links), max(0, refused.link), refused.result
	if result.Allowed { // of a take of 0
		result.Allowed = false
		if result.Remaining <= 0 {
			result.RetryAfter = result.NextAfter
		}
	}
	l := &links[counts]
	if refused.violated == nil {
		refused.violated = l.text.part(&result).alone
	}
	if refused.link >= 0 { // with the refund
		result.Remaining, result.NextAfter, result.FullAfter = l.result.Remaining, l.result.NextAfter, l.result.FullAfter
	}
	l.result = result
	limited(h, new([1]string), true)
	if c.x.fields {
		var ours lines
		if c.x.lines != nil {
			ours = *c.x.lines // a copy: this may not become the response
		}
		out := c.x.writer(h, &ours) // not that of x.rec: the request may be over
		out.write(links, counts, true)
	}
	return Info{Name: l.name, Key: refused.key, Cost: refused.cost, Result: result}
}

// outcome returns the result of a take to the caller. A take that took nothing is kept for
// Reject, with a receipt that is unique and names no take. The lock is held.
func (c *Charge) outcome(t charged, violated []*part) Result {
	if r := &t.result; r.Limit > 0 && r.Permits == 0 && (!r.Allowed || r.Remaining <= 0) {
		c.count++
		r.Receipt.At = -c.count
		r.Allowed = r.Allowed || c.x.rule.set.cfg.Shadow
		if len(c.refused) == maxRefusals {
			c.refused = c.refused[1:]
		}
		c.refused = append(c.refused, refusal{t, violated})
	}
	return t.result
}

// keep records the take of the request itself, before a later result replaces its result.
// The lock is held.
func (c *Charge) keep() {
	if c.kept {
		return
	}
	c.kept = true
	for i, l := range c.links {
		if l.result.Permits > 0 {
			c.taken = append(c.taken, charged{l.limiter, l.key, l.result.Permits, l.result, i})
		}
	}
}

// freely returns the result of a request that takes nothing.
func freely(n int64) (Result, error) {
	if n < 0 {
		return Result{}, &core.ConfigError{Field: "ratelimit cost", Value: n, Reason: "must be >= 0 (0 only looks)"}
	}
	return Result{Allowed: true}, nil
}

// answers reports whether the response is that of Reject. It then marks the outer writers,
// which no mark has reached if a writer in between has no Unwrap.
func (c *Charge) answers() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	rec := &c.x.rec
	if c.claimed == nil || rec.Rejected() == nil && !slices.Contains(rec.Header()[rateLimited], "true") {
		return false // that of a timeout was faster
	}
	recorder.MarkRejected(rec.Unwrap(), c.claimed)
	return true
}

// least returns the index of the link with the fewest permits left; of those, the one that has its
// next permit last.
func least(links []link) (counts int) {
	for i := range links {
		a, b := &links[i].result, &links[counts].result
		if a.Limit > 0 && (b.Limit <= 0 || a.Remaining < b.Remaining || a.Remaining == b.Remaining && a.NextAfter > b.NextAfter) {
			counts = i
		}
	}
	return counts
}
