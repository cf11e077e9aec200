package waitq

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Lines are the callers that wait for permits, in a line for each key. Only the head of a line reserves permits. If it leaves,
// its time goes to the next, so the places of callers that give up do not stay empty. Where a reservation takes so long that
// permits would be lost meanwhile, those reserve as well who can be served within that time. T is what was reserved. The zero
// value has no lines.
type Lines[T any] struct {
	mu    sync.Mutex
	byKey map[string]*line[T]
	n     atomic.Int64 // lines
}

// A Caller asks for permits.
type Caller[T any] struct {
	Weight int64         // permits
	Every  time.Duration // in which the limit gives that many, on average
	Room   int64         // how many permits may be waited for
	Hint   time.Duration // how long the first in line waits, as far as is known
	// After returns how long after the first of some permits the limit gives as many more.
	After func(first, more int64) time.Duration
	// Reserve reserves the permits within a time. It runs in a goroutine of its own, and goes on if the caller leaves.
	Reserve func(ctx context.Context, most time.Duration) (Slot[T], error)
	// Return gives permits back.
	Return func(T)
	// Refuse makes the value of a refusal, after which it is worth to come back.
	Refuse func(retryAfter time.Duration) T
	// Queued is called when the wait begins.
	Queued func()
}

// A Slot is permits that were reserved, or a refusal.
type Slot[T any] struct {
	Value   T
	At      time.Time // when the permits can be used or, after a refusal, could be; zero: never
	Refused bool
	Free    bool // nobody has decided; the caller passes
}

// A line is the waiters of a key.
type line[T any] struct {
	queue     Queue[place[T]]
	due       time.Time     // when the permits of those that are counted can be used
	first     int64         // the permits of the last that was counted
	behind    int64         // permits of those that are not counted
	asking    int           // reservations on their way
	returning int           // refunds on their way: nobody reserves until they are done
	lag       time.Duration // from the time of one waiter to the reservation of the next
	late      time.Duration // how late the last waiter was woken
	open      bool          // nobody decides: everybody asks at once
	far       bool          // the time of the first is too far ahead to be reserved: it asks again later
	changes   int           // of the limit
	back      []func()      // refunds to be made without the lock
}

// A place is the state of a waiter.
type place[T any] struct {
	*Caller[T]
	ctx      context.Context //nolint:containedctx // of the wait
	deadline time.Time       // centuries away if there is none
	ask      *ask[T]         // its reservation is on its way
	held     bool            // it has a slot, and waits for its time
	counted  bool            // in due
	over     bool            // slot and err are the result
	slot     Slot[T]
	err      error
	panicked any
}

// An ask is a reservation on its way.
type ask[T any] struct {
	by, to  *Waiter[place[T]] // who asked; who gets the slot, nil if nobody does
	changes int               // of the limit, before
	last    time.Time         // until when a slot was asked for
}

var errGone = errors.New("the goroutine that reserved permits has ended")

// Has reports whether somebody waits for a key.
func (ls *Lines[T]) Has(key string) bool {
	if ls.n.Load() == 0 {
		return false
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.byKey[key]
	return l != nil && l.queue.Len()+l.asking > 0
}

// line returns the line of a key, and makes it if there is none.
func (ls *Lines[T]) line(key string) *line[T] {
	l := ls.byKey[key]
	if l == nil {
		l = &line[T]{}
		if ls.byKey == nil {
			ls.byKey = map[string]*line[T]{}
		}
		ls.byKey[key] = l
		ls.n.Store(int64(len(ls.byKey)))
	}
	return l
}

// Wait waits for permits at the end of the line of a key, for so long at most. Without an error the slot has permits whose
// time has come, or a refusal. The error is that of Reserve, the cause of ctx, or [core.ErrClosed] if done is closed.
func (ls *Lines[T]) Wait(ctx context.Context, done <-chan struct{}, key string, most time.Duration, c *Caller[T]) (Slot[T], error) {
	now := time.Now()
	l, w, refused := ls.enter(ctx, key, now, most, c)
	if w == nil {
		return refused, nil
	}
	left := false
	defer func() {
		if !left { // Queued has panicked
			ls.leave(key, l, w)
		}
	}()
	c.Queued()
	err := w.Await(ctx, done, func() (time.Duration, bool) { return ls.look(key, l, w) })
	left = true
	if err != nil {
		ls.leave(key, l, w)
		return Slot[T]{}, err
	}
	if w.Value.panicked != nil {
		panic(w.Value.panicked)
	}
	return w.Value.slot, w.Value.err // it has left: no other goroutine writes them
}

func (ls *Lines[T]) enter(
	ctx context.Context, key string, now time.Time, most time.Duration, c *Caller[T],
) (*line[T], *Waiter[place[T]], Slot[T]) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.line(key)
	defer ls.advance(key, l)
	alone := l.queue.Len() == 0
	wait := c.Hint
	if !alone {
		wait = l.wait(now, c)
	}
	if l.queue.Weight()+c.Weight > c.Room || wait > most {
		return nil, nil, Slot[T]{Value: c.Refuse(wait), At: now.Add(wait), Refused: true}
	}
	p := place[T]{Caller: c, ctx: ctx, deadline: now.Add(most), counted: alone}
	if alone {
		l.due, l.first = now.Add(wait), c.Weight
	} else {
		l.behind += c.Weight
	}
	return l, l.queue.Push(p, c.Weight), Slot[T]{}
}

