package gate

import (
	"context"
	"crypto/rand"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gresil/gresil/internal/gatestore"
)

// A Store shares gates between processes. *redisstore.Store is one; there are no others.
type Store = gatestore.Store

const (
	freshTime  = 50 * time.Millisecond // beside a round trip, for which an admission by the Store needs no second question
	leaseTime  = 10 * time.Second      // of places and turns, and for which a process uses its share of the limits by itself
	renewEvery = 3 * time.Second
	retryEvery = 500 * time.Millisecond // while the Store is unavailable
	maxAsk     = 128                    // calls that are asked for at once
	maxEnds    = 128                    // that are sent at once
	unknown    = math.MaxUint64         // generation
)

// shared is what a gate with a Store has in addition. The Store decides what this process may send; the gate keeps the holds that it
// knows, and decides by itself while the Store is unavailable. All but the first fields is guarded by the lock of the gate.
type shared struct {
	table   gatestore.Table
	process string
	ctx     context.Context //nolint:containedctx // of all requests
	cancel  context.CancelFunc
	kick    chan struct{} // there is something to send
	stop    chan struct{}
	stopped chan struct{} // nil until the first use
	over    bool
	asking  sync.WaitGroup

	classes map[string]*class
	due     []*class // that may ask
	granted []*class // that have grants, or no call any more
	reports []report // that are not sent
	ends    []gatestore.End
	sending bool // holds
	flights map[*turn]struct{}

	trip   time.Duration // of a request
	dial   time.Duration // from a grant until the call is connected
	state  gatestore.State
	proven time.Time // until when the state is good enough
	failed error     // nil: the Store is available
	since  time.Time // of failed
	errors uint64
}

// A class has the calls that want the same, and what the Store has granted them.
type class struct {
	scope // for its queue of calls, and for when to ask again

	claims []claim
	asking bool
	poll   bool // it waits for a place or turn
	grants []*granted
}

// granted is the permission for one call.
type granted struct {
	gatestore.Slot

	at      time.Time // of the slot
	checked time.Time // when the Store has said so
	place   bool
	met     bool     // the call is connected
	seen    []uint64 // the generations of this process
	claims  []claim
}

func newShared(table gatestore.Table) *shared {
	ctx, cancel := context.WithCancel(context.Background())
	return &shared{
		ctx: ctx, cancel: cancel, table: table, process: rand.Text(), kick: make(chan struct{}, 1), stop: make(chan struct{}),
		classes: map[string]*class{}, flights: map[*turn]struct{}{},
	}
}

// byStore reports whether the Store decides, or would if it were available. It is false while it is unavailable and this process may
// send by itself.
func (g *Gate) byStore() bool {
	sh := g.shared
	return sh != nil && (sh.failed == nil || !g.settings().AllowOnStoreError && !g.now.Before(sh.proven))
}

// share returns what this process may use of a limit by itself.
func (g *Gate) share(name string) *limit {
	l := g.settings().find(name)
	if l == nil || g.shared == nil || g.settings().AllowOnStoreError {
		return l
	}
	own := *l
	own.burst, own.spacing = 1, span(int64(max(1, g.state.Processes)), l.spacing)
	return &own
}

// floorOf returns when this process can use its share of a limit first: others can have used the whole limit until the Store failed.
func (g *Gate) floorOf(l *limit) time.Time {
	if l == nil || g.shared == nil || g.failed == nil || g.settings().AllowOnStoreError {
		return time.Time{}
	}
	return g.since.Add(l.spacing)
}

// places returns how many places this process may use by itself; 0 is no limit.
func (g *Gate) places() (n int, limited bool) {
	if g.shared == nil || g.settings().AllowOnStoreError {
		return g.limit, g.limit > 0
	}
	return g.state.MaxInFlight / max(1, g.state.Processes), g.most > 0
}

// classOf returns the class of a call.
func (g *Gate) classOf(c *call) *class {
	var id strings.Builder
	for _, cl := range c.claims {
		cost := cl.cost
		if !cl.old(g.now.Add(g.trip)) {
			cost = 0 // it has a slot
		}
		fmt.Fprintf(&id, "%q%q%d ", cl.name, cl.key, cost)
	}
	cls := g.classes[id.String()]
	if cls == nil {
		cls = &class{scope: scope{scopeID: scopeID{name: id.String()}, index: -1}, claims: slices.Clone(c.claims)}
		g.classes[id.String()] = cls
	}
	return cls
}

