package gate

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/gresil/gresil/internal/gatestore"
)

// A Store shares gates between processes. *redisstore.Store is the only implementation.
type Store = gatestore.Store

const (
	freshTime  = 50 * time.Millisecond // plus a round trip: for that long, an admission by the Store need not be confirmed
	leaseTime  = 10 * time.Second      // of places and turns; also how long a process uses its share while the Store is unavailable
	renewEvery = 3 * time.Second
	retryEvery = 500 * time.Millisecond // while the Store is unavailable
	askEvery   = 50 * time.Millisecond  // after a refusal
	soon       = 500 * time.Millisecond // at most, if calls of the other class wait for these, or these for them
	maxAsk     = 128                    // calls in one request
	maxEnds    = 128                    // ends in one report
	lowerEvery = time.Second            // at most, for all processes, as too many calls are in flight
	unknown    = math.MaxUint64         // a generation that is not known
)

// shared is what a gate with a Store has in addition. The Store decides what this process may send. The gate keeps the holds that it knows,
// and decides by itself while the Store is unavailable. The lock of the gate guards the fields from stopped on.
type shared struct {
	table   gatestore.Table
	process string
	ctx     context.Context //nolint:containedctx // of all requests
	cancel  context.CancelFunc
	kick    chan struct{} // receives when there is something to send
	stopped chan struct{} // nil until the first use
	over    bool          // the gate is closed
	asking  sync.WaitGroup

	out     bool     // a request to the Store is under way
	asked   queue    // the calls of that request, or of the next one
	reports []report // not sent yet, or not successfully
	ends    []gatestore.End
	renewed time.Time // when the leases were renewed
	untried bool      // there are reports that were never sent: they go before any other request
	urgent  int       // how many of ends go first too: up to the last one that gives a slot back

	trip   time.Duration // the round trip of a request for calls
	late   bool          // the last reply came so late that the time of its slots is not known
	dial   time.Duration // from a grant until the call has its connection
	state  gatestore.State
	proven time.Time // until then the others count this process: it has a share without the Store
	failed error     // of the last request; nil if the Store is available
	since  time.Time // when the Store became unavailable
}

// granted is the permission for one call.
type granted struct {
	gatestore.Slot

	draws   []gatestore.Draw
	at      time.Time // of the slot
	checked time.Time // when the Store last confirmed it
	met     bool      // the call is connected
}

// alone reports whether this process may use at most its share.
func (g *Gate) alone() bool {
	return g.shared != nil && g.failed != nil && !g.settings().AllowOnStoreError
}

// byStore reports whether only the Store can admit calls. It is false without a Store, and while the Store is unavailable and this process
// may admit calls by itself.
func (g *Gate) byStore() bool {
	return g.shared != nil && g.failed == nil || g.alone() && !g.now.Before(g.proven)
}

// share returns what this process may use of the limit of a key: all of it, or its share while the Store is unavailable. The share begins a
// slot late: others may have used the whole limit.
func (g *Gate) share(of gatestore.Key) *limit {
	l := g.settings().named[of.Limit]
	switch {
	case of.Vendor || l == nil:
		return &limit{}
	case !g.alone():
		return l
	}
	own := *l
	own.burst, own.spacing = 1, span(int64(max(1, g.state.Processes)), l.spacing)
	own.from = g.since.Add(own.spacing)
	return &own
}

// ask asks the Store to admit the calls that need nothing else.
func (g *Gate) ask() {
	if g.shared == nil || g.out || g.asked.len() == 0 {
		return
	}
	g.out = true
	g.kick() // to renew leases
	ask := g.askFor(gatestore.Pass)
	var calls [][]*call
	for _, c := range slices.Concat(g.asked.calls[:]...) {
		draws, last, second := g.drawsOf(c), len(calls)-1, c.class() == background
		if last < 0 || second != ask.Groups[last].Background || !slices.Equal(draws, ask.Groups[last].Draws) {
			ask.Groups, calls = append(ask.Groups, gatestore.Group{Draws: draws, Background: second}), append(calls, nil)
			last++
		}
		ask.Groups[last].Calls++
		calls[last] = append(calls[last], c)
		c.seen = g.clock
	}
	g.asking.Go(func() {
		grant, ok, unlock := g.pass(ask)
		defer unlock()
		if g.out = false; !ok {
			grant.Answers = make([]gatestore.Answer, len(calls))
		}
		for i, answer := range grant.Answers {
			g.answer(answer, ask.Groups[i].Draws, calls[i])
		}
	})
}