// wait is how long a new caller waits, at least, if nobody leaves.
func (l *line[T]) wait(now time.Time, c *Caller[T]) time.Duration {
	ahead := max(0, l.due.Sub(now))
	return ahead + min(c.After(l.first, l.behind+c.Weight), math.MaxInt64-ahead)
}

// advance lets those reserve whose turn it is, and forgets a line without waiters.
func (ls *Lines[T]) advance(key string, l *line[T]) {
	if l.returning == 0 && !l.far {
		n := math.MaxInt
		if head := l.queue.First(); head != nil && !l.open {
			// One, and as many as the limit serves while one reserves; a twentieth may be lost.
			n = 1 + int(min(float64(l.lag)/float64(max(1, head.Value.Every))+.95, 1<<20))
		}
		for w := range l.queue.All() {
			if n--; n < 0 {
				break
			}
			if !w.Value.held && w.Value.ask == nil {
				ls.ask(key, l, w)
			}
		}
	}
	if l.queue.Len() == 0 && l.asking == 0 && l.returning == 0 && ls.byKey[key] == l { // or the key has another line by now
		if delete(ls.byKey, key); len(ls.byKey) == 0 {
			ls.byKey = nil // a map does not shrink
		}
	}
	ls.n.Store(int64(len(ls.byKey)))
}

// ask reserves permits for w. If w leaves, another waiter for as many gets them, so the time of the last of these counts too. One that can
// wait longer than that asks again.
func (ls *Lines[T]) ask(key string, l *line[T], w *Waiter[place[T]]) {
	a := &ask[T]{by: w, to: w, changes: l.changes}
	w.Value.ask = a
	l.asking++
	other := l.queue.Last() // not all of a long queue for each permit
	for other.Weight != w.Weight {
		other = waiter[place[T]](other.place.Prev())
	}
	last := w.Value.deadline
	if d := other.Value.deadline; d.After(last) {
		last = d
	}
	a.last = last
	ctx, c := w.Value.ctx, w.Value.Caller
	go func() {
		var slot Slot[T]
		err := errGone
		start := time.Now()
		defer func() {
			panicked := recover()
			ls.mu.Lock()
			defer ls.unlock(key, l)
			l.asking--
			l.lag = max(l.lag-l.lag/8, time.Since(start)+l.late)
			if l.deliver(a, slot, err, panicked); l.far {
				time.AfterFunc(max(time.Until(slot.At)/2, time.Millisecond), func() { ls.again(key, l) })
			}
			ls.advance(key, l)
		}()
		ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), last)
		defer cancel()
		slot, err = c.Reserve(ctx, max(0, last.Sub(start)))
	}()
}

// again lets the first ask again whose time was too far ahead.
func (ls *Lines[T]) again(key string, l *line[T]) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l.far = false; ls.byKey[key] == l {
		ls.advance(key, l)
	}
}

