package redisstore

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/gresil/gresil/internal/failover"
)

// A flight is a group of items that are sent as one command.
type flight struct {
	items    []*item
	followed bool // by another flight with the same key
	text     bool // sent with the text of the script
	cmd      call
}

// fly sends flights, and again those that the server has refused because it is not the primary.
func (l *lane) fly(ctx context.Context, flights []*flight) {
	_ = l.node.send(ctx, func() (err error) { // the commands have the errors
		l.flyOnce(ctx, flights)
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

// flyOnce sends flights, and again the flights whose script the server did not have.
func (l *lane) flyOnce(ctx context.Context, flights []*flight) {
	var before *script
	for _, f := range flights {
		is := f.items[0].script
		if f.followed || is != before { // a retry would come after the other flight; or it is the first
			f.text = !l.node.knows(is)
		}
		before = is
	}
	l.store.exec(ctx, flights)
	if again := l.unknown(flights); len(again) > 0 {
		l.store.exec(ctx, again)
	}
}

// unknown returns the flights whose script the server does not have, to be sent with its text.
func (l *lane) unknown(flights []*flight) (again []*flight) {
	for _, f := range flights {
		switch err := f.cmd.Err(); {
		case isNoScript(err):
			f.text, again = true, append(again, f)
		case f.text && err == nil:
			l.node.learn(f.items[0].script)
		}
	}
	if again != nil {
		l.node.scripts.Clear() // the server has lost all scripts
	}
	return again
}

// flights groups the items that one script can decide, one key after the other: of many keys if
// all are on one server, otherwise of one key. They are sent in this order, which for each key is
// the order of the calls.
func (l *lane) flights(batch []*item) (flights []*flight) {
	batch = byKey(batch)
	alike(batch)
	from := 0 // the flight of the item before, of the same key
	for i, it := range batch {
		same := i > 0 && it.key == batch[i-1].key
		if !same {
			from = 0
			if !l.store.single {
				from = len(flights)
			}
		}
		before := from
		for from < len(flights) && (it.width == 0 || flights[from].items[0].script != it.script) {
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
func byKey(batch []*item) []*item {
	last := make(map[string]*item, len(batch))
	firsts := make([]*item, 0, len(batch))
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

// alike sends all items of a key to account if their scripts differ: account reads every value, so
// no item is sent again after the others.
func alike(batch []*item) {
	for from := 0; from < len(batch); {
		to, same := from+1, true
		for to < len(batch) && batch[to].key == batch[from].key {
			same = same && batch[to].script == batch[from].script
			to++
		}
		for ; from < to; from++ {
			if !same {
				batch[from].general()
			}
		}
	}
}

// exec sends flights in one pipeline.
func (s *Store) exec(ctx context.Context, flights []*flight) {
	_, _ = s.client.Pipelined(ctx, func(pipe redis.Pipeliner) error { // the commands have the errors
		for _, f := range flights {
			reqs := make([]*request, len(f.items))
			for i, it := range f.items {
				reqs[i] = it.request
			}
			f.cmd = s.command(ctx, f.text, reqs...)
			_ = pipe.Process(ctx, f.cmd)
		}
		return nil
	})
}
