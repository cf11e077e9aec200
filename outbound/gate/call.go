package gate

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/gresil/gresil/internal/gatestore"
)

// A call is an accepted call with all of its attempts. It belongs to one goroutine, apart from the fields that the lock of the gate guards.
type call struct {
	g      *Gate
	ctx    context.Context //nolint:containedctx // a call is made in one function; Close ends it
	cancel context.CancelCauseFunc
	seq    uint64 // calls are served in this order; a repeated call keeps its number, and permits of Reserve come first
	claims []*claim
	pooled

	background bool // see class

	asks     bool     // it waits for the Store only
	given    *granted // with slots of the Store that no request has used yet; nil if there are none
	turn     *turn    // of the last admission; nil if it was undone
	seen     uint64   // the clock at that admission, or when the Store was asked for it; at first, when the call was accepted
	token    bool
	since    time.Time     // of the wait
	deadline time.Time     // of the wait
	queue    *queue        // in which it waits
	granted  chan struct{} // closed when the wait is over; nil if no goroutine waits
	err      error         // of the wait
	attempts int           // made so far
	last     error         // of the last attempt
	tried    bool          // its answer, which is being read, has begun trial holds

	permits int   // given to functions so far, of which only the last one can be used
	used    bool  // a request has used the permit that the context carries
	refused bool  // the last request to use it was refused
	final   bool  // a request under the context is not to be sent again, by whomever
	counted bool  // judge has counted a request with it
	outer   *call // the call under whose context this one is made, if that had used its permit; nil if none
	passed  bool  // the last call under the context was not refused

	record *record // of the context; nil if there is none
}

// unreserved is added to the number of each call that is no permit of Reserve.
const unreserved = 1 << 63

// weigh counts a waiting call, and its cost in the units of its keys, or takes it off. A call in the queue of one key counts for that key
// only: when it will need the others is not known. One that the Store is asked about can be in flight any time; when it is taken off, fly
// wakes those that wait for it.
func (c *call) weigh(sign int) {
	here := func(cl *claim) bool { return c.queue == &cl.parked }
	apart, asked := slices.ContainsFunc(c.claims, here), c.g.shared != nil && c.queue == &c.g.asked
	for _, cl := range c.claims {
		if asked {
			c.g.fly(cl, sign)
		}
		if !apart || here(cl) {
			cl.units[c.class()] += int64(sign) * cl.cost
		}
	}
	if asked {
		for q := range c.queues {
			q.asked += sign * c.passes()
		}
	}
	c.g.waiting[c.class()] += sign
}

// A claim is the part that a call takes of a scope.
type claim struct {
	*scope

	route  gatestore.Key // the key before the vendor named its bucket
	cost   int64
	stored uint64 // the generation in the Store at the admission
	slot   slot
	paced  bool // the admission was counted
}

// accept accepts a call under ctx; end ends the call.
func (g *Gate) accept(ctx context.Context, wants []want) (*call, error) {
	defer g.lock()()
	if g.drained != nil {
		g.stats.Rejected++
		return nil, ErrClosed
	}
	g.seq++
	c := &call{g: g, seq: g.seq + unreserved, seen: g.clock, background: ctx.Value(backgroundKey{}) != nil, record: g.carried(ctx).record}
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	g.calls[c] = true
	for _, w := range wants {
		c.claim(w)
	}
	return c, nil
}

// claim adds a claim, or changes its cost.
func (c *call) claim(w want) {
	i := slices.IndexFunc(c.claims, func(cl *claim) bool { return cl.route == w.Key })
	if i < 0 {
		s := c.g.scope(c.g.bucket(w.Key))
		s.calls++
		c.claims = append(c.claims, &claim{scope: s, route: w.Key, cost: w.cost})
		return
	}
	if cl := c.claims[i]; cl.cost != w.cost {
		cl.cost = w.cost
		if p := cl.slot.by; p != nil { // the slot is for another cost
			of := gatestore.Slot{Time: p.Time, Marks: make([]uint64, len(p.Marks))}
			of.Marks[i], p.Marks[i], cl.slot = p.Marks[i], 0, slot{}
			c.g.tell(p, gatestore.End{Of: of})
			c.g.urgent = len(c.g.ends) // so that the next request can get it
		}
	}
}

// end ends the call. It can be called again.
func (c *call) end() {
	g := c.g
	c.cancel(nil) // a request that the function has left behind is not admitted any more
	defer g.lock()()
	if !g.calls[c] {
		return
	}
	if c.queue != nil {
		g.move(c, nil)
	}
	if c.attempts == 0 {
		g.stats.Rejected++
	}
	g.leaveRamp(c, false)
	g.land(c.turn)
	if c.given != nil && c.turn == nil { // else perhaps it was sent
		g.tell(c.given, gatestore.End{Of: c.given.Slot})
	}
	c.turn = nil
	delete(g.calls, c)
	for _, cl := range c.claims {
		cl.calls--
		g.drop(cl.scope)
	}
	if g.drained != nil && len(g.calls) == 0 {
		close(g.drained)
	}
}