// answer admits the calls that the Store has granted. The others wait for a time, or for the end of another call. Calls that have given up
// are no longer in asked.
func (g *Gate) answer(answer gatestore.Answer, draws []gatestore.Draw, calls []*call) {
	asked, to, at := &g.asked, &g.ready, g.now.Add(answer.Again)
	calls = slices.DeleteFunc(calls, func(c *call) bool { return c.queue != asked })
	if g.late {
		slices.Reverse(answer.Slots) // the last one can be given back first
	}
	for _, slot := range answer.Slots {
		switch p := g.granted(slot, draws); {
		case p == nil:
		case len(calls) == 0 || !calls[0].current():
			g.refuse(p)
		default:
			g.admitBy(calls[0], p)
			calls = calls[1:]
		}
	}
	if len(calls) > 0 && answer.Again > 0 {
		if s := calls[0].claims[answer.Draw].scope; answer.Held {
			g.learn(s, at)
		} else {
			to = &s.parked
			defer g.refusedBy(s, answer, at, calls[0].class())
		}
	}
	for _, c := range calls {
		if c.queue != asked { // it was refused meanwhile
			continue
		}
		c.putConn()
		asked.remove(c)
		to.add(c)
	}
}

// refusedBy notes when another request for a key can succeed. A refusal of interactive calls is one of background calls too.
func (g *Gate) refusedBy(s *scope, answer gatestore.Answer, at time.Time, class int) {
	r := refusal{known: at, polled: answer.Poll}
	if answer.Poll || answer.Yield {
		r.known = g.now
	}
	if !answer.Poll { // so that the answer arrives in time
		if end := g.now.Add(soon); (answer.Soon || answer.Yield) && end.Before(at) {
			at = end
		}
		at = later(at.Add(-2*g.trip-5*time.Millisecond), g.now.Add(time.Millisecond))
	}
	if r.quiet = g.now.Add(askEvery); at.Before(r.quiet) {
		r.quiet = at
	}
	if s.refused[class] = r; class == interactive {
		r.known = g.now // nothing tells how long background calls have to give way
		s.refused[background] = r
	}
	g.refuseLate(s)
	switch next := s.parked.first(); {
	case next == nil:
	case next.class() == class:
		g.wake(s, at)
	case s.parked.passed >= overtakes || !s.wake.After(g.now):
		g.wake(s, time.Time{})
	}
}

// refuseLate refuses the calls that cannot wait until the end of the scope's hold, or its next slot.
func (g *Gate) refuseLate(s *scope) {
	end, held := s.held(g.now)
	if held && s.hold.trial != nil { // perhaps it is none
		end, held = time.Time{}, false
	}
	for c := range g.calls {
		if c.queue == nil {
			continue
		}
		r, until := s.refused[c.class()], end
		if r.quiet.After(g.now) {
			until = later(end, r.known)
		}
		if (c.asks && c.queue == &s.parked || until.After(c.deadline)) &&
			slices.ContainsFunc(c.claims, func(cl *claim) bool { return cl.scope == s && (held || r.polled || cl.old(g.now)) }) {
			g.grant(c, c.limited(until, s.Limit))
		}
	}
}

// admitBy admits a call with a grant of the Store.
func (g *Gate) admitBy(c *call, p *granted) {
	for i, cl := range c.claims {
		if _, ok := cl.held(g.now); ok { // another process must have ended the hold
			g.resume(cl.scope)
		}
		cl.stored, cl.paced = p.Generations[i], false
	}
	g.begin(c, &turn{granted: p, leased: g.most > 0})
	c.took(p)
}

// took notes the slots that the Store has given. It reports whether there are any.
func (c *call) took(p *granted) bool {
	if p == nil {
		return false
	}
	for i, mark := range p.Marks {
		if mark == 0 {
			continue
		}
		cl := c.claims[i]
		if c.given, cl.slot = p, (slot{at: p.at, cost: cl.cost, by: p}); cl.counts() {
			cl.tail = later(cl.tail, p.at.Add(span(cl.cost, cl.spacing))) // else calls without the Store are early
		}
	}
	return true
}

// askFor returns a request without its calls.
func (g *Gate) askFor(mode gatestore.Mode) gatestore.Ask {
	return gatestore.Ask{
		Process: g.process, Mode: mode, InFlight: g.most, RoundTrip: g.trip,
		NoWait: g.settings().MaxWait < 0,
		Late:   mode == gatestore.Pass && g.dial > freshTime/2, // otherwise the slots would be too old when the calls have connections
		Ahead:  g.trip + max(g.trip, 10*time.Millisecond),      // as many calls as one round trip carries
	}
}