// byGrant admits a call by a grant of its class, or has it wait for one.
func (g *Gate) byGrant(c *call) {
	if c.pool != nil && c.conn == nil && c.pool.room() == 0 {
		g.park(c, c.pool.waiting())
		return
	}
	cls := g.classOf(c)
	for len(cls.grants) > 0 {
		p := cls.grants[0]
		cls.grants = cls.grants[1:]
		if g.usable(p, c.claims) {
			if c.pool != nil && c.conn == nil {
				c.pool.take(c) // there is room
			}
			g.admitBy(c, p)
			return
		}
		g.giveBack(p, c.claims)
	}
	c.class = cls
	g.park(c, &cls.parked)
	g.due(cls)
}

// due has a class ask, unless it is too early.
func (g *Gate) due(cls *class) {
	if !cls.asking && !cls.wake.After(g.now) {
		g.shared.due = append(g.shared.due, cls)
	}
}

// usable reports whether nothing has happened since a grant that makes it void.
func (g *Gate) usable(p *granted, claims []claim) bool {
	for i, cl := range claims {
		if cl.gen != p.seen[i] || p.Taken[i] && g.now.After(p.at.Add(g.settings().slack()/2)) {
			return false
		}
	}
	return true
}

// admitBy lets a call pass by a grant.
func (g *Gate) admitBy(c *call, p *granted) {
	p.claims = c.claims
	g.begin(c, &turn{granted: p})
	for i := range c.claims {
		cl := &c.claims[i]
		cl.seen, cl.stored, cl.paced = p.seen[i], p.Generations[i], false
		if p.Taken[i] {
			cl.slot = slot{at: p.at} // that put ignores
			if cl.counts(cl.cost) {  // or the first call by itself comes too early after it
				cl.tail = later(cl.tail, p.at.Add(span(cl.cost, cl.spacing)))
			}
		}
	}
	if p.place {
		g.flights[c.turn] = struct{}{}
	}
}

// connected notes how long a call takes until it is connected.
func (sh *shared) connected(p *granted, took time.Duration) {
	if p.met {
		return
	}
	if p.met = true; took > sh.dial {
		sh.dial = min(took, time.Second)
	} else {
		sh.dial -= (sh.dial - took) / 8
	}
}

// askAll gives back what no call needs, and has the classes ask that are due.
func (g *Gate) askAll() {
	sh := g.shared
	if sh == nil {
		return
	}
	for _, cls := range sh.granted {
		for _, p := range cls.grants {
			g.giveBack(p, cls.claims)
		}
		cls.grants = nil
		g.forget(cls)
	}
	due := sh.due
	sh.granted, sh.due = nil, nil
	for _, cls := range due {
		n := min(len(cls.parked), maxAsk)
		if n == 0 || cls.asking || sh.failed != nil || sh.sending || len(sh.reports) > 0 || sh.over {
			g.forget(cls) // or it asks later
			continue
		}
		c := cls.parked[0]
		if g.settings().Limiter != nil {
			n = 1
		}
		if c.pool != nil && c.conn == nil {
			n = min(n, c.pool.room())
		}
		g.start()
		cls.asking, cls.claims = true, slices.Clone(c.claims) // what they had when the class was made can be forgotten
		ask := g.askFor(c, gatestore.Pass)
		ask.Calls = n
		seen := g.generations(cls.claims)
		sh.asking.Go(func() { g.ask(cls, ask, seen) })
	}
}

func (g *Gate) forget(cls *class) {
	if len(cls.parked) == 0 && !cls.asking && len(cls.grants) == 0 {
		if cls.index >= 0 {
			g.wakes.remove(cls.index)
		}
		delete(g.classes, cls.name)
	}
}

func (g *Gate) generations(claims []claim) (all []uint64) {
	for _, cl := range claims {
		all = append(all, cl.gen)
	}
	return all
}