// pass waits until the call is admitted.
func (c *call) pass(ctx context.Context) error {
	wait, err := c.enqueue(ctx)
	if wait == nil {
		return err
	}
	most := renewEvery // the answer of the Store is known by then
	if end, has := ctx.Deadline(); !c.asks {
		if most = time.Until(c.deadline); has && end.Equal(c.deadline) {
			most += pad // so that the context ends first, if its deadline does end it
		}
	}
	c.sleep(ctx, most, wait)
	defer c.g.lock()()
	err = c.over(ctx)
	switch {
	case c.queue != nil:
		if c.g.move(c, nil); err == nil {
			at, limit, _ := c.estimate()
			for _, cl := range c.claims {
				if until := c.g.quotaWait(c, cl); until.After(at) {
					at, limit = until, cl.Limit
				}
			}
			err = c.limited(at, limit)
		}
		if c.g.shared != nil && c.g.failed != nil && c.g.byStore() && c.attempts == 0 {
			err = c.g.storeError(err)
		}
	case c.err != nil:
		err = c.err
	case err != nil && c.g.calls[c]: // it was admitted meanwhile
		c.g.undo(c)
	}
	return err
}

// over returns the error of a call whose context has ended.
func (c *call) over(ctx context.Context) error {
	switch cause := context.Cause(c.ctx); { //nolint:contextcheck // Close ends it
	case cause == errCut && c.attempts == 0: //nolint:errorlint // it is the one of Close
		return ErrClosed
	case ctx.Err() != nil:
		return context.Cause(ctx)
	default:
		return cause
	}
}

// until returns the time by which a wait that begins now has to end. The deadline of the call itself, which can be earlier than that of a
// request under its permit, limits the wait only until something was sent.
func (c *call) until(ctx context.Context) time.Time {
	end := c.g.now.Add(min(max(0, cmp.Or(c.g.settings().MaxWait, longestSpan)), longestSpan))
	if deadline, has := ctx.Deadline(); has && !end.Before(deadline) {
		end = deadline
	}
	if deadline, has := c.ctx.Deadline(); has && c.attempts == 0 && deadline.Before(end) {
		end = deadline
	}
	return end
}

// enqueue adds the call to the queue, and admits it at once if possible: then wait is nil. The error is that of a call that cannot wait.
func (c *call) enqueue(ctx context.Context) (wait <-chan struct{}, err error) {
	g := c.g
	defer g.lock()()
	if err = c.over(ctx); err != nil {
		return nil, err
	}
	c.deadline = c.until(ctx)
	at, limit, ok := c.estimate()
	if !ok || at.After(c.deadline) {
		return nil, c.limited(at, limit)
	}
	first := c.since.IsZero()
	c.since, c.granted, c.err = g.now, nil, nil
	g.ready.add(c)
	g.serve()
	if c.queue == nil {
		return nil, c.err
	}
	full, no := first && g.waiting[interactive]+c.class()*g.waiting[background] > g.settings().MaxQueue, g.settings().MaxWait < 0
	c.asks = no && g.shared != nil && g.failed == nil && (c.queue == &g.asked || c.queue == &g.ready)
	if full || no && !c.asks {
		if g.move(c, nil); full {
			return nil, ErrFull
		}
		return nil, c.limited(at, limit)
	}
	c.granted = make(chan struct{})
	return c.granted, nil
}

// estimate returns the earliest time at which the call can be sent, as far as that is known, and the limit that decides it. It counts a
// call that has not waited yet as the last of its class, any other as the first, and no calls of the other class, since nothing tells how
// many of these go before it. ok is false if there is no such time.
func (c *call) estimate() (at time.Time, limit string, ok bool) {
	last, ahead, class := c.since.IsZero() && c.seq >= unreserved, 0, c.class()
	if last {
		for q := range c.queues { // calls in the queues of other keys can come later
			ahead += len(q.calls[class])
		}
	}
	for _, cl := range c.claims {
		own := c.free(cl)
		if last && cl.counts() {
			if !c.g.byStore() {
				free := max(0, own.Sub(cl.ahead(later(cl.tail, own), cl.cost))) // what is left of the burst
				own = own.Add(max(0, span(cl.units[class], cl.spacing)-free))
			} else if c.g.settings().MaxWait >= 0 { // at least: calls of other processes can wait too
				own = later(own, c.g.now.Add(span(cl.units[class]+cl.cost-cl.burst, cl.spacing)))
			}
		}
		if own.After(at) {
			at, limit = own, cl.Limit
		}
	}
	token, ok := c.g.tokenFor(ahead)
	if !token.Before(at) {
		at, limit = token, ""
	}
	return at, limit, ok
}

// free returns the earliest time at which a claim can be met.
func (c *call) free(cl *claim) time.Time {
	at := c.g.now
	if held, ok := cl.held(at); ok && !c.g.stale(cl.hold) {
		at = held
	}
	if c.g.byStore() { // it gives slots for one round trip ahead
		if r := cl.refused[c.class()]; cl.old(at) && r.quiet.After(c.g.now) {
			at = later(at, r.known)
		}
		return at
	}
	if at = later(at, cl.slot.at); cl.old(at) {
		at, _ = cl.next(cl.cost, at)
	}
	return at
}