// drawsOf returns what a call asks of the Store.
func (g *Gate) drawsOf(c *call) (draws []gatestore.Draw) {
	for _, cl := range c.claims {
		d := gatestore.Draw{Key: cl.Key, Generation: cl.stored}
		if cl.old(g.now.Add(g.trip)) {
			d.Spacing, d.Unit, d.Lead = span(cl.cost, cl.spacing), cl.spacing, span(cl.burst-cl.cost, cl.spacing)
		}
		draws = append(draws, d)
	}
	return draws
}

// pass sends a request to the Store, and locks the gate when it has the answer. ok is false if there is none.
func (g *Gate) pass(ask gatestore.Ask) (grant gatestore.Grant, ok bool, unlock func()) {
	begun := time.Now()
	grant, err := g.table.Pass(g.ctx, ask)
	unlock = g.lock()
	if ok = g.heard(grant.State, err); ok {
		took, part := g.now.Sub(begun), time.Duration(16)
		if slices.ContainsFunc(grant.Answers, func(a gatestore.Answer) bool { return len(a.Slots) > 0 }) {
			g.proven = g.now.Add(leaseTime)
		}
		g.trip = cmp.Or(g.trip, took)
		if g.late = took > g.trip+g.settings().slack()/2; g.late {
			part = 4 // adapt fast if all replies take longer now
		}
		g.trip = min(took, g.trip+(took-g.trip)/part)
	}
	return grant, ok, unlock
}

// granted notes a slot that the Store has given. If the reply came too late for it, it is given back, and the result is nil.
func (g *Gate) granted(slot gatestore.Slot, draws []gatestore.Draw) *granted {
	p := &granted{Slot: slot, draws: draws, at: g.now.Add(slot.At), checked: g.now}
	if g.late && slices.Max(slot.Marks) > 0 {
		g.refuse(p)
		g.urgent = len(g.ends) // so that the next request can get it
		return nil
	}
	return p
}

// refuse gives back everything that the Store has granted to a call.
func (g *Gate) refuse(p *granted) { g.tell(p, gatestore.End{Of: p.Slot, Turn: true, Place: true}) }

// learn notes a hold that the Store reports, whichever process has begun it.
func (g *Gate) learn(s *scope, until time.Time) {
	if _, inForce := s.held(g.now); !inForce {
		g.beginHold(s)
	}
	g.extend(s, until)
}

// tell reports the end of a call, place or turn to the Store.
func (g *Gate) tell(p *granted, e gatestore.End) {
	e.Of.ID, e.Of.Generations, e.Draws = p.ID, p.Generations, p.draws
	g.ends = append(g.ends, e)
	g.kick()
}

// askedAgain asks the Store whether a call can still be sent, and for other slots if its own are too old.
func (c *call) askedAgain(ask gatestore.Ask) bool {
	g := c.g
	grant, ok, unlock := g.pass(ask)
	defer unlock()
	switch {
	case c.turn == nil || c.turn.granted == nil:
		return false
	case !ok:
		ok = !g.byStore() && !slices.ContainsFunc(c.claims, func(cl *claim) bool { return cl.old(g.now) })
	case len(grant.Answers[0].Slots) > 0:
		ok = c.took(g.granted(grant.Answers[0].Slots[0], ask.Groups[0].Draws))
	default:
		if answer := grant.Answers[0]; answer.Held {
			g.learn(c.claims[answer.Draw].scope, g.now.Add(answer.Again))
		}
		return false
	}
	c.turn.checked = g.now
	return ok
}

// question returns how long an admitted call has to wait for its slot, or what to ask the Store before it is sent.
func (c *call) question() (wait time.Duration, ask gatestore.Ask) {
	g, p := c.g, c.turn.granted
	if took := g.now.Sub(p.checked); !p.met {
		p.met, g.dial = true, min(time.Second, max(took, g.dial-(g.dial-took)/8))
	}
	old := false
	for _, cl := range c.claims {
		old = old || cl.old(g.now)
		wait = max(wait, cl.slot.at.Sub(g.now))
	}
	switch {
	case old:
	case g.now.Add(wait).Sub(p.checked) <= freshTime+g.trip:
		return wait, ask
	case wait > g.trip:
		return wait - g.trip, ask // so that the answer arrives at the time of the slot
	}
	ask = g.askFor(gatestore.Again)
	ask.Groups = []gatestore.Group{{Calls: 1, ID: p.ID, Draws: g.drawsOf(c)}}
	return 0, ask
}

// leave frees everything that this process has in the Store.
func (g *Gate) leave() {
	if g.shared == nil {
		return
	}
	g.locked(func() { g.over = true })
	g.asking.Wait() // so that what these requests are granted is freed too
	if g.stopped != nil {
		g.kick()
		<-g.stopped
	}
	g.cancel()
}