// askFor returns the question of a call.
func (g *Gate) askFor(c *call, mode gatestore.Mode) gatestore.Ask {
	sh := g.shared
	ask := gatestore.Ask{Process: sh.process, Mode: mode, Calls: 1, InFlight: g.most, RoundTrip: sh.trip}
	ask.Late = mode == gatestore.Pass && sh.dial > freshTime/2 // or the slots would be too old when the calls are connected
	ask.Ahead = sh.trip + max(sh.trip, 10*time.Millisecond)    // as many calls as one round trip carries
	for _, cl := range c.claims {
		d := gatestore.Draw{Key: cl.shared(), Generation: cl.stored}
		if l := g.settings().find(cl.name); !cl.vendor && l != nil && l.N > 0 && cl.cost > 0 && cl.old(g.now.Add(sh.trip)) {
			d.Spacing, d.Lead = span(cl.cost, l.spacing), span(l.burst-cl.cost, l.spacing)
		}
		ask.Draws = append(ask.Draws, d)
	}
	return ask
}

func (id scopeID) shared() gatestore.Key {
	return gatestore.Key{Vendor: id.vendor, Limit: id.name, Key: id.key}
}

// old reports whether a claim has no slot that is good at a time.
func (cl *claim) old(at time.Time) bool {
	return cl.slot.at.IsZero() || cl.limit != nil && at.After(cl.slot.at.Add(cl.shelf))
}

// ask asks for calls of a class.
func (g *Gate) ask(cls *class, ask gatestore.Ask, seen []uint64) {
	sh := g.shared
	grant, begun, err := g.pass(ask)
	defer g.lock()()
	cls.asking, cls.wake = false, time.Time{}
	if !g.heard(grant.State, begun, err) {
		g.due(cls)
		return
	}
	for _, slot := range grant.Slots {
		cls.grants = append(cls.grants, g.granted(slot, ask, seen))
		g.ripe(&cls.parked)
	}
	sh.granted = append(sh.granted, cls)
	for i := range cls.claims {
		if s := g.scopes[cls.claims[i].scopeID]; s != nil && s.gen == seen[i] && len(grant.Slots) > 0 && s.hold != nil && g.now.Before(s.hold.until) {
			g.release(s) // another process has ended it
		}
	}
	if cls.poll = grant.Poll; grant.Again <= 0 {
		g.due(cls)
		return
	}
	again := g.now.Add(grant.Again)
	of := cls.claims[grant.Draw].scopeID
	switch {
	case grant.Held:
		g.learn(g.scope(of), again, grant.Generation)
		for len(cls.parked) > 0 {
			g.ripe(&cls.parked)
		}
		return
	case !grant.Poll:
		g.refuseIn(cls, again, of.name)
		again = again.Add(-sh.trip*3/2 - 5*time.Millisecond)
		again = later(again, g.now.Add(time.Millisecond))
	default:
		g.refuseIn(cls, g.now, "") // that do not wait
	}
	g.wake(&cls.scope, again)
}

// pass sends a question.
func (g *Gate) pass(ask gatestore.Ask) (grant gatestore.Grant, begun time.Time, err error) {
	begun = time.Now()
	grant, err = g.table.Pass(g.ctx, ask)
	return grant, begun, err
}

// granted notes a slot that the Store has given.
func (g *Gate) granted(slot gatestore.Slot, ask gatestore.Ask, seen []uint64) *granted {
	return &granted{Slot: slot, at: g.now.Add(slot.At), checked: g.now, place: ask.InFlight > 0 && ask.Mode != gatestore.Reserve, seen: seen}
}

// refuseIn refuses those of a class that have to be sent before a time.
func (g *Gate) refuseIn(cls *class, before time.Time, limit string) {
	for _, c := range slices.Clone(cls.parked) {
		if !c.deadline.IsZero() && c.deadline.Before(before) {
			g.unqueue(c)
			c.grant(c.limited(before, limit))
		}
	}
}

// learn notes a hold that the Store has, whatever process has begun it.
func (g *Gate) learn(s *scope, until time.Time, gen uint64) {
	if s.stored != gen {
		s.stored = gen
		s.gen++
	}
	g.extend(s, until)
}

// giveBack ends what no call uses.
func (g *Gate) giveBack(p *granted, claims []claim) {
	if p.place || p.Turn {
		g.tell(p, claims, p.Turn, p.place, false)
	}
}

// tell has the Store told of an end.
func (g *Gate) tell(p *granted, claims []claim, turn, place, success bool) {
	e := gatestore.End{ID: p.ID, Turn: turn, Place: place, Success: success, Generations: p.Generations}
	for _, cl := range claims[:len(p.Generations)] {
		e.Keys = append(e.Keys, cl.shared())
	}
	g.ends = append(g.ends, e)
	g.kick()
}

