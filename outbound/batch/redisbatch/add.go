package redisbatch

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/gresil/gresil/internal/blame"
	"github.com/gresil/gresil/outbound/batch"
)

var addScript = newScript("add") //nolint:gochecknoglobals // a constant

// Limits of one script, and of the records that wait.
const (
	senders  = 2       // scripts of a method that are under way
	maxItems = 256     // records of one script
	maxBytes = 1 << 20 // of their payloads: larger ones go alone
	maxQueue = 1 << 16 // records that wait to be sent
)

var errQueue = errors.New("redisbatch: 65536 records wait to be sent")

// A lane sends the records of one method that arrived while others were under way, together. It has
// goroutines while there is something to send, and no timer.
type lane struct {
	store  *Store
	method string
	mu     sync.Mutex
	queue  []*flight
	items  int // in queue
	busy   int // senders
	last   int // number of the last flight
}

// A flight is records that are sent together.
type flight struct {
	number int
	items  []*item
	size   int           // of the payloads
	done   chan struct{} // closed when all have their results
}

// An item is a record to add.
type item struct {
	rec   *batch.Record
	rules batch.Rules
	own   bool   // its payload is separate
	entry []byte // as in a list, without the arrival
	state atomic.Int32
	added batch.Added
	err   error
}

// MarshalBinary returns the entry, as an argument of a command.
func (it *item) MarshalBinary() ([]byte, error) { return it.entry, nil }

// maxInline is the size of the largest payload that is moved with its record.
const maxInline = 4 << 10

// encode writes the entry.
func (it *item) encode() {
	rec := it.rec
	it.own = rec.Key != "" || len(rec.ReplyTo) > 0 || len(rec.Payload) > maxInline
	b := strconv.AppendInt(it.entry[:0], int64(rec.Size), 10)
	b = strconv.AppendInt(append(b, ' '), int64(len(rec.ID)), 10)
	if it.own {
		it.entry = append(append(b, ':'), rec.ID...)
		return
	}
	it.entry = append(append(append(b, '='), rec.ID...), rec.Payload...)
}

// spare are items that have ended, with their buffers.
var spare = sync.Pool{New: func() any { return &item{} }} //nolint:gochecknoglobals // a cache

// States of an item.
const (
	waiting = iota
	sent
	ended
	abandoned
)

// Add appends a record. See [batch.Store]. Concurrent calls are sent together: at once if fewer than
// two scripts are under way, otherwise after a reply. If ctx ends before the reply, the record might
// have been added.
func (s *Store) Add(ctx context.Context, method string, rec *batch.Record, rules batch.Rules) (batch.Added, error) {
	if ctx.Err() != nil {
		return batch.Added{}, context.Cause(ctx)
	}
	it, _ := spare.Get().(*item)
	it.rec, it.rules, it.err = rec, rules, nil
	it.state.Store(waiting)
	it.encode()
	f := s.lane(method).add(it) //nolint:contextcheck // the record is sent together with those of others
	if f == nil {
		return batch.Added{}, errQueue
	}
	select {
	case <-f.done:
	case <-ctx.Done():
		if it.state.CompareAndSwap(waiting, abandoned) || it.state.CompareAndSwap(sent, abandoned) {
			return batch.Added{}, context.Cause(ctx) // the flight has the item
		}
		<-f.done
	}
	added, err := it.added, it.err
	it.rec = nil
	spare.Put(it)
	return added, err
}

func (s *Store) lane(method string) *lane {
	if l := s.last.Load(); l != nil && l.method == method {
		return l
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lanes[method]
	if l == nil {
		l = &lane{store: s, method: method}
		s.lanes[method] = l
	}
	s.last.Store(l)
	return l
}

// add returns the flight that has the item, or nil if too many wait.
func (l *lane) add(it *item) *flight {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.items >= maxQueue {
		return nil
	}
	var f *flight
	if n := len(l.queue); n > 0 {
		f = l.queue[n-1]
	}
	if f == nil || len(f.items) == maxItems || f.size+len(it.rec.Payload) > maxBytes {
		l.last++
		f = &flight{number: l.last, done: make(chan struct{})}
		l.queue = append(l.queue, f)
	}
	f.items, f.size = append(f.items, it), f.size+len(it.rec.Payload)
	l.items++
	if l.busy < senders {
		l.busy++
		go l.work()
	}
	return f
}

// work sends until nothing waits.
func (l *lane) work() {
	for f, last := l.next(); f != nil; f, last = l.next() {
		if err := l.send(f); err != nil && blame.Timeout(err) && !isPool(err) {
			l.fail(last, err)
		}
	}
}

// send sends a flight, and returns the error of all its items.
func (l *lane) send(f *flight) (err error) {
	groups := grouped(f.items)
	var r reply
	if len(groups) > 0 {
		r, err = l.store.run(context.Background(), addScript, len(groups), l.args(groups))
	}
	for i, g := range groups {
		var of reply
		if err == nil {
			of = r.list(i)
		}
		g.deliver(of, err)
	}
	close(f.done)
	return err
}

// next takes the next flight, or ends the sender if there is none. last is the number of the last flight.
func (l *lane) next() (f *flight, last int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) == 0 {
		l.queue = nil
		l.busy--
		return nil, 0
	}
	return l.take(), l.last
}