// deliver hands over what was reserved.
func (l *line[T]) deliver(a *ask[T], slot Slot[T], err error, panicked any) {
	to := a.to
	if to != nil {
		to.Value.ask = nil
	}
	failed := err != nil || panicked != nil || slot.Free
	l.open, l.far = failed, false
	switch {
	case failed && to == a.by && to != nil && panicked == nil && err != nil && !time.Now().Before(to.Value.deadline):
		l.expire(to)
	case failed && to == a.by && to != nil:
		to.Value.panicked = panicked
		l.finish(to, slot, err)
	case failed: // who gets it now asks again
	case a.changes != l.changes && slot.Refused:
	case a.changes != l.changes:
		l.giveBack(a.by, slot)
	case !slot.Refused:
		l.overtaken(a.by.Weight, slot.At, to)
		l.hand(a.by, slot)
	default:
		late := func(p *place[T]) bool { return slot.At.IsZero() || p.deadline.Before(slot.At) }
		for w := range l.queue.All() {
			if w.Weight == a.by.Weight && !w.Value.held && w.Value.ask == nil && late(&w.Value) {
				l.finish(w, slot, nil)
			}
		}
		l.far = to != nil && !to.Value.over && !to.Value.deadline.After(a.last) // otherwise it can ask for more
	}
}

// overtaken lets the first without a slot have the one that has come, and whose it would have been the slot that the first has asked for:
// requests and replies overtake each other. Whoever cannot wait until at keeps what is on its way.
func (l *line[T]) overtaken(weight int64, at time.Time, by *Waiter[place[T]]) {
	for first := range l.queue.All() {
		p := &first.Value
		switch {
		case first.Weight != weight:
		case p.held: // it gets the earlier one of the two
			if p.slot.At.After(at) {
				at = p.slot.At
			}
		case p.ask == nil:
			return
		case !p.deadline.Before(at):
			if p.ask.to = by; by != nil {
				by.Value.ask = p.ask
			}
			p.ask = nil
			return
		}
	}
}

// hand gives a slot of somebody who may have left to the first who can use it, and back if there is nobody. Those who reserved
// a later time come sooner by it.
func (l *line[T]) hand(of *Waiter[place[T]], slot Slot[T]) {
	now := time.Now()
	for w := range l.queue.All() {
		p := &w.Value
		switch {
		case p.ask != nil, p.held && (w.Weight != of.Weight || !slot.At.Before(p.slot.At)):
		case p.held:
			p.slot, slot = slot, p.slot
			w.Signal()
		case w.Weight != of.Weight:
			l.giveBack(of, slot)
			return
		case p.deadline.Before(slot.At):
			wait := max(0, slot.At.Sub(now))
			l.finish(w, Slot[T]{Value: p.Refuse(wait), At: slot.At, Refused: true}, nil)
		default:
			l.count(w, slot.At)
			p.held, p.slot = true, slot
			if slot.At.After(now) {
				w.Signal()
			} else {
				l.finish(w, slot, nil)
			}
			return
		}
	}
	l.giveBack(of, slot)
}

// count notes when a waiter is served.
func (l *line[T]) count(w *Waiter[place[T]], at time.Time) {
	if at.After(l.due) || w.Value.counted {
		l.due = at
	}
	l.uncount(w)
	w.Value.counted, l.first = true, w.Weight
}

func (l *line[T]) uncount(w *Waiter[place[T]]) {
	if !w.Value.counted {
		l.behind -= w.Weight
	}
}

// finish ends a wait with a result.
func (l *line[T]) finish(w *Waiter[place[T]], slot Slot[T], err error) {
	p := &w.Value
	l.uncount(w)
	p.held, p.counted, p.over, p.slot, p.err = false, true, true, slot, err
	w.Leave()
}

// giveBack returns a slot that nobody can use, when the lock is released.
func (l *line[T]) giveBack(of *Waiter[place[T]], slot Slot[T]) {
	l.returning++
	l.back = append(l.back, func() { of.Value.Return(slot.Value) })
}

// unlock releases the lock and then returns slots; until that is done nobody reserves.
func (ls *Lines[T]) unlock(key string, l *line[T]) {
	back := l.back
	l.back = nil
	ls.mu.Unlock()
	if len(back) > 0 {
		defer ls.returned(key, l, len(back))
		for _, give := range slices.Backward(back) {
			give()
		}
	}
}

func (ls *Lines[T]) returned(key string, l *line[T], n int) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l.returning -= n
	ls.advance(key, l)
}

