package redisstore

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/core/ratelimit"
)

// A holdsReply is a hook that holds back the reply to the next command once it is armed.
type holdsReply struct {
	armed    chan struct{} // has a value for each reply to hold
	held     chan struct{} // a reply is held
	released chan struct{} // closed when it goes on
}

func (*holdsReply) DialHook(next redis.DialHook) redis.DialHook { return next }

func (*holdsReply) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h *holdsReply) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		select {
		case <-h.armed:
			h.held <- struct{}{}
			<-h.released
		default:
		}
		return err
	}
}

// TestLocalBeginsWithTheLastDecision: a reply that later decisions overtook does not replace what they
// said about the key.
func TestLocalBeginsWithTheLastDecision(t *testing.T) {
	t.Parallel()
	for name, limit := range kinds(10, time.Hour) {
		limits := map[string]ratelimit.Limit{name: limit, name + " of several": limit.And(ratelimit.SlidingCounter(20, 2*time.Hour))}
		for name, limit := range limits {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				client := startServer(t).client(t, func(o *redis.Options) { o.ContextTimeoutEnabled = true })
				hook := &holdsReply{make(chan struct{}, 1), make(chan struct{}), make(chan struct{})}
				s := newStore(t, client, Config{})
				s.instances.every = time.Hour
				l, err := ratelimit.New(ratelimit.Config{Name: "l", Store: s, Limit: limit, OnStoreError: ratelimit.Local})
				require.NoError(t, err)
				take := func(n int64) {
					r, err := l.Take(context.Background(), "k", n)
					if err != nil || r.Granted != n {
						t.Errorf("%d: %+v, %v", n, r, err)
					}
				}
				take(1)
				client.AddHook(hook)
				hook.armed <- struct{}{}
				over := make(chan struct{})
				go func() {
					defer close(over)
					take(1)
				}()
				<-hook.held
				take(5)
				close(hook.released)
				<-over
				require.NoError(t, s.first.guard.SetState(breaker.ForcedOpen))
				require.EqualValues(t, 3, takeAll(t, l, "k"))
			})
		}
	}
}

// TestAccountLearnsTheLastState: by the time of the server, unless its clock was set back.
func TestAccountLearnsTheLastState(t *testing.T) {
	t.Parallel()
	now := time.Now()
	const late = time.Second
	at := func(d time.Duration) int64 { return 1_000_000_000 + d.Microseconds() }
	for name, c := range map[string]struct {
		at   int64
		left int64
		want int64
	}{
		"later":                   {at(time.Microsecond), 7, 7},
		"much later":              {at(time.Hour), 7, 7},
		"earlier":                 {at(-time.Millisecond), 7, 5},
		"earlier and less left":   {at(-time.Millisecond), 3, 5},
		"at once":                 {at(0), 7, 5},
		"at once and less left":   {at(0), 3, 3},
		"the clock was set back":  {at(-late), 7, 7},
		"the clock was far ahead": {at(-time.Hour), 7, 7},
	} {
		a := &account{left: 10}
		a.learn(at(0), stand{5, time.Minute}, now, late)
		require.EqualValues(t, 5, a.left)
		a.told = 1
		a.learn(c.at, stand{c.left, time.Hour}, now, late)
		require.Equal(t, c.want, a.left, name)
		require.Equal(t, c.want == 5, a.told == 1, name)
	}
}