// limited returns the error of a call that has to wait until a time.
func (c *call) limited(at time.Time, limit string) error {
	e := &LimitedError{Gate: c.g.Name(), Limit: limit, Err: c.last}
	if at.After(c.g.now) {
		e.Until = at
	}
	return e
}

// ready is the last check right before the send: it reports whether no hold has begun since the admission, and the turn was not given up.
// If slots is true, it also takes the slots of the call and waits for their time.
func (c *call) ready(ctx context.Context, slots bool) bool {
	for {
		var wait time.Duration
		var ask gatestore.Ask
		unlock := c.g.lock()
		ok := c.turn != nil && c.turn.flying && ctx.Err() == nil && c.current()
		switch {
		case !ok || !slots:
		case c.turn.granted != nil:
			wait, ask = c.question()
		default:
			wait = c.takeSlots()
		}
		unlock()
		switch {
		case !ok:
			return false
		case len(ask.Groups) > 0:
			if !c.askedAgain(ask) {
				return false
			}
		case wait <= 0:
			return true
		case !c.sleep(ctx, wait, nil):
			return false
		}
	}
}

// current reports whether no hold on a key of the call has begun since its admission.
func (c *call) current() bool {
	return !slices.ContainsFunc(c.claims, func(cl *claim) bool { return cl.begun > c.seen })
}

// charge takes the slots of a call that was sent without them, since the gate did not see when it was sent.
func (c *call) charge() {
	if c.turn != nil && c.turn.granted == nil && !slices.ContainsFunc(c.claims, func(cl *claim) bool { return !cl.slot.at.IsZero() }) {
		c.takeSlots()
	}
}

// takeSlots takes a slot for each claim that has none, or whose slot is too old, and returns the time until the last of the slots.
func (c *call) takeSlots() (wait time.Duration) {
	for _, cl := range c.claims {
		if cl.old(c.g.now) {
			cl.slot = cl.take(cl.cost, c.g.now)
		}
		wait = max(wait, cl.slot.at.Sub(c.g.now))
	}
	return wait
}

// spend clears the slots of a call, since a request that may have been sent has used them.
func (c *call) spend() {
	c.given = nil
	for _, cl := range c.claims {
		cl.slot = slot{}
	}
}

// sleep waits for d, or until a channel is closed. It reports whether no context has ended before that.
func (c *call) sleep(ctx context.Context, d time.Duration, until <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-until:
		return true
	case <-ctx.Done():
	case <-c.ctx.Done(): // by Close
	}
	return false
}

// back undoes the admission of a call that was not sent, and gives back its slots, if it has any.
func (c *call) back() {
	defer c.g.lock()()
	if c.g.calls[c] {
		c.g.undo(c)
	}
}

// judge counts an attempt and applies its answer, if there was one. land frees the place of the call.
func (c *call) judge(sig Signal, success bool, err error) {
	g := c.g
	defer g.lock()()
	if !g.calls[c] {
		return
	}
	c.attempts++
	g.stats.Sent++
	c.refused, c.final = sig.again(), c.final || sig.forGood()
	if sig.Limited || sig.Permanent {
		g.refusal(sig.Reason)
	}
	if sig.Limited {
		g.stats.Limited++
		c.last, success = err, false
	}
	g.apply(c, sig)
	if c.outer != nil {
		c.outer.passed, c.outer.final = success, c.outer.final || c.final
	}
	if g.leaveRamp(c, success); success && c.current() {
		if g.grow(); c.turn != nil {
			c.turn.success = true
		}
	}
	c.sent()
	c.spend()
	c.token, c.counted = false, true
}

// hold begins a hold outside of judge: because of an error of the function, or without one on trial, while an answer is being read.
func (c *call) hold(sig Signal, err error) {
	defer c.g.lock()()
	switch {
	case !sig.Limited || !c.g.calls[c]:
	case err == nil:
		c.tried = true
		c.g.stop(c, sig, onTrial)
	default:
		c.g.apply(c, sig)
		c.last = err
	}
}

// admitted returns the present turn of the call: an abandoned request must not read it without the lock.
func (c *call) admitted() *turn {
	c.g.mu.Lock()
	defer c.g.mu.Unlock()
	return c.turn
}

// again prepares another attempt of a call that was refused. It returns an error if the attempts are used up, or the next one would have to
// wait too long.
func (c *call) again(ctx context.Context, n int) error {
	g := c.g
	defer g.lock()()
	if err := c.over(ctx); err != nil {
		return err
	}
	at, limit, ok := c.estimate()
	if end := c.until(ctx); n >= g.settings().MaxAttempts || !ok || at.After(end) {
		return c.limited(at, limit)
	}
	g.land(c.turn)
	c.turn = nil
	c.useBuckets()
	c.putConn()
	return nil
}
