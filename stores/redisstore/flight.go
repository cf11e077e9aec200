package redisstore

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/failover"
	"github.com/gresil/gresil/internal/limits"
)

// exchange sends items until ctx ends, and gives them their results. If the context of the caller has ended, a failure does not count
// against the server. Items whose value the script could not read are sent again in the same order, before all others on their keys.
func (t trip) exchange(ctx, caller context.Context, batch []*request) {
	n, outcome, written := t.node, core.Ignored, true
	defer func() { t.ended(outcome, written) }() //nolint:contextcheck // connections are made for later requests
	if len(batch) > 0 {                          // otherwise all callers have left
		n.wait(ctx)
	}
	for rest := batch; len(rest) > 0; {
		flights := n.flights(rest)
		began, failed := time.Now(), false
		n.fly(ctx, flights)
		took := time.Since(began)
		if rest[0].plan != nil { // a heartbeat is no operation
			n.store.counters.trip(len(rest), took)
		}
		rest = nil
		for _, f := range flights {
			err := n.named(f.cmd.Err())
			switch {
			case err == nil:
				outcome = core.Success // every reply shows that it is available
			case outcome == core.Ignored:
				outcome, written = outcomeOf(err), f.cmd.keys.written
			}
			failed = failed || err != nil && !isServerError(err)
			rest = append(rest, n.deliver(f, err)...)
		}
		if !failed {
			n.observe(took)
		}
	}
	if outcome == core.Failure && hasEnded(caller) {
		outcome = core.Ignored
	}
}

// deliver gives the items of a flight their results, and refunds the permits of those whose callers have left. It
// returns the items to send again.
func (n *node) deliver(f *flight, err error) (rest []*request) {
	if err != nil {
		err = explain(err, f.cmd.keys.written)
	}
	for i, it := range f.items {
		var r limits.Result
		ok, why := false, err
		if err == nil {
			r, ok, why = f.result(i)
		}
		if why == nil && !ok && it.state.Load() == sent && it.general() {
			n.store.odd.note(n.store.hash(it.key))
			rest = append(rest, it)
			continue
		}
		if it.end(r, ok, why) {
			continue
		}
		if back := it.undo(r); back != nil {
			_ = n.store.laneOf(back.key).add(back)
		}
	}
	return rest
}

// A flight is a group of items that are sent as one command.
type flight struct {
	items    []*request
	followed bool // another flight with the same key follows
	text     bool // it is sent with the text of the script
	script   *script
	cmd      *call
}

// A solo is what a request needs that is sent by itself.
type solo struct {
	batch   [1]*request
	flight  flight
	flights [1]*flight
}

// flies returns the flights of a batch of req only.
func (req *request) flies(batch []*request) []*flight {
	req.solo.flight = flight{items: batch}
	req.solo.flights[0] = &req.solo.flight
	return req.solo.flights[:]
}

// result reads the part of the reply for the item at a place.
func (f *flight) result(place int) (r limits.Result, ok bool, err error) {
	it := f.items[place]
	if it.decode != nil {
		return r, it.decode(f.cmd.list()), nil
	}
	reply := f.cmd.Cmder.(*redis.StringCmd).Val() //nolint:forcetypeassert // see command
	if it.hot == nil {
		return it.account(reply, place)
	}
	r, ok = it.decided(reply, place)
	return r, ok, nil
}

// takes reports whether an item can be decided together with those of the flight.
func (f *flight) takes(it *request) bool {
	first := f.items[0]
	return first.hot == it.hot && first.script == it.script && (it.hot != nil || first.plan == it.plan)
}

// choose chooses the script that decides.
func (f *flight) choose(s *Store) {
	switch first := f.items[0]; {
	case first.hot == nil:
		f.script = first.script
	case len(f.items) == 1 && first.usual() && first.hot.takesOne(s) != nil:
		f.script = first.hot.one
	default:
		f.script = first.hot.many
	}
}

