package gate

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/gresil/gresil/internal/gatestore"
	"github.com/gresil/gresil/internal/registry"
)

const (
	fullRoom  = 64               // a ramp with this room has ended
	probeTime = 10 * time.Second // after which a turn without an answer is given up, and a ramp without a refusal ends
	pad       = 50 * time.Millisecond
	maxHeld   = 65_536 // held keys; one more hold holds the whole vendor
	maxKept   = 65_536 // keys with usage, but without calls and holds
)

// A scope is the unit of holds and of counting: one key of a limit, or the whole vendor. The lock of the gate guards all of it.
type scope struct {
	gatestore.Key
	usage

	calls int            // accepted and not ended
	units [classes]int64 // the cost of the waiting calls, except for those in the queue of another scope

	begun    uint64 // the clock when the last hold began: only that makes the answers to earlier calls late
	earlier  uint64 // of the hold before it; after the end of a trial hold, the same as begun
	hold     *hold
	refusals int // in a row, without a pause given by the vendor
	pause    time.Duration

	flying int64 // the cost of the calls in flight, and of those that the Store is asked about

	// of the last Quota
	quotaLeft  int64
	quotaReset time.Time
	quotaTold  uint64 // the clock then

	parked queue     // calls that this scope blocks
	wake   time.Time // the first of these is blocked until then

	refused [classes]refusal // the last one
}

// A refusal is one by the Store.
type refusal struct {
	quiet  time.Time // the earliest time to ask again
	known  time.Time // the earliest time at which a call can be sent
	polled bool      // the end of a call in this process can make it earlier
}

// A hold is a pause and the ramp after it.
type hold struct {
	until, end time.Time // of the pause; of the ramp
	told       time.Time // the value of until that was last counted and reported
	room       int       // how many turns there may be at once
	out        []*turn   // the turns that have not ended, the oldest first
	asked      time.Time // when the Store last confirmed the hold
	trial      *call     // whose answer, when it is read, can end the hold; nil if it stays
	before     *hold     // the ramp that goes on then; nil if there was none
	reason     string    // Signal.Reason of the answer that asked for until
}

// A turn is one admission of a call.
type turn struct {
	at       time.Time
	claims   []*claim // of the call
	flying   bool     // it has a place; before the send, the turn was given up if it has none
	leased   bool     // the place is one of the Store
	probes   bool     // it is in Gate.probes
	success  bool
	*granted // nil if this process admitted the call by itself

	slots []claim          // as they were when the attempt was judged; nil before, or if it cannot be settled
	due   map[string]int64 // what the attempt has cost, if that is known before it is judged
}

// held returns the end of the pause in force, if there is the scope and a pause.
func (s *scope) held(now time.Time) (until time.Time, ok bool) {
	if s == nil || s.hold == nil || !now.Before(s.hold.until) {
		return time.Time{}, false
	}
	return s.hold.until, true
}

// shut returns the time until which the scope admits no call; ok is false if it admits calls. It gives up turns that take too long, and
// ends a ramp whose time is over. A ramp without any answer does not end before its probe is given up, nor right after that: exactly one
// other probe follows. Only a probe loses its place.
func (g *Gate) shut(s *scope) (until time.Time, ok bool) {
	if until, ok = s.held(g.now); s.hold == nil {
		return until, ok
	}
	h := s.hold
	switch asks, again := g.byStore(), h.asked.Add(renewEvery); {
	case ok && asks && again.After(g.now) && again.Before(until):
		return again, true
	case ok:
		return until, !asks || !g.stale(h)
	case g.shared != nil && !g.settings().AllowOnStoreError && g.now.Before(h.end): // the Store keeps the turns
		return h.end, !asks
	}
	for len(h.out) > 0 && g.now.Sub(h.out[0].at) >= probeTime {
		if h.room == 1 {
			g.land(h.out[0])
			h.end = g.now.Add(probeTime)
		}
		h.out = h.out[1:]
	}
	switch {
	case h.room >= fullRoom, !g.now.Before(h.end) && (h.room > 1 || len(h.out) == 0):
		g.end(s)
	case len(h.out) >= h.room:
		if until = h.out[0].at.Add(probeTime); h.room > 1 && h.end.Before(until) {
			until = h.end
		}
		return until, true
	}
	return time.Time{}, false
}

