package dispatch_test

import (
	"context"
	"math"
	"net"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/ratelimittest"
	"github.com/gresil/gresil/outbound/dispatch"
)

func ownAccount(key string) string { return key }

func limitedAccount(wait time.Duration) error { return &limitError{wait, dispatch.ScopeAccount} }

func TestALateAnswerStillDelaysItsOwnCall(t *testing.T) {
	t.Parallel()
	for name, scope := range map[string]dispatch.Scope{"of the vendor": dispatch.ScopeVendor, "of the account": dispatch.ScopeAccount} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newScript(answer{20 * time.Second, &limitError{15 * time.Second, scope}}, answer{0, &limitError{5 * time.Second, scope}})
				d := newDispatcher(t, config{Capacity: 4, Account: ownAccount})
				var wg sync.WaitGroup
				wg.Go(func() { calls(t, d, s, "a") })
				synctest.Wait()
				calls(t, d, s, "a")
				time.Sleep(16 * time.Second) // the answer has arrived
				var others sync.WaitGroup
				for range 2 {
					others.Go(func() { calls(t, d, newScript(answer{after: time.Second}), "b") })
				}
				others.Wait()
				wg.Wait()
				times := s.times()
				require.Equal(t, 5*time.Second+pad, times[2], "the answer of the other call holds this one")
				require.Equal(t, 35*time.Second+pad, times[3])
			})
		})
	}
}

func TestACallThatOnlyWaitsForItselfKeepsNoConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScript(answer{20 * time.Second, limited(15 * time.Second)}, answer{0, limited(5 * time.Second)})
		d := newDispatcher(t, config{Capacity: 2})
		go calls(t, d, s, "a")
		synctest.Wait()
		calls(t, d, s, "a")
		time.Sleep(10 * time.Second)
		require.Equal(t, 1, d.Stats().Active)
		require.Zero(t, d.Stats().Connections-d.Stats().Idle)
		time.Sleep(time.Minute)
		require.Len(t, s.times(), 4)
	})
}

func TestAPermitOfTheLimiterIsUsedByACallThatPanics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limiter := core.Must(ratelimit.New(ratelimit.Config{Limit: ratelimit.TokenBucket(1, time.Second, 1), MaxWait: -1}))
		d := newDispatcher(t, config{Limiter: limiter})
		start := time.Now()
		for range 3 {
			require.Panics(t, func() {
				_, _ = dispatch.Do(t.Context(), d, "", func(context.Context, none) (int, error) { panic("x") })
			})
		}
		require.Equal(t, 2*time.Second, time.Since(start))
	})
}

// TestPermitsOfTheLimiterAreNotSavedForTheRamp: those that came while the probe ran are not used together
// after it.
func TestPermitsOfTheLimiterAreNotSavedForTheRamp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limiter := core.Must(ratelimit.New(ratelimit.Config{Limit: ratelimit.TokenBucket(1, time.Second, 1), MaxWait: -1}))
		s := newScript(answer{100 * time.Millisecond, limited(500 * time.Millisecond)}, answer{after: 10 * time.Second})
		d := newDispatcher(t, config{Capacity: 16, Limiter: limiter})
		calls(t, d, s, "", "", "", "", "", "")
		times := s.times()
		require.Len(t, times, 7)
		for i := 1; i < len(times); i++ {
			require.GreaterOrEqual(t, times[i]-times[i-1], time.Second, "%v", times)
		}
	})
}

// TestPermitsOfALongQueueOfTheLimiterAreNotSavedForTheRamp: the calls have waited for them for longer than a
// probe can, but the next ones come as soon.
func TestPermitsOfALongQueueOfTheLimiterAreNotSavedForTheRamp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limiter := core.Must(ratelimit.New(ratelimit.Config{Limit: ratelimit.TokenBucket(1, 10*time.Second, 1), MaxWait: -1}))
		answers := make([]answer, 7, 8)
		answers[6].err = limited(2 * time.Second)
		s := newScript(append(answers, answer{after: 50 * time.Second})...)
		d := newDispatcher(t, config{Capacity: 16, Limiter: limiter})
		calls(t, d, s, make([]string, 16)...)
		times := s.times()
		require.Len(t, times, 17)
		for i := 1; i < len(times); i++ {
			require.GreaterOrEqual(t, times[i]-times[i-1], 10*time.Second, "%v", times)
		}
	})
}

// unqueued is a store that makes reservations for calls that wait, as one in another process does.
type unqueued struct{ ratelimit.Store }

func (s unqueued) Open(name string) (limits.Table, error) {
	t, err := s.Store.Open(name)
	return struct{ limits.Table }{t}, err
}

func TestALimiterThatIsSlowerThanAProbeKeepsNoCallFromBeingSent(t *testing.T) {
	t.Parallel()
	for _, store := range []ratelimit.Store{nil, unqueued{&ratelimittest.Memory{}}} {
		synctest.Test(t, func(t *testing.T) {
			limiter := core.Must(ratelimit.New(ratelimit.Config{Name: "vendor", Store: store, Limit: ratelimit.TokenBucket(1, 2*time.Minute, 1), MaxWait: -1}))
			s := newScript(answer{0, limited(time.Second)})
			d := newDispatcher(t, config{Limiter: limiter})
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
			defer cancel()
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					_, err := dispatch.Do(ctx, d, "", s.call)
					assert.NoError(t, err)
				})
			}
			wg.Wait()
		})
	}
}

func TestTheProbeOfAnAccountKeepsNoOtherAccountFromItsCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScript(answer{0, limitedAccount(10 * time.Second)}, answer{after: 50 * time.Second})
		d := newDispatcher(t, config{Capacity: 2, Account: ownAccount})
		var wg sync.WaitGroup
		wg.Go(func() { calls(t, d, s, "a", "a", "a", "a", "a", "a") })
		time.Sleep(12 * time.Second) // the probe runs
		start := time.Now()
		calls(t, d, newScript(), "b")
		require.Less(t, time.Since(start), time.Second)
		wg.Wait()
	})
}

