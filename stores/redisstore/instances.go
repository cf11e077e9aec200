package redisstore

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"
	"time"
)

// Instances are counted by beats: an instance without a beat for a life is not counted.
const (
	beatEvery = 2 * time.Second
	beatLife  = 10 * time.Second
)

// beats count the instances that use a table: processes that share its limits while the server is
// unavailable.
type beats struct {
	id    string
	began atomic.Bool
	n     atomic.Int64 // at the last beat; 0 before the first
	rank  atomic.Int64 // of this instance, from 0
	ahead atomic.Int64 // the server's clock minus uptime, in µs
	tried bool         // to connect
	low   time.Time    // since when all beats returned less than n; zero if they do not
}

// Instances returns the number of instances that use the table and the place of this one, as of the
// last beat, and the time of the server. From the first call on, beats are sent.
func (t *table) Instances() (n, rank int64, now time.Duration) {
	b := &t.beats
	if !b.began.Load() && !b.began.Swap(true) {
		t.store.beat(t)
	}
	return max(1, b.n.Load()), b.rank.Load(), time.Duration(t.store.uptime()+b.ahead.Load()) * time.Microsecond
}

// uptime is the time here, in µs.
func (s *Store) uptime() int64 { return time.Since(s.first.base).Microseconds() }

// key is the name of the set of instances: no key of the table has it.
func (t *table) instancesKey() string { return t.prefix + "instances}" }

// allTables returns the open tables.
func (s *Store) allTables() []*table {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.tables))
}

// beat starts the beats of a table, in one goroutine for all tables, which Close waits for.
func (s *Store) beat(first *table) {
	s.ending.RLock()
	defer s.ending.RUnlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed.Load() {
		return
	}
	if s.newcomers = append(s.newcomers, first); !s.beating {
		s.beating = true
		s.wg.Go(s.beats)
	}
	signal(s.wake)
}

// signal wakes the goroutine that waits for a channel of one element, or the next that does.
func signal(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// beats sends the beats of all tables until the store is closed: the first beat of a table at once.
func (s *Store) beats() {
	due := time.NewTicker(s.every)
	defer due.Stop()
	var all []*table
	for {
		next := all
		select {
		case <-due.C:
		case <-s.wake:
			s.mu.Lock()
			next, s.newcomers = s.newcomers, nil
			s.mu.Unlock()
			all = append(all, next...)
		case <-s.ctx.Done():
			for _, t := range all {
				_, _, _ = t.sendBeat(context.WithoutCancel(s.ctx), 0)
			}
			return
		}
		for _, t := range next {
			t.beat(s.ctx)
		}
	}
}

// beat registers this instance as alive, and reads the number of instances. A lower number applies
// only after a life of lower numbers: after a data loss, the first instance is not alone.
func (t *table) beat(ctx context.Context) bool {
	b, life := &t.beats, t.store.life
	n, rank, err := t.sendBeat(ctx, life)
	now := time.Now()
	switch {
	case err != nil:
		b.low = time.Time{}
		return false
	case n < b.n.Load() && b.low.IsZero():
		b.low = now
	case n >= b.n.Load() || now.Sub(b.low) >= life:
		b.n.Store(n)
		b.rank.Store(rank)
		b.low = time.Time{}
	}
	return true
}

// sendBeat sends one beat; if life is 0, the instance leaves.
func (t *table) sendBeat(ctx context.Context, life time.Duration) (n, rank int64, err error) {
	s := t.store
	if !t.beats.tried {
		t.beats.tried = true
		if err := s.await(ctx, t.instancesKey()); err != nil {
			return 0, 0, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.timeout())
	defer cancel()
	req := &request{script: beatScript(), key: t.instancesKey(), args: []any{t.beats.id, number(life.Microseconds())}}
	reply, err := s.exchange(ctx, context.WithoutCancel(ctx), req)
	switch {
	case err != nil:
		return 0, 0, err
	case len(reply) != 3:
		return 0, 0, errReply
	}
	t.beats.ahead.Store(reply[0] - s.uptime())
	return reply[1], reply[2], nil
}

// await waits for a connection before the first beat, for up to DialTimeout: until then this
// instance has the whole limit.
func (s *Store) await(ctx context.Context, key string) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.dialTimeout())
	defer cancel()
	to, err := s.connect(ctx, key)
	if err == nil {
		to.release(nil)
	}
	return err
}