// look ends a wait whose time has come, or that is too long, and returns the time until it must look again.
func (ls *Lines[T]) look(key string, l *line[T], w *Waiter[place[T]]) (wait time.Duration, over bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	p, now := &w.Value, time.Now()
	switch {
	case p.over:
	case p.held && !now.Before(p.slot.At):
		l.late = now.Sub(p.slot.At)
		l.finish(w, p.slot, nil)
		ls.advance(key, l)
	case !p.held && !now.Before(p.deadline):
		l.expire(w)
		ls.advance(key, l)
	case p.held:
		return p.slot.At.Sub(now), false
	default:
		return p.deadline.Sub(now), false
	}
	return math.MaxInt64, p.over
}

// expire refuses a wait that has reached its deadline.
func (l *line[T]) expire(w *Waiter[place[T]]) {
	now := time.Now()
	wait := max(1, l.due.Sub(now))
	l.drop(w)
	l.finish(w, Slot[T]{Value: w.Value.Refuse(wait), At: now.Add(wait), Refused: true}, nil)
}

// leave takes a waiter out of its line. What it has goes to the next.
func (ls *Lines[T]) leave(key string, l *line[T], w *Waiter[place[T]]) {
	ls.mu.Lock()
	defer ls.unlock(key, l)
	p := &w.Value
	held := p.held || p.over && p.err == nil && p.panicked == nil && !p.slot.Refused && !p.slot.Free
	if !p.over {
		l.drop(w)
		l.finish(w, p.slot, nil)
	}
	if held {
		l.hand(w, p.slot)
	}
	ls.advance(key, l)
}

// drop passes the reservation on that a waiter has asked for.
func (l *line[T]) drop(w *Waiter[place[T]]) {
	a := w.Value.ask
	if a == nil {
		return
	}
	a.to, w.Value.ask = nil, nil
	for next := range l.queue.All() {
		if p := &next.Value; next != w && next.Weight == w.Weight && !p.held && p.ask == nil {
			a.to, p.ask = next, a
			return
		}
	}
}

// AnewOf lets those of a key who have reserved give that back, calls f, which changes what they can get, and lets them reserve again.
// Nobody reserves meanwhile: behind a reservation a refund would give nothing back.
func (ls *Lines[T]) AnewOf(key string, f func()) {
	ls.mu.Lock()
	l := ls.line(key)
	l.retract()
	defer ls.returned(key, l, 1)
	ls.unlock(key, l)
	f()
}

// Anew does that for all keys. Who has begun to wait meanwhile reserves again too.
func (ls *Lines[T]) Anew(f func()) {
	before := ls.retract(nil)
	defer ls.resume(before)
	f()
	ls.resume(ls.retract(before))
}

// retract takes the slots of all waiters away, and returns their lines, in which nobody reserves until they are resumed. Those in done
// stay as they are.
func (ls *Lines[T]) retract(done map[string]*line[T]) map[string]*line[T] {
	if ls.n.Load() == 0 {
		return nil
	}
	ls.mu.Lock()
	all := map[string]*line[T]{}
	for key, l := range ls.byKey {
		if done[key] != l {
			all[key] = l
			l.retract()
		}
	}
	ls.mu.Unlock()
	var returns sync.WaitGroup
	for key, l := range all {
		returns.Go(func() {
			ls.mu.Lock()
			ls.unlock(key, l)
		})
	}
	returns.Wait()
	return all
}

// resume lets the waiters of lines reserve again.
func (ls *Lines[T]) resume(all map[string]*line[T]) {
	for key, l := range all {
		ls.returned(key, l, 1)
	}
}

// retract takes the slots of all waiters away.
func (l *line[T]) retract() {
	l.returning++
	l.changes++
	l.far = false
	counted := l.queue.Weight() - l.behind // those who hold a slot are counted
	l.due, l.first, l.behind = time.Now(), 0, l.queue.Weight()
	for w := l.queue.First(); w != nil && counted > 0; w = waiter[place[T]](w.place.Next()) {
		p := &w.Value
		if p.counted {
			counted -= w.Weight
		}
		if p.counted = false; p.held {
			p.held = false
			l.giveBack(w, p.slot)
		}
	}
}
