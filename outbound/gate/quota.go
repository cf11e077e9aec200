package gate

import (
	"log/slog"
	"time"

	"github.com/gresil/gresil/internal/gatestore"
)

// A bucket is the key that a vendor has named for another one, and the clock at the admission of the call that was answered so.
type bucket struct {
	gatestore.Key

	seen uint64
}

// bucket returns the key that a vendor has named for a key.
func (g *Gate) bucket(of gatestore.Key) gatestore.Key {
	if to, ok := g.buckets[of]; ok {
		return to.Key
	}
	return of
}

// bucketClaim returns a claim in the bucket that was named since the call was accepted.
func (g *Gate) bucketClaim(cl *claim) *claim {
	return &claim{scope: g.scope(g.bucket(cl.route)), route: cl.route, stored: unknown}
}

// alias notes the bucket that a vendor has named. At least the usage and the hold of the key are those of the bucket.
func (g *Gate) alias(c *call, q Quota) {
	for _, cl := range c.claims {
		to, was := bucket{gatestore.Key{Limit: cl.Limit, Key: q.Bucket}, c.seen}, g.buckets[cl.route]
		if q.Bucket == "" || cl.Vendor || q.Limit != "" && cl.Limit != q.Limit || to.seen < was.seen {
			continue
		}
		if to.Key == g.bucket(cl.route) {
			if was.seen > 0 {
				g.buckets[cl.route] = to
			}
			continue
		}
		if was.seen == 0 && len(g.buckets) >= maxKept && !g.forget() {
			continue
		}
		s := g.scope(to.Key)
		g.buckets[cl.route] = to
		s.tail, s.last = later(s.tail, cl.tail), later(s.last, cl.last)
		s.given(0) // no settlement of an earlier slot lowers it
		if until, ok := cl.held(g.now); ok && cl.hold.trial == nil {
			g.holdScope(c, g.bucketClaim(cl), Signal{Pause: until.Sub(g.now), Reason: cl.hold.reason}, usedUp)
		}
	}
}

// forget forgets the bucket of some key, which has to be named again. It reports whether one of a few is not held.
func (g *Gate) forget() bool {
	tries := 16
	for of, to := range g.buckets {
		if s := g.scopes[to.Key]; s == nil || s.hold == nil {
			delete(g.buckets, of)
			return true
		}
		if tries--; tries == 0 {
			break
		}
	}
	return false
}

// useBuckets has the next attempt of a call use the buckets that the vendor has named.
func (c *call) useBuckets() {
	for _, cl := range c.claims {
		if to := c.g.bucket(cl.route); to != cl.Key {
			cl.calls--
			c.g.drop(cl.scope)
			cl.scope = c.g.scope(to)
			cl.calls++
		}
	}
}

// noteQuota notes how much a vendor has left. An answer to a call from before it last said so can only lower that, and never shortens
// the time.
func (g *Gate) noteQuota(c *call, s *scope, q Quota) {
	reset, newer := g.now.Add(min(q.Reset, g.settings().MaxHold)), c.seen > s.quotaTold
	if newer || q.Remaining < s.quotaLeft || !g.now.Before(s.quotaReset) {
		if !newer {
			reset = later(reset, s.quotaReset)
		}
		s.quotaLeft, s.quotaReset, s.quotaTold = q.Remaining, reset, g.clock
		g.wake(s, time.Time{})
	}
}

// fly counts the calls in flight. With one less, the first of those that wait for what the vendor has left can be next.
func (g *Gate) fly(cl *claim, sign int) {
	if cl.flying += int64(sign) * cl.cost; sign < 0 && g.now.Before(cl.quotaReset) {
		g.wake(cl.scope, time.Time{})
	}
}

// quotaWait returns until when a call may have to wait for one in flight, since these use what the vendor has left, or for one that waits
// already. With a Store, each process has its share of that. A single call is always sent.
func (g *Gate) quotaWait(c *call, cl *claim) (until time.Time) {
	left := cl.quotaLeft
	if g.shared != nil {
		left /= int64(max(1, g.state.Processes))
	}
	switch {
	case !g.now.Before(cl.quotaReset) || cl.cost == 0:
	case cl.wake.After(g.now) && cl.parked.precedes(c):
		return cl.wake
	case cl.flying > 0 && cl.flying > left-cl.cost:
		return cl.quotaReset
	}
	return until
}

// lower halves the number of calls in flight, since there were too many. It reports whether that was possible, or has happened since the
// call was sent. Otherwise there is a hold, at least until it is possible again.
func (g *Gate) lower(c *call, sig *Signal) bool {
	used, most := g.places()
	switch again := g.eased.Add(lowerEvery); {
	case g.most == 0, c.turn == nil:
		return false
	case c.seen <= g.lowered:
		return true
	case most <= 1:
		return false
	case g.now.Before(again):
		sig.Pause = again.Sub(g.now)
		return false
	}
	g.lowered, g.eased, g.limit = g.clock, g.now, min(g.limit, max(1, used))
	g.halve(g.now.Add(lowerEvery))
	if g.soon = false; g.shared != nil {
		g.reports, g.untried = append(g.reports, report{c.claims[0].scope, g.now.Add(lowerEvery), unknown, false, true}), true
		g.kick()
	}
	g.emit(c, "too many calls were in flight", c.claims[0].scope, sig.Reason, slog.Int("in_flight", used))
	return true
}