// stale reports whether another process can have ended a hold since the Store last confirmed it, and the Store can be
// asked.
func (g *Gate) stale(h *hold) bool {
	return g.shared != nil && g.failed == nil && !g.untried && len(g.reports) == 0 && g.now.Sub(h.asked) >= renewEvery
}

// scope returns the scope of a key.
func (g *Gate) scope(of gatestore.Key) *scope {
	s := g.scopes[of]
	if s == nil {
		if len(g.scopes) >= g.sweepAt {
			g.sweep()
		}
		s = &scope{Key: of, usage: usage{limit: &limit{}, tail: g.floor[of.Limit]}}
		s.change(g.share(of), g.now)
		g.scopes[of] = s
	}
	return s
}

// drop removes a scope that is not in use and has neither hold nor usage, and forgets its refusals in a row. It reports whether only usage
// keeps the scope.
func (g *Gate) drop(s *scope) (used bool) {
	if s.calls > 0 || s.hold != nil || s.Vendor {
		return false
	}
	last := later(later(s.tail, s.quotaReset), later(s.refused[interactive].quiet, s.refused[background].quiet))
	if used = last.After(g.now); !used {
		delete(g.scopes, s.Key)
	}
	return used
}

// sweep removes scopes whose hold and usage are over, and the names of buckets that are not in use. If too many scopes are left, it evicts
// those with the least usage, and charges that usage to every new key.
func (g *Gate) sweep() {
	var idle []*scope
	for _, s := range g.scopes {
		if g.shut(s); g.drop(s) {
			idle = append(idle, s)
		}
	}
	if len(idle) >= maxKept/2 {
		slices.SortFunc(idle, func(a, b *scope) int { return a.tail.Compare(b.tail) })
		for _, s := range idle[:len(idle)/2] {
			g.floor[s.Limit] = later(g.floor[s.Limit], s.tail)
			delete(g.scopes, s.Key)
			g.stats.evicted++
		}
	}
	maps.DeleteFunc(g.buckets, func(_ gatestore.Key, to bucket) bool { return g.scopes[to.Key] == nil })
	g.sweepAt = len(g.scopes) + min(max(1024, len(g.scopes)), maxKept/2)
}

// Why keys are held.
type why int

const (
	answered why = iota // an answer asks for it
	usedUp              // nothing is left of a quota
	onTrial             // an answer that is being read can ask for it
)

// apply does what the answer to a call asks for.
func (g *Gate) apply(c *call, sig Signal) {
	for _, q := range sig.Quotas {
		g.alias(c, q)
	}
	if (sig.Limited || sig.Pause > 0) && (!sig.Busy || !g.lower(c, &sig)) {
		g.stop(c, sig, answered)
	}
	for _, q := range sig.Quotas {
		switch {
		case q.Reset <= 0 || q.Remaining < 0:
		case q.Remaining == 0 && sig.Limited && sig.Pause > 0 && (sig.Limit == "" || sig.Limit == q.Limit): // the reset can be later
		case q.Remaining == 0:
			g.stop(c, Signal{Limit: q.Limit, Pause: q.Reset, Reason: cmp.Or(sig.Reason, "quota")}, usedUp)
		default:
			for _, cl := range g.keys(c, q.Limit) {
				g.noteQuota(c, cl.scope, q)
			}
		}
	}
	if c.tried && g.shared == nil { // in a Store, it ends by itself
		for _, cl := range g.keys(c, "") {
			if _, ok := cl.held(g.now); ok && cl.hold.trial == c {
				cl.begun = cl.earlier // no call was admitted meanwhile
				before := cl.hold.before
				if g.end(cl.scope); before != nil {
					g.held++
				}
				cl.hold = before
				g.wake(cl.scope, time.Time{})
			}
		}
	}
	c.tried = false
}

