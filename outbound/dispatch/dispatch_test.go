package dispatch_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/outbound/dispatch"
)

type (
	none       = struct{}
	config     = dispatch.Config[string, none]
	dispatcher = dispatch.Dispatcher[string, none]
)

const pad = 50 * time.Millisecond

func limited(wait time.Duration) error { return &limitError{wait: wait} }

func newDispatcher(t *testing.T, cfg config) *dispatcher {
	t.Helper()
	if cfg.Classify == nil {
		cfg.Classify = classify
	}
	d, err := dispatch.New(cfg)
	require.NoError(t, err)
	return d
}

// A script is a vendor that answers its calls in turn, and then without error. It records
// when each arrived.
type script struct {
	mu      sync.Mutex
	start   time.Time
	answers []answer
	sent    []time.Duration
}

type answer struct {
	after time.Duration
	err   error
}

func newScript(answers ...answer) *script { return &script{start: time.Now(), answers: answers} }

func (s *script) call(ctx context.Context, _ none) (int, error) {
	s.mu.Lock()
	n := len(s.sent)
	s.sent = append(s.sent, time.Since(s.start))
	var a answer
	if n < len(s.answers) {
		a = s.answers[n]
	}
	s.mu.Unlock()
	if err := sleep(ctx, a.after); err != nil {
		return 0, err
	}
	return n, a.err
}

func (s *script) times() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.sent)
}

// calls makes n calls at once and waits for them. Each must succeed.
func calls(t *testing.T, d *dispatcher, s *script, keys ...string) {
	t.Helper()
	var wg sync.WaitGroup
	for _, key := range keys {
		wg.Go(func() {
			if _, err := dispatch.Do(t.Context(), d, key, s.call); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestALongerCooldownIsNeverShortened(t *testing.T) {
	t.Parallel()
	for name, answers := range map[string][]answer{
		"the longer first":  {{1, limited(time.Minute)}, {2, limited(15 * time.Second)}, {10 * time.Second, limited(5 * time.Second)}},
		"the shorter first": {{1, limited(15 * time.Second)}, {2, limited(time.Minute)}, {10 * time.Second, limited(5 * time.Second)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, d := newScript(answers...), newDispatcher(t, config{})
				calls(t, d, s, "", "", "")
				times := s.times()
				require.Equal(t, []time.Duration{0, 0, 0}, times[:3])
				require.InDelta(t, time.Minute+pad, times[3], 2, "nanoseconds: of the answers")
				require.Len(t, times, 6)
			})
		})
	}
}

func TestACooldownThatBeginsLaterEndsLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScript(answer{1, limited(15 * time.Second)}, answer{8 * time.Second, limited(15 * time.Second)})
		calls(t, newDispatcher(t, config{}), s, "", "")
		require.Equal(t, 23*time.Second+pad, s.times()[2])
	})
}

func TestOneCallProbesTheVendorAfterACooldown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		answers := make([]answer, 61)
		for i := range 60 {
			answers[i] = answer{time.Second, limited(15 * time.Second)}
		}
		answers[60] = answer{time.Second, limited(30 * time.Second)} // the probe
		s, d := newScript(answers...), newDispatcher(t, config{Capacity: 60})
		var wg sync.WaitGroup
		for range 260 {
			wg.Go(func() {
				_, err := dispatch.Do(t.Context(), d, "", s.call)
				if err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(16 * time.Second)
		synctest.Wait()
		require.Len(t, s.times(), 60)
		time.Sleep(30 * time.Second)
		synctest.Wait()
		require.Len(t, s.times(), 61)
		require.Equal(t, 16*time.Second+pad, s.times()[60])
		wg.Wait()
		times := s.times()
		require.Len(t, times, 61+260)
		require.Equal(t, 47*time.Second+2*pad, times[61])
		require.Equal(t, dispatch.Stats{
			Calls: 260, Succeeded: 260, Attempts: 321, Limited: 61, Cooldowns: 2,
			Dials: 60, Connections: 60, Idle: 60, Limit: 15,
		}, d.Stats())
	})
}

func TestAnotherErrorPassesAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		failure := errors.New("500")
		s, d := newScript(answer{0, failure}), newDispatcher(t, config{})
		_, err := dispatch.Do(t.Context(), d, "", s.call)
		require.True(t, err == failure, "the same value") //nolint:errorlint // it is what is tested
		require.Len(t, s.times(), 1)
		require.Empty(t, d.Snapshot().Held)
		require.Equal(t, uint64(1), d.Stats().Failed)
		calls(t, d, s, "")
		require.Equal(t, []time.Duration{0, 0}, s.times())
	})
}

func TestACallThatWaitedForAConnectionReadsTheCooldownAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScript(answer{time.Second, limited(15 * time.Second)})
		d := newDispatcher(t, config{Capacity: 1, Attempts: 1})
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := dispatch.Do(t.Context(), d, "", s.call)
			if !errors.Is(err, dispatch.ErrRateLimited) {
				t.Error(err)
			}
		})
		synctest.Wait()
		calls(t, d, s, "")
		wg.Wait()
		require.Equal(t, []time.Duration{0, 16*time.Second + pad}, s.times())
	})
}

func TestACallThatWaitedForTheLimiterReadsTheCooldownAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limiter := core.Must(ratelimit.New(ratelimit.Config{Limit: ratelimit.TokenBucket(1, 5*time.Second, 1), MaxWait: -1}))
		s := newScript(answer{4 * time.Second, limited(15 * time.Second)})
		d := newDispatcher(t, config{Limiter: limiter})
		calls(t, d, s, "", "", "")
		require.Equal(t, 19*time.Second+pad, s.times()[1], "neither of the others, which had a permit at 5 and 10 seconds")
		for i, at := range s.times()[2:] {
			require.GreaterOrEqual(t, at-s.times()[i+1], 5*time.Second)
		}
	})
}

func TestAPermitOfTheLimiterThatIsNotUsedIsReturned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limiter := core.Must(ratelimit.New(ratelimit.Config{Limit: ratelimit.TokenBucket(1, 5*time.Second, 1), MaxWait: -1}))
		s := newScript(answer{4 * time.Second, limited(15 * time.Second)})
		d := newDispatcher(t, config{Limiter: limiter})
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() { calls(t, d, s, "") })
		}
		time.Sleep(6 * time.Second) // the second one got its permit a second ago, in the cooldown
		require.True(t, core.Must(limiter.Take(t.Context(), d.Name(), 1)).Allowed)
		require.NoError(t, d.SetConfig(config{Classify: classify}), "without the limiter")
		wg.Wait()
		require.Equal(t, []time.Duration{0, 19*time.Second + pad, 19*time.Second + pad}, s.times())
	})
}

func TestAnAccountIsHeldAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScript(answer{0, &limitError{15 * time.Second, dispatch.ScopeAccount}})
		d := newDispatcher(t, config{Capacity: 2, Account: func(key string) string { return key }})
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() { calls(t, d, s, "a:1") })
			synctest.Wait()
		}
		require.Equal(t, []time.Duration{0}, s.times(), "the account waits, also its retry")
		calls(t, d, s, "", ":", "a", "a:", strings.Repeat("a", 1000), "ä\x00")
		require.Len(t, s.times(), 7, "the calls of a held account have no connection")
		held := d.Snapshot().Held
		require.Equal(t, []dispatch.Hold{{Scope: dispatch.ScopeAccount, Account: "a:1", Until: held[0].Until}}, held)
		require.Equal(t, 15*time.Second+pad, time.Until(held[0].Until))
		wg.Wait()
		require.Equal(t, 15*time.Second+pad, s.times()[7])
		require.Empty(t, d.Snapshot().Held)
	})
}

func TestAVendorHoldsAllItsAccounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScript(answer{0, limited(15 * time.Second)})
		d := newDispatcher(t, config{Account: func(key string) string { return key }})
		var first sync.WaitGroup
		first.Go(func() { calls(t, d, s, "a") })
		synctest.Wait() // it was refused
		calls(t, d, s, "b", "c")
		first.Wait()
		require.GreaterOrEqual(t, s.times()[1], 15*time.Second+pad)
	})
}

func TestAttemptsAreLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		refusal := limited(time.Second)
		s := newScript(answer{0, refusal}, answer{0, refusal}, answer{0, refusal}, answer{0, refusal}, answer{0, refusal})
		var hooked []dispatch.Info
		d := newDispatcher(t, config{Name: "ads", Hooks: dispatch.Hooks{
			GaveUp: func(_ context.Context, info dispatch.Info) { hooked = append(hooked, info) },
		}})
		_, err := dispatch.Do(t.Context(), d, "k", s.call)
		gaveUp, ok := errors.AsType[*dispatch.GaveUpError](err)
		require.True(t, ok)
		require.Equal(t, 5, gaveUp.Attempts)
		require.ErrorIs(t, err, dispatch.ErrRateLimited)
		require.ErrorIs(t, err, refusal)
		require.NotErrorIs(t, err, core.ErrRejected, "calls were made")
		require.Equal(t, "dispatch: ads: gave up after 5 rate limited attempts: limited for 1s", err.Error())
		wait, ok := core.RetryAfter(err)
		require.True(t, ok)
		require.Equal(t, time.Second+pad, wait)
		require.Equal(t, []dispatch.Info{{Name: "ads", Key: "k", Attempts: 5, Err: refusal}}, hooked)
		require.Len(t, s.times(), 5)
		calls(t, d, s, "k")
		require.Equal(t, 5*(time.Second+pad), s.times()[5], "the last refusal counts as well")
	})
}

func TestAVendorThatDoesNotSayHowLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScript(answer{0, limited(0)}, answer{0, limited(48 * time.Hour)})
		d := newDispatcher(t, config{Cooldown: 20 * time.Second, MaxCooldown: time.Hour, Pad: -1})
		calls(t, d, s, "")
		require.Equal(t, []time.Duration{0, 20 * time.Second, time.Hour + 20*time.Second}, s.times())
	})
}

func TestCancellationEndsEachWaitAndIsNoErrorOfTheVendor(t *testing.T) {
	t.Parallel()
	cause := errors.New("the caller has left")
	hang := func(ctx context.Context, _ none) (int, error) {
		<-ctx.Done()
		return 0, context.Cause(ctx)
	}
	everything := func(error) (dispatch.Limited, bool) { return dispatch.Limited{RetryAfter: time.Hour}, true }
	for name, c := range map[string]struct {
		cfg   config
		first func(context.Context, none) (int, error)
	}{
		"the cooldown":     {config{Classify: classify}, newScript(answer{0, limited(time.Hour)}).call},
		"a connection":     {config{Capacity: 1, Classify: everything}, hang},
		"the vendor":       {config{Classify: everything}, nil},
		"a dial":           {config{Classify: everything, DialTimeout: time.Hour, Dial: func(ctx context.Context, _ string) (none, error) { <-ctx.Done(); return none{}, ctx.Err() }}, nil},
		"a dial, ignoring": {config{Classify: everything, DialTimeout: time.Hour, Dial: func(context.Context, string) (none, error) { time.Sleep(time.Hour); return none{}, nil }}, nil},
		"the limiter":      {config{Classify: everything}, func(context.Context, none) (int, error) { return 0, nil }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				if name == "the limiter" { // its channels must be those of the bubble
					c.cfg.Limiter = core.Must(ratelimit.New(ratelimit.Config{Limit: ratelimit.TokenBucket(1, time.Hour, 1), MaxWait: -1}))
				}
				d := newDispatcher(t, c.cfg)
				others, stop := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				if c.first != nil {
					wg.Go(func() { _, _ = dispatch.Do(others, d, "", c.first) })
					synctest.Wait()
				}
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Minute, func() { cancel(cause) })
				_, err := dispatch.Do(ctx, d, "", hang)
				require.True(t, err == cause, "got %v", err) //nolint:errorlint // it is what is tested
				stop()
				wg.Wait()
				require.Zero(t, d.Stats().Active)
				require.Positive(t, d.Stats().Canceled)
				require.Zero(t, d.Stats().InFlight)
				if name != "the cooldown" {
					require.Empty(t, d.Snapshot().Held)
				}
				_, err = dispatch.Do(ctx, d, "", hang)
				require.ErrorIs(t, err, cause, "a context that has ended")
				time.Sleep(2 * time.Hour)
			})
		})
	}
}

