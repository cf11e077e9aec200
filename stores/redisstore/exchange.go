package redisstore

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// work sends the reports of a table, and reads if that is due. It returns the time until it is due.
func (t *holds) work(ctx context.Context, now time.Time) (time.Duration, error) {
	if err := t.send(ctx); err != nil {
		return 0, err
	}
	t.mu.Lock()
	subscribed, pushed, over := t.subscribed, t.pushed, t.closed
	active := len(t.own)+len(t.known) > 0
	t.mu.Unlock()
	if over {
		return never, nil
	}
	every := pollEvery
	if pushed {
		every = refreshEvery
	}
	due := t.lastRead.Add(every)
	if used := t.used.Load(); used && !now.Before(due) {
		t.used.Store(false)
		t.lastUse = now
	} else if !used && !active && t.failures == 0 && now.Sub(t.lastUse) >= idleAfter && (pushed || subscribed == 0) {
		t.stale.Store(!pushed)
		return never, nil
	}
	if now.Before(due) && (pushed || subscribed == 0) && !t.stale.Load() {
		return due.Sub(now), nil
	}
	if err := t.readAll(ctx, subscribed); err != nil {
		return 0, err
	}
	return every, nil
}

// send sends the reports of a table.
func (t *holds) send(ctx context.Context) error {
	for {
		batch := t.batch()
		if len(batch) == 0 {
			return nil
		}
		args := []any{t.store.time(), t.sender, number(maxHolds)}
		for _, r := range batch {
			what := "hold"
			if r.release {
				what = "release"
			}
			r.left = time.Until(r.until).Microseconds() + 1 // rounded up
			args = append(args, what, number(r.left), r.id)
		}
		reply, err := t.run(ctx, holdScript(), args)
		if err != nil {
			return err
		}
		if len(reply) != 1+len(batch) {
			return errReply
		}
		t.sent(batch, micros(reply[0]), reply[1:])
	}
}

// sent records the reply of the server.
func (t *holds) sent(batch []*report, at int64, ends []any) {
	var news []fact // longer holds of the server, and releases since
	t.mu.Lock()
	for i, r := range batch {
		if t.unsent[r.id] != r { // there is a newer one
			continue
		}
		delete(t.unsent, r.id)
		if r.next != nil {
			t.unsent[r.id] = r.next
		}
		switch till := micros(ends[i]); {
		case r.release:
			t.known[r.id] = known{released: at, until: r.until}
			t.lastRead = time.Time{} // so it is read now: holds of others were not adopted until here
		case till > at+r.left:
			news = append(news, fact{r.id, till, at, false})
		case till > t.known[r.id].till:
			t.known[r.id] = known{till: till, until: r.until}
		}
		if r.undone.at > at {
			news = append(news, r.undone)
			t.lastRead = time.Time{} // as above
		}
	}
	t.mu.Unlock()
	t.learn(news...)
}

// batch returns reports to send, as many as one request can have.
func (t *holds) batch() (batch []*report) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, r := range t.unsent {
		if !time.Now().Before(r.until) {
			delete(t.unsent, id)
			continue
		}
		if batch = append(batch, r); len(batch) == mostReports {
			break
		}
	}
	return batch
}

// readAll reads all holds.
func (t *holds) readAll(ctx context.Context, subscribed int) error {
	reply, err := t.run(ctx, holdsScript(), []any{t.store.time()})
	if err != nil {
		return err
	}
	if len(reply) != 2 {
		return errReply
	}
	list, ok := reply[1].([]any)
	if !ok || len(list)%2 != 0 {
		return errReply
	}
	at := micros(reply[0])
	facts := make([]fact, 0, len(list)/2)
	for ; len(list) > 0; list = list[2:] {
		if id, ok := list[0].(string); ok {
			facts = append(facts, factOf(id, micros(list[1]), at))
		}
	}
	t.learn(facts...)
	t.missing(facts)
	t.lastRead = time.Now()
	t.mu.Lock()
	t.expire(t.lastRead)
	t.pushed = subscribed != 0 && subscribed == t.subscribed
	t.done()
	t.mu.Unlock()
	if t.failures > 0 {
		t.failures = 0
		t.notify(t.listener.Recovered)
	}
	return nil
}

// factOf reads a name of the set of hold.lua.
func factOf(id string, till, at int64) fact {
	id, release := strings.CutPrefix(id, "-")
	return fact{id, till, at, release}
}

// micros reads a time of a reply; 0 if it is none.
func micros(v any) int64 {
	switch v := v.(type) {
	case int64:
		return v
	case string:
		f, _ := strconv.ParseFloat(v, 64)
		return int64(f)
	}
	return 0
}

// run runs a script on the set.
func (t *holds) run(ctx context.Context, is *redis.Script, args []any) (reply []any, err error) {
	s := t.store
	ctx, cancel := context.WithTimeout(ctx, max(opTimeout, s.cfg.timeout()))
	defer cancel()
	to := s.nodeOf(t.name)
	err = to.conns.Do(ctx, to.processor(), func() (err error) {
		reply, err = is.Run(ctx, s.client, []string{t.name}, args...).Slice()
		return err
	})
	if err != nil {
		return nil, explain(err, true)
	}
	return reply, nil
}