// keys returns the claims of a call in a limit, or without a name in all limits, or if it is under none that of the whole vendor. A bucket
// that the vendor has named since the call was accepted is one more.
func (g *Gate) keys(c *call, limit string) (all []*claim) {
	for _, cl := range c.claims {
		if cl.Vendor && len(c.claims) > 1 || limit != "" && (cl.Vendor || cl.Limit != limit) {
			continue
		}
		if all = append(all, cl); g.bucket(cl.route) != cl.Key {
			all = append(all, g.bucketClaim(cl))
		}
	}
	return all
}

// stop begins or extends the holds that an answer to a call asks for.
func (g *Gate) stop(c *call, sig Signal, why why) {
	claims := g.keys(c, sig.Limit)
	if len(claims) == 0 && why != usedUp {
		claims = g.keys(c, "")
	}
	for _, cl := range claims {
		if cl.hold == nil && !cl.Vendor && g.held >= maxHeld {
			if g.sweep(); g.held >= maxHeld {
				g.stats.overflowed++
				cl = c.claims[0]
			}
		}
		g.holdScope(c, cl, sig, why)
	}
}

// holdScope begins or extends the hold of a scope. Once a pause is over, the answers to calls that were sent before it change nothing.
func (g *Gate) holdScope(c *call, cl *claim, sig Signal, why why) {
	s, set := cl.scope, g.settings()
	end, inForce := s.held(g.now)
	if s.begun > c.seen && (!inForce || s.earlier > c.seen) {
		return
	}
	begins := !inForce || s.hold.trial != nil && why != onTrial
	pause := sig.Pause
	if pause <= 0 {
		if begins || s.pause == 0 {
			s.refusals++
			s.pause = max(0, set.Backoff.Next(s.refusals, s.pause))
		}
		pause = s.pause
	}
	halve, until := false, g.now.Add(min(pause, set.MaxHold, math.MaxInt64-2*pad)+pad+rand.N(pad)) //nolint:gosec // jitter keeps no secret
	switch {
	case begins:
		if before := s.hold; inForce {
			if s.hold.trial, s.hold.before = nil, nil; g.shared == nil {
				s.hold.until = time.Time{}
			}
		} else if g.beginHold(s); why == onTrial {
			if s.hold.trial = c; g.shared == nil {
				s.hold.before = before
			}
		}
		// It affects all present calls; once for all keys of the call.
		if halve = why == answered && s.calls == len(g.calls) && g.now.After(g.resumed); halve {
			g.halve(until)
		}
	case !until.After(end):
		return
	}
	g.extend(s, until)
	if s.hold.reason = sig.Reason; g.shared != nil {
		g.reports, g.untried = append(g.reports, report{s, until, cl.stored, halve, false}), true
		g.kick()
	}
	if why != onTrial && until.Sub(s.hold.told) >= time.Second { // refusals of calls that were in flight together count as one hold
		s.hold.told = until
		g.stats.Holds++
		g.emit(c, "calls are held back", s, sig.Reason, slog.Time("until", until), slog.Duration("pause", until.Sub(g.now)))
	}
}

// end removes the hold of a scope.
func (g *Gate) end(s *scope) {
	if s.hold != nil {
		g.held--
	}
	s.hold = nil
}

// beginHold begins a hold, without its end, in place of a ramp.
func (g *Gate) beginHold(s *scope) {
	g.end(s)
	s.hold = &hold{room: 1}
	g.clock++
	s.begun, s.earlier = g.clock, s.begun
	g.held++
}

// extend extends a hold.
func (g *Gate) extend(s *scope, until time.Time) {
	s.hold.until, s.hold.asked = later(s.hold.until, until), g.now
	s.hold.end = s.hold.until.Add(probeTime)
	g.wake(s, time.Time{})
	g.refuseLate(s)
}

// emit queues an event about a scope.
func (g *Gate) emit(c *call, text string, s *scope, reason string, attrs ...slog.Attr) {
	if g.life.Listening() {
		if reason != "" {
			attrs = append(attrs, slog.String("reason", reason))
		}
		e := registry.Event{Text: text, Key: s.Key.Key, Attrs: append(attrs, slog.String("limit", s.Limit))}
		g.announce(context.WithoutCancel(c.ctx), e)
	}
}

// announce queues an event.
func (g *Gate) announce(ctx context.Context, e registry.Event) {
	g.events.Append(func() { g.life.Emit(ctx, e) })
}
