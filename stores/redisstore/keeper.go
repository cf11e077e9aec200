package redisstore

import (
	"context"
	"time"
)

// Instances are counted by heartbeats: an instance without one for beatLife is not counted.
const (
	beatSoon  = 100 * time.Millisecond // after the first
	beatEvery = 2 * time.Second
	beatLife  = 10 * time.Second
)

// opTimeout is the shortest timeout of requests for which no call waits.
const opTimeout = time.Second

// A census is the number of instances that use the server with the same Prefix. They share the limits while the server
// is unavailable.
type census struct {
	n     int64     // at the last beat; 0 before the first
	rank  int64     // of this instance, from 0
	ahead int64     // the server's clock minus uptime, in µs
	low   time.Time // since when all beats have returned less than n; zero if the last did not
}

// Instances returns the number of instances and the rank of this one, as of the last beat, and the time of the server.
// The first call starts the beats.
func (t *table) Instances() (n, rank int64, now time.Duration) {
	is := t.store.counted()
	return max(1, is.n), is.rank, time.Duration(t.store.uptime()+is.ahead) * time.Microsecond
}

// counted returns the census as of the last beat. The first call starts the beats.
func (s *Store) counted() census {
	s.keeping.Do(s.keep)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.census
}

// uptime returns the time since the store was made, in µs.
func (s *Store) uptime() int64 { return time.Since(s.first.base).Microseconds() }

// instancesKey returns the name of the set of instances. No key of a table has this name.
func (s *Store) instancesKey() string { return s.cfg.prefix() + ":{instances}" }

// keep starts the goroutine that sends beats until the store is closed, which waits for it.
func (s *Store) keep() {
	s.ending.RLock()
	defer s.ending.RUnlock()
	if !s.closed.Load() {
		s.wg.Go(s.beats)
	}
}

// beats sends the first beat at once, another one soon, and more often at first: other instances that started at the
// same time may not be counted yet.
func (s *Store) beats() {
	began, next := time.Now(), beatSoon
	for due := time.NewTimer(0); ; {
		select {
		case <-due.C:
		case <-s.ctx.Done():
			_, _ = s.sendBeat(context.WithoutCancel(s.ctx), s.cfg.timeout(), 0)
			return
		}
		s.beat(s.ctx)
		due.Reset(next)
		if next = s.every; time.Since(began) < s.every {
			next /= 4
		}
	}
}

// beat registers this instance as alive, and reads the number of instances. A lower number applies only after lower
// numbers for a whole s.life: otherwise, after a data loss, the first instance to send a beat would count itself alone.
func (s *Store) beat(ctx context.Context) bool {
	got, err := s.sendBeat(ctx, max(opTimeout, s.cfg.timeout()), s.life)
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	was := &s.census
	switch {
	case err != nil:
		was.low = time.Time{}
		return false
	case got.n < was.n && was.low.IsZero():
		was.low = now
	case got.n >= was.n || now.Sub(was.low) >= s.life:
		*was = got
	}
	was.ahead = got.ahead
	return true
}

// sendBeat sends one beat. If life is 0, it removes this instance.
func (s *Store) sendBeat(ctx context.Context, timeout, life time.Duration) (got census, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	_, ok, err := s.alone(ctx, context.WithoutCancel(ctx), &request{
		script: beatScript(), key: s.instancesKey(), args: []any{s.id, number(life.Microseconds())},
		decode: func(n []int64) bool {
			if len(n) != 3 {
				return false
			}
			got = census{n: n[1], rank: n[2], ahead: n[0] - s.uptime()}
			return true
		},
	})
	if err == nil && !ok {
		err = errReply
	}
	return got, err
}
