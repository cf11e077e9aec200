package redisstore

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/gresil/gresil/core/bulkhead"
	"github.com/gresil/gresil/internal/limits"
)

var errEnded = errors.New("redisstore: the store is closed")

// permits are those of the bulkheads of one name. They implement [bulkhead.Table].
type permits struct {
	leases *leases
	name   string
}

// A holder is a call that has permits, or waits for them.
type holder struct {
	bulkhead.Request

	id   string
	keys [3]string // see lua/permits.lua
	end  time.Time // when the lease counts as lost; this and told belong to the goroutine of leases
	told bool      // that the lease could not be renewed
	over time.Time // when a lease or a waiter in ended ends by itself; guarded by the lock of leases
}

// OpenBulkhead opens the permits of the bulkheads of that name. It sends nothing and keeps
// nothing. From the first call on, a goroutine renews the leases of the process; from the first
// call that waits on, another one and a connection receive the turns of waiters. They end with
// [Store.Close].
func (s *Store) OpenBulkhead(name string) (bulkhead.Table, error) {
	if s.closed.Load() {
		return nil, errEnded
	}
	return &permits{s.leasing, escape(name, "", false)}, nil
}

// Acquire takes permits, in one round trip if they are free.
func (t *permits) Acquire(ctx context.Context, r bulkhead.Request) (release func(), err error) {
	l, h := t.leases, t.holder(r)
	if r.Wait > 0 {
		err = l.await(ctx, h)
	} else {
		_, err = l.take(ctx, h, "take", 0)
	}
	if err == nil {
		return func() { l.release(h) }, nil //nolint:contextcheck // the call can have ended
	}
	if _, unsent := limits.IsUnsent(err); r.Wait > 0 || !unsent && !errors.Is(err, bulkhead.ErrFull) {
		l.leave(h) // it can be registered, or have the permits if a reply was lost
	}
	return nil, err
}

func (t *permits) holder(r bulkhead.Request) *holder {
	l := t.leases
	h := &holder{Request: r, id: l.sender + ":" + strconv.FormatUint(l.serial.Add(1), 36)}
	for i, kind := range [...]string{"leases:", "waiters:", "about:"} {
		h.keys[i] = l.prefix + kind + t.name + ":" + escape(r.Key, ":@/+,;|~ ", l.store.cfg.HashKeys)
	}
	return h
}

// take asks for permits once. The error is [bulkhead.ErrFull] if they are not free, with the time
// after which to ask again, or 0 if it is not known.
func (l *leases) take(ctx context.Context, h *holder, what string, life time.Duration) (again time.Duration, err error) {
	l.store.ending.RLock()
	defer l.store.ending.RUnlock()
	if l.store.closed.Load() {
		return 0, errEnded
	}
	begun := time.Now()
	reply, err := l.send(ctx, what, life, h)
	switch {
	case err != nil:
		return 0, err
	case reply[1] == 0:
		return time.Duration(reply[2]) * time.Microsecond, bulkhead.ErrFull
	}
	h.end = l.lasts(begun)
	l.hold(h)
	return 0, nil
}

// await asks for permits until the call has them or its time is over.
func (l *leases) await(ctx context.Context, h *holder) error {
	turn := l.wait(h)
	defer l.unwait(h)
	over := time.NewTimer(h.Wait)
	defer over.Stop()
	ask := time.NewTimer(never)
	defer ask.Stop()
	var decided time.Time
	for {
		if h.Weight > h.Limit() {
			return bulkhead.ErrFull // the limit was lowered, and calls behind it would wait too
		}
		every, life := pollEvery, time.Second
		if l.pushed.Load() {
			every, life = refreshEvery, 3*time.Second
		}
		again, err := l.take(ctx, h, "wait", life)
		switch {
		case errors.Is(err, bulkhead.ErrFull):
			decided = time.Now()
			if again > 0 {
				every = min(every, again)
			}
		case err == nil, ctx.Err() != nil, errors.Is(err, errEnded), time.Since(decided) > life:
			return err
		}
		ask.Reset(every)
		select {
		case <-turn:
		case <-ask.C:
		case <-over.C:
			return bulkhead.ErrFull
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-l.store.ctx.Done():
			return errEnded
		}
	}
}

// send sends one operation for each holder, and returns the time and two numbers for each.
func (l *leases) send(ctx context.Context, what string, life time.Duration, all ...*holder) ([]int64, error) {
	within, cancel := context.WithTimeout(ctx, l.store.cfg.timeout())
	defer cancel()
	req := &request{script: permitScript(), key: all[0].keys[0]}
	for i, h := range all {
		for k, key := range h.keys {
			if i+k > 0 {
				req.more = append(req.more, key)
			}
		}
		channel := ""
		if what == "wait" && l.pushed.Load() {
			channel = l.channel
		}
		req.args = append(req.args, what, h.id, number(int64(h.Weight)), number(int64(h.Limit())),
			number(l.store.cfg.lease().Microseconds()), number(life.Microseconds()), channel)
	}
	reply, err := l.store.exchange(within, ctx, req)
	if err == nil && len(reply) != 1+2*len(all) {
		err = errReply
	}
	return reply, err
}