func TestALimitIsLearnedFromACallThatWasCanceled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDispatcher(t, config{})
		ctx, cancel := context.WithCancel(t.Context())
		_, err := dispatch.Do(ctx, d, "", func(context.Context, none) (int, error) {
			cancel()
			return 0, limited(time.Minute)
		})
		require.ErrorIs(t, err, context.Canceled)
		require.Len(t, d.Snapshot().Held, 1)
	})
}

func TestAPanicContinuesInTheCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		closed := 0
		cfg := config{Capacity: 1, Close: func(string, none) { closed++ }}
		leave := map[string]func(context.Context, none) (int, error){
			"panic":  func(context.Context, none) (int, error) { panic("told") },
			"goexit": func(context.Context, none) (int, error) { runtime.Goexit(); return 0, nil },
		}
		for name, f := range leave {
			closed = 0
			d := newDispatcher(t, cfg)
			var got any
			var wg sync.WaitGroup
			wg.Go(func() {
				defer func() { got = recover() }()
				_, _ = dispatch.Do(t.Context(), d, "", f)
			})
			wg.Wait()
			require.Equal(t, name == "panic", got == "told", name)
			require.Equal(t, 1, closed, name)
			require.Equal(t, dispatch.Stats{Calls: 1, Failed: 1, Dials: 1, Limit: 1}, d.Stats(), name)
			calls(t, d, newScript(), "")
		}
	})
}

func TestUserFunctionsThatPanicLoseNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScript(answer{0, errors.New("500")})
		bad := true
		boom := func() {
			if bad {
				panic("told")
			}
		}
		for name, cfg := range map[string]config{
			"Classify": {Capacity: 1, Classify: func(error) (dispatch.Limited, bool) { boom(); return dispatch.Limited{}, false }},
			"Account":  {Capacity: 1, Account: func(string) string { boom(); return "" }},
			"Dial":     {Capacity: 1, Dial: func(context.Context, string) (none, error) { boom(); return none{}, nil }},
		} {
			bad = true
			d := newDispatcher(t, cfg)
			s.sent = nil
			require.PanicsWithValue(t, "told", func() { _, _ = dispatch.Do(t.Context(), d, "", s.call) }, name)
			require.Zero(t, d.Stats().Active, name)
			require.Zero(t, d.Stats().Connections, name)
			bad = false
			_, _ = dispatch.Do(t.Context(), d, "", s.call)
			calls(t, d, s, "")
		}
		d := newDispatcher(t, config{Hooks: dispatch.Hooks{Returned: func(context.Context, dispatch.Info) { panic("told") }}})
		calls(t, d, s, "")
		require.Equal(t, uint64(1), d.Stats().HookPanics)
	})
}

func TestAKeyThatCannotBeComparedLosesNothing(t *testing.T) {
	t.Parallel()
	d, err := dispatch.New(dispatch.Config[any, none]{Capacity: 1})
	require.NoError(t, err)
	fine := func(context.Context, none) (int, error) { return 0, nil }
	require.Panics(t, func() { _, _ = dispatch.Do(t.Context(), d, any([]int{}), fine) })
	_, err = dispatch.Do(t.Context(), d, any("a"), fine)
	require.NoError(t, err)
	require.Equal(t, 1, d.Stats().Connections)
}

func TestACallWithinACallOfTheSameDispatcherIsAnError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, other := newDispatcher(t, config{Capacity: 1}), newDispatcher(t, config{})
		var kept context.Context
		_, err := dispatch.Do(t.Context(), d, "", func(ctx context.Context, _ none) (int, error) {
			kept = ctx                       //nolint:fatcontext // it is what is tested
			calls(t, other, newScript(), "") //nolint:contextcheck // another one is not concerned
			ctx, cancel := context.WithTimeout(ctx, time.Hour)
			defer cancel()
			return dispatch.Do(ctx, d, "", newScript().call)
		})
		require.ErrorIs(t, err, dispatch.ErrReentrant)
		require.ErrorIs(t, err, core.ErrRejected)
		_, err = dispatch.Do(context.WithoutCancel(kept), d, "", newScript().call)
		require.NoError(t, err, "the call has ended")
	})
}

func TestCloseWaitsForAcceptedCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var closed atomic.Int64
		registry := &core.Registry{}
		d := newDispatcher(t, config{Name: "ads", Registry: registry, Capacity: 1, Close: func(string, none) { closed.Add(1) }})
		found, _ := core.Lookup[*dispatch.Dispatcher[string, none]](registry, "ads")
		require.Same(t, d, found)
		s := newScript(answer{time.Second, limited(15 * time.Second)})
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { calls(t, d, s, "") })
		}
		synctest.Wait()
		require.NoError(t, d.Close(t.Context()))
		require.Len(t, s.times(), 4)
		require.Equal(t, int64(1), closed.Load())
		_, err := dispatch.Do(t.Context(), d, "", s.call)
		require.ErrorIs(t, err, dispatch.ErrClosed)
		require.ErrorIs(t, err, core.ErrRejected)
		require.NoError(t, d.Close(t.Context()), "again")
		wg.Wait()
		require.Equal(t, dispatch.Stats{Calls: 3, Succeeded: 3, Rejected: 1, Attempts: 4, Limited: 1, Cooldowns: 1, Dials: 1, Limit: 1}, d.Stats())
		_, ok := core.Lookup[*dispatch.Dispatcher[string, none]](registry, "ads")
		require.False(t, ok)
	})
}

func TestCloseCancelsWhatIsLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var closed atomic.Int64
		d := newDispatcher(t, config{Capacity: 2, Close: func(string, none) { closed.Add(1) }})
		errs := make(chan error, 5)
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				_, err := dispatch.Do(t.Context(), d, "", func(ctx context.Context, _ none) (int, error) {
					<-ctx.Done()
					return 0, ctx.Err()
				})
				errs <- err
			})
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.ErrorIs(t, d.Close(ctx), context.DeadlineExceeded)
		require.Equal(t, int64(2), closed.Load())
		wg.Wait()
		rejected := 0
		for range 5 {
			err := <-errs
			require.ErrorIs(t, err, dispatch.ErrClosed)
			if errors.Is(err, core.ErrRejected) {
				rejected++
			} else {
				require.ErrorIs(t, err, context.Canceled)
			}
		}
		require.Equal(t, 3, rejected, "those that were not sent")
		require.Equal(t, uint64(5), d.Stats().Canceled)
		require.Zero(t, d.Stats().Connections)
	})
}

func TestCloseDoesNotWaitForEverForACallThatIgnoresItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var closed atomic.Int64
		d := newDispatcher(t, config{Close: func(string, none) { closed.Add(1) }})
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := dispatch.Do(t.Context(), d, "", func(context.Context, none) (int, error) { time.Sleep(time.Hour); return 0, nil })
			if err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		require.Error(t, d.Close(ctx))
		require.Equal(t, time.Minute+time.Second, time.Since(start))
		require.Zero(t, closed.Load(), "it is in use")
		wg.Wait()
		require.Equal(t, int64(1), closed.Load())
	})
}

func TestTheQueueIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for most, accepted := range map[int]int{-1: 2, 3: 5} {
			d := newDispatcher(t, config{Capacity: 2, MaxQueue: most})
			var full atomic.Int64
			var wg sync.WaitGroup
			for range 10 {
				wg.Go(func() {
					_, err := dispatch.Do(t.Context(), d, "", newScript(answer{after: time.Second}).call)
					if errors.Is(err, dispatch.ErrFull) && errors.Is(err, core.ErrRejected) {
						full.Add(1)
					} else if err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			require.Equal(t, int64(10-accepted), full.Load())
		}
	})
}

// Not parallel: it changes the number of processors.
func TestCallersDoNotStarveTheCallsOnOneProcessor(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const callers, capacity = 10_000, 10
	d := newDispatcher(t, config{Capacity: capacity})
	var inFlight, most, served atomic.Int64
	var wg sync.WaitGroup
	start := time.Now()
	for range callers {
		wg.Go(func() {
			_, err := dispatch.Do(t.Context(), d, "", func(context.Context, none) (int, error) {
				for n := inFlight.Add(1); n > most.Load(); {
					most.Store(n)
				}
				time.Sleep(time.Millisecond) // the vendor's time: this test is in real time
				inFlight.Add(-1)
				return 0, nil
			})
			if err == nil {
				served.Add(1)
			}
		})
	}
	wg.Wait()
	require.Equal(t, int64(callers), served.Load())
	require.Equal(t, int64(capacity), most.Load())
	require.Less(t, time.Since(start), 30*time.Second)
}