func TestManyAccountsThatAreHeldLeaveRoomForTheVendor(t *testing.T) {
	t.Parallel()
	const accounts = 100
	synctest.Test(t, func(t *testing.T) {
		d := core.Must(dispatch.New(dispatch.Config[int, none]{Classify: classify, Attempts: 1, Account: func(key int) string {
			if key < 0 {
				return ""
			}
			return strconv.Itoa(key)
		}}))
		require.NoError(t, d.HoldAtMost(accounts))
		for key := range accounts {
			_, _ = dispatch.Do(t.Context(), d, key, func(context.Context, none) (int, error) { return 0, limitedAccount(time.Hour) })
		}
		_, err := dispatch.Do(t.Context(), d, -1, func(context.Context, none) (int, error) { return 0, limited(time.Minute) })
		require.ErrorIs(t, err, dispatch.ErrRateLimited)
		start := time.Now()
		_, err = dispatch.Do(t.Context(), d, -1, func(context.Context, none) (int, error) { return 0, nil })
		require.NoError(t, err)
		require.Equal(t, time.Minute+pad, time.Since(start))
		require.Equal(t, uint64(accounts+1), d.Stats().Cooldowns)
	})
}

func TestOneCallIsSentAfterACooldownHoweverLongNoneCame(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		scope dispatch.Scope
		dial  time.Duration
		idle  time.Duration
	}{
		"vendor, idle":           {idle: time.Hour},
		"account, idle":          {scope: dispatch.ScopeAccount, idle: time.Hour},
		"account, a slow dialer": {scope: dispatch.ScopeAccount, dial: 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := newDispatcher(t, config{Attempts: 1, IdleTime: 1, Account: ownAccount, Dial: func(ctx context.Context, _ string) (none, error) {
					return none{}, sleep(ctx, c.dial)
				}})
				_, err := dispatch.Do(t.Context(), d, "a", newScript(answer{0, &limitError{time.Second, c.scope}}).call)
				require.ErrorIs(t, err, dispatch.ErrRateLimited)
				time.Sleep(c.idle)
				s := newScript(answer{after: time.Second}, answer{after: time.Second})
				calls(t, d, s, "a", "a", "a", "a")
				times := s.times()
				require.GreaterOrEqual(t, times[1]-times[0], time.Second)
				require.Zero(t, d.Stats().InFlight)
			})
		})
	}
}

func TestAnErrorOfTheNetworkIsNoAnswerToTheProbe(t *testing.T) {
	t.Parallel()
	for name, failure := range map[string]error{
		"refused":        &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED},
		"reset":          syscall.ECONNRESET,
		"timeout":        context.DeadlineExceeded,
		"closed":         net.ErrClosed,
		"not sent":       core.ErrRejected,
		"gRPC, down":     grpc(14),
		"gRPC, too late": grpc(4),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := newDispatcher(t, config{})
				_, err := dispatch.Do(t.Context(), d, "", newScript(answer{0, limited(15 * time.Second)}, answer{0, failure}).call)
				require.ErrorIs(t, err, failure)
				s := newScript(answer{after: time.Second}, answer{after: time.Second}, answer{after: time.Second})
				calls(t, d, s, "", "", "")
				require.GreaterOrEqual(t, s.times()[1], time.Second, "one probe")
			})
		})
	}
}

func TestThePadIsAddedToTheLongestCooldown(t *testing.T) {
	t.Parallel()
	const year = 365 * 24 * time.Hour
	for _, c := range []struct{ most, pad, told, want time.Duration }{
		{15 * time.Second, 0, 15 * time.Second, 15*time.Second + pad},
		{15 * time.Second, time.Hour, time.Minute, 15*time.Second + time.Hour},
		{15 * time.Second, math.MaxInt64, time.Second, year - 14*time.Second},
		{year, math.MaxInt64, 2 * year, year},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newScript(answer{0, limited(c.told)})
			calls(t, newDispatcher(t, config{MaxCooldown: c.most, Pad: c.pad}), s, "")
			require.Equal(t, c.want, s.times()[1])
		})
	}
}

// TestACallThatDialedThroughACooldownHoldsItsAccount: its answer is later than that cooldown.
func TestACallThatDialedThroughACooldownHoldsItsAccount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dials, calls, start := 0, 0, time.Now()
		d := core.Must(dispatch.New(numbered{
			Classify: classify, Attempts: 1, Account: func(key string) string { return key },
			Dial: func(context.Context, string) (int, error) {
				if dials++; dials == 2 {
					time.Sleep(10 * time.Second)
				}
				return dials, nil
			},
		}))
		call := func(err error) error {
			_, err = dispatch.Do(t.Context(), d, "a", func(context.Context, int) (int, error) {
				calls++
				time.Sleep(time.Second)
				return 0, err
			})
			return err
		}
		var wg sync.WaitGroup
		wg.Go(func() { require.Error(t, call(&limitError{time.Second, dispatch.ScopeAccount})) })
		synctest.Wait()
		wg.Go(func() { require.Error(t, call(&limitError{time.Minute, dispatch.ScopeAccount})) }) // dials for 10 seconds
		time.Sleep(3 * time.Second)
		require.NoError(t, call(nil)) // the account recovers
		wg.Wait()
		require.Equal(t, 3, calls)
		require.Equal(t, 11*time.Second, time.Since(start))
		require.Len(t, d.Snapshot().Held, 1, "its answer holds other calls")
	})
}
