package gate

import (
	"time"

	"golang.org/x/time/rate"
)

// A rate.Limiter gives its tokens by reservation. Only the first call of the queue reserves one, at most a second ahead. So the tokens of
// calls that leave are not lost, and a changed limit applies within a second.
type tokens struct {
	reserved *rate.Reservation
	tokenAt  time.Time // when there is one, or when to check again; zero if no call waits for it
	credit   int       // tokens that can be used now, reserved ones or returned ones
}

const tokenAhead = time.Second

// token reports whether there is a token for the next call.
func (g *Gate) token() bool {
	of := g.settings().Limiter
	if of == nil {
		return true
	}
	if g.trim(of); g.credit > 0 {
		return true
	}
	if g.reserved == nil {
		r := of.ReserveN(g.now, 1)
		wait := r.DelayFrom(g.now)
		if wait > tokenAhead {
			r.CancelAt(g.now)
			g.tokenAt = g.now.Add(tokenAhead)
			return false
		}
		g.reserved, g.tokenAt = r, g.now.Add(wait)
	}
	g.settleToken()
	return g.credit > 0
}

// settleToken credits the reserved token if its time has come, or returns it if no call waits for it.
func (g *Gate) settleToken() {
	of := g.settings().Limiter
	switch {
	case of == nil:
		g.tokens = tokens{}
	case g.reserved != nil && !g.tokenAt.After(g.now):
		g.credit++
		g.reserved, g.tokenAt = nil, time.Time{}
	case g.waiting == [classes]int{}:
		if g.reserved != nil {
			g.reserved.CancelAt(g.now)
		}
		g.reserved, g.tokenAt = nil, time.Time{}
	}
}

// trim drops returned tokens that the limiter has replaced since, but not while the Store is asked about a call, which has one of them.
func (g *Gate) trim(of *rate.Limiter) {
	if g.shared == nil || g.asked.len() == 0 {
		g.credit = min(g.credit, max(0, of.Burst()-max(0, int(of.TokensAt(g.now)))))
	}
}

// tokenFor returns the time of the token that a call gets after ahead others. ok is false if there will be none.
func (g *Gate) tokenFor(ahead int) (at time.Time, ok bool) {
	of := g.settings().Limiter
	if of == nil || of.Limit() == rate.Inf {
		return g.now, true
	}
	if of.Burst() < 1 {
		return g.now, false
	}
	g.trim(of)
	missing := float64(1+ahead-g.credit) - of.TokensAt(g.now)
	if g.reserved != nil {
		missing-- // it is the first one's
	}
	if missing <= 0 {
		return g.now, true
	}
	wait := missing / float64(of.Limit()) * float64(time.Second)
	return g.now.Add(time.Duration(min(wait, float64(longestSpan)))), true
}