// reuse gives what a call has got from the Store, and does not use, to another one.
func (g *Gate) reuse(c *call) bool {
	p := c.turn.granted
	if len(p.seen) != len(c.claims) || g.now.Sub(p.checked) > freshTime || !g.usable(p, c.claims) {
		return false
	}
	for i := range c.claims {
		c.claims[i].slot = slot{}
	}
	cls := g.classOf(c)
	if len(cls.parked) == 0 {
		g.forget(cls)
		return false
	}
	cls.grants = append(cls.grants, p)
	g.shared.granted = append(g.shared.granted, cls)
	g.ripe(&cls.parked)
	return true
}

// askedAgain asks whether a call can still be sent, and takes other slots if its own are too old.
func (c *call) askedAgain(ask gatestore.Ask) bool {
	g := c.g
	grant, begun, err := g.pass(ask)
	defer g.lock()()
	available := g.heard(grant.State, begun, err)
	p := (*granted)(nil)
	if c.turn != nil {
		p = c.turn.granted
	}
	switch {
	case p == nil:
		return false
	case !available:
		fresh := !slices.ContainsFunc(c.claims, func(cl claim) bool { return cl.counts(cl.cost) && cl.old(g.now) })
		if !fresh || g.byStore() {
			return false
		}
	case grant.Held:
		g.learn(g.scope(c.claims[grant.Draw].scopeID), g.now.Add(grant.Again), grant.Generation)
		return false
	case len(grant.Slots) == 0:
		return false
	default:
		for i, taken := range grant.Slots[0].Taken {
			if taken {
				c.claims[i].slot = slot{at: g.now.Add(grant.Slots[0].At)}
			}
		}
	}
	p.checked = g.now
	return true
}

// question returns how long a call that has passed has to wait for its slot, or what to ask before it is sent.
func (c *call) question() (wait time.Duration, ask gatestore.Ask) {
	g, p := c.g, c.turn.granted
	g.connected(p, g.now.Sub(p.checked))
	old := false
	for i := range c.claims {
		cl := &c.claims[i]
		if cl.counts(cl.cost) {
			old = old || cl.old(g.now)
			wait = max(wait, cl.slot.at.Sub(g.now))
		}
	}
	switch {
	case old:
	case g.now.Add(wait).Sub(p.checked) <= freshTime+g.trip:
		return wait, ask
	case wait > g.trip:
		return wait - g.trip, ask // the answer is here at the slot
	}
	ask = g.askFor(c, gatestore.Again)
	ask.ID = p.ID
	return 0, ask
}

// leave gives what this process has in the Store back.
func (g *Gate) leave() {
	sh := g.shared
	if sh == nil {
		return
	}
	unlock := g.lock()
	first, stopped := !sh.over, sh.stopped
	sh.over = true
	unlock()
	sh.asking.Wait() // what it is granted is given back
	if first && stopped != nil {
		close(sh.stop)
	}
	if stopped != nil {
		<-stopped
	}
	sh.cancel()
}

// bookShared is book with a Store. It reports whether it was available.
func (p *Permit) bookShared() (booked bool, err error) {
	c, g := p.c, p.c.g
	unlock := g.lock()
	if !g.byStore() {
		unlock()
		return false, nil
	}
	ask, most := g.askFor(c, gatestore.Reserve), g.settings().MaxWait
	if most > 0 {
		ask.Ahead = max(most, ask.Ahead)
	} else if most == 0 {
		ask.Ahead = longestSpan
	}
	full := len(g.calls)-g.flying > g.settings().MaxQueue
	unlock()
	if full {
		return false, ErrFull
	}
	grant, begun, err := g.pass(ask)
	defer g.lock()()
	switch ok := g.heard(grant.State, begun, err); {
	case !ok && g.byStore():
		return false, g.storeError(err)
	case !ok:
		return false, nil
	case len(grant.Slots) == 0:
		return false, c.limited(g.now.Add(grant.Again), c.claims[grant.Draw].name)
	}
	p.At = g.now.Add(grant.Slots[0].At)
	for i, taken := range grant.Slots[0].Taken {
		if taken {
			c.claims[i].slot = slot{at: p.At}
		}
	}
	return true, nil
}

// early is how long before its slot a call asks whether it can be sent.
func (g *Gate) early() time.Duration {
	if g.shared == nil {
		return 0
	}
	defer g.lock()()
	return 2 * g.trip
}