// fail ends the flights up to the last one, which have waited for as long as for the reply that did not
// come. Otherwise each would wait for the failures of all before it.
func (l *lane) fail(last int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) > 0 && l.queue[0].number <= last {
		f := l.take()
		(&group{items: f.items}).deliver(nil, err)
		close(f.done)
	}
}

// take removes the first flight of the queue, without items whose callers have left. The lock is held.
func (l *lane) take() *flight {
	f := l.queue[0]
	l.queue[0] = nil
	l.queue = l.queue[1:]
	l.items -= len(f.items)
	f.items = slices.DeleteFunc(f.items, func(it *item) bool { return !it.state.CompareAndSwap(waiting, sent) })
	return f
}

// A group is items that one part of the script adds.
type group struct {
	option string
	rules  batch.Rules
	own    bool // the payloads are separate
	sum    int  // of the sizes
	items  []*item
}

// grouped groups items by their options, in the order of their arrival.
func grouped(items []*item) (groups []*group) {
	type kind struct {
		option string
		rules  batch.Rules
		own    bool
	}
	var at map[kind]*group
	var last *group
	for i, it := range items {
		is := kind{it.rec.Option, it.rules, it.own}
		if last == nil || is != (kind{last.option, last.rules, last.own}) {
			if at == nil {
				at = map[kind]*group{}
			}
			if last = at[is]; last == nil {
				last = &group{option: is.option, rules: is.rules, own: is.own, items: make([]*item, 0, len(items)-i)}
				at[is], groups = last, append(groups, last)
			}
		}
		last.items = append(last.items, it)
		last.sum += it.rec.Size
	}
	return groups
}

// args are the arguments of the script.
func (l *lane) args(groups []*group) []any {
	n := 0
	for _, g := range groups {
		if n += 7 + len(g.items); g.own {
			n += 4 * len(g.items)
		}
	}
	args := l.store.begin(make([]any, 0, head+n), l.method)
	for _, g := range groups {
		args = append(args, g.option, g.rules.FlushSize, g.rules.MaxPending, g.rules.MaxGroups, g.sum, flag(g.own), len(g.items))
		for _, it := range g.items {
			args = append(args, it)
			if g.own {
				args = append(args, it.rec.Payload, kindOf(it.rec), &it.rec.Key, addresses(it.rec.ReplyTo))
			}
		}
	}
	return args
}

func kindOf(rec *batch.Record) string {
	if rec.UntilDone {
		return "d"
	}
	return "f"
}

func addresses(to []batch.Address) string {
	var b []byte
	for _, a := range to {
		b = appendField(appendField(b, a.Process), a.Call)
	}
	return string(b)
}

// deliver gives each item its result.
func (g *group) deliver(r reply, err error) {
	if err == nil && len(r) < 2 {
		err = errReply
	}
	for _, it := range g.items {
		it.err = err
		if err == nil {
			it.added = batch.Added{ID: it.rec.ID, Due: r.int(0) == 1}
		}
	}
	if err == nil {
		g.except(r.list(1))
	}
	for _, it := range g.items {
		it.state.CompareAndSwap(sent, ended)
	}
}

// except changes the results of items that were not appended.
func (g *group) except(others reply) {
	for n := 0; n+1 < len(others); n += 2 {
		place, id := int(others.int(n)), others.text(n+1)
		switch {
		case place == 0:
			for _, it := range g.items {
				it.added, it.err = batch.Added{}, batch.ErrGroups
			}
		case place > len(g.items): // no script of ours
		case id == "":
			g.items[place-1].added, g.items[place-1].err = batch.Added{}, batch.ErrFull
		default:
			g.items[place-1].added.ID, g.items[place-1].added.Replaced = id, true
		}
	}
}