// command makes the command.
func (f *flight) command(ctx context.Context, s *Store) {
	first, more := f.items[0], 0
	one := first.hot != nil && f.script != first.hot.many
	items := f.items
	if !slices.ContainsFunc(items, func(it *request) bool { return !it.usual() }) {
		items = items[:1] // the arguments of the first key are those of all
	}
	if !one {
		more = 7 + 2*len(items) + len(first.args)
	}
	f.cmd = newCall(f.script, f.text, len(f.items), more)
	args := f.cmd.args
	for _, it := range f.items {
		args = append(args, it.key)
	}
	if !one || s.clock != nil {
		args = append(args, s.time())
	}
	switch {
	case one:
	case first.decode != nil:
		args = append(args, first.args...)
	case first.hot == nil:
		args = append(args, first.plan.head)
		for _, it := range items {
			args = append(args, it.args...)
		}
	default:
		args = append(args, first.hot.head...)
		for _, it := range items {
			if it.usual() {
				args = append(args, it.hot.usual...)
			} else {
				args = append(args, number(it.charge), number(it.room))
			}
		}
	}
	f.cmd.finish(ctx, args, first.decode != nil)
}

// fly sends flights. It sends those again that the server has refused because it is not the primary.
func (n *node) fly(ctx context.Context, flights []*flight) {
	_ = n.send(ctx, func() (err error) { // the commands have the errors
		n.flyOnce(ctx, flights)
		var refused []*flight
		for _, f := range flights {
			if e := f.cmd.Err(); failover.Refused(e) {
				refused, err = append(refused, f), e
			}
		}
		flights = refused
		return err
	})
}

// flyOnce sends flights. It sends those whose script the server does not have again, with the text of the script.
func (n *node) flyOnce(ctx context.Context, flights []*flight) {
	var before *script
	for _, f := range flights {
		f.choose(n.store)
		is := f.script
		if f.followed || is != before { // a repeated flight would come after the one that follows; or it is the first of its script
			_, known := n.scripts.Load(is) // if the server does not, its text saves the round trip of a NOSCRIPT reply
			f.text = !known
		}
		before = is
	}
	n.exec(ctx, flights)
	var again []*flight
	for _, f := range flights {
		switch err := f.cmd.Err(); {
		case isNoScript(err):
			f.text, again = true, append(again, f)
		case f.text && err == nil:
			n.scripts.Store(f.script, true)
		}
	}
	if again != nil {
		n.scripts.Clear() // the server has lost all scripts
		n.exec(ctx, again)
	}
}

// exec sends flights. In Coalesced they are one pipeline, for which the client has separate connections. The commands have the errors.
func (n *node) exec(ctx context.Context, flights []*flight) {
	for _, f := range flights {
		f.command(ctx, n.store)
	}
	if w, ok := ctx.(*within); ok && n.store.bare {
		w.looks()
	}
	if n.store.mode() == Strict && len(flights) == 1 {
		_ = n.store.client.Process(ctx, flights[0].cmd)
		return
	}
	_, _ = n.store.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for _, f := range flights {
			_ = pipe.Process(ctx, f.cmd)
		}
		return nil
	})
}

// flights groups the items that one script can decide together, key by key. A flight has many keys if all are on one
// server, otherwise one key. Flights are sent in this order, which for each key is the order of the calls.
func (n *node) flights(batch []*request) (flights []*flight) {
	if len(batch) == 1 {
		return batch[0].flies(batch)
	}
	batch = byKey(batch)
	alike(batch)
	from := 0 // the flight of the previous item of the same key
	for i, it := range batch {
		same := i > 0 && it.key == batch[i-1].key
		if !same {
			from = 0
			if !n.store.single {
				from = len(flights)
			}
		}
		before := from
		for from < len(flights) && !flights[from].takes(it) {
			from++
		}
		if from == len(flights) {
			flights = append(flights, &flight{})
		}
		if same && from > before {
			flights[before].followed = true
		}
		flights[from].items = append(flights[from].items, it)
	}
	return flights
}

// byKey sorts items by key, in the order of their arrival.
func byKey(batch []*request) []*request {
	last := make(map[string]*request, len(batch))
	firsts := make([]*request, 0, len(batch))
	for _, it := range batch {
		it.next = nil
		if before := last[it.key]; before != nil {
			before.next = it
		} else {
			firsts = append(firsts, it)
		}
		last[it.key] = it
	}
	batch = batch[:0]
	for _, it := range firsts {
		for ; it != nil; it = it.next {
			batch = append(batch, it)
		}
	}
	return batch
}

// alike makes all items of a key use account if their scripts differ: account reads every value, so no item has to be
// sent again after the others.
func alike(batch []*request) {
	for from := 0; from < len(batch); {
		to, same := from+1, true
		for to < len(batch) && batch[to].key == batch[from].key {
			same = same && batch[to].script == batch[from].script && batch[to].hot == batch[from].hot
			to++
		}
		for ; from < to; from++ {
			if !same {
				batch[from].general()
			}
		}
	}
}
