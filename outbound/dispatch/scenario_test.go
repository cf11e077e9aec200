package dispatch_test

import (
	"context"
	"errors"
	"iter"
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

func TestALongerCooldownThatArrivesDuringAnotherIsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScript(answer{0, limited(15 * time.Second)}, answer{10 * time.Second, limited(time.Minute)})
		d := newDispatcher(t, config{})
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() { calls(t, d, s, "") })
		}
		wg.Wait()
		require.Len(t, s.times(), 7)
		for i, at := range s.times()[5:] {
			require.GreaterOrEqual(t, at, 70*time.Second+pad, "call %d", i)
		}
	})
}

func TestACallThatDialedReadsTheCooldownAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScript(answer{2 * time.Second, limited(15 * time.Second)})
		d := newDispatcher(t, config{Dial: func(ctx context.Context, key string) (none, error) {
			if key == "slow" {
				return none{}, sleep(ctx, 10*time.Second)
			}
			return none{}, nil
		}})
		calls(t, d, s, "fast", "slow")
		require.Equal(t, 17*time.Second+pad, s.times()[1])
	})
}

// After a trip, half as many attempts are in flight; the calls that follow the probe are
// sent in a ramp.
func TestARampFollowsTheProbeAndFewerAreInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		answers := make([]answer, 300)
		for i := range answers {
			answers[i].after = time.Second
		}
		answers[0].err = limited(15 * time.Second)
		s, d := newScript(answers...), newDispatcher(t, config{Capacity: 16})
		keys := make([]string, 60)
		calls(t, d, s, keys...)
		at := map[time.Duration]int{}
		for _, sent := range s.times() {
			at[(sent-pad)/time.Second]++
		}
		require.Equal(t, []int{1, 2, 4, 8, 8}, []int{at[16], at[17], at[18], at[19], at[20]})
	})
}

func TestEachPageOfAStreamPassesTheGate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, start := newDispatcher(t, config{}), time.Now()
		var sent []time.Duration
		var other sync.WaitGroup
		for _, err := range dispatch.Stream(t.Context(), d, "", 1, func(_ context.Context, _ none, at int) (dispatch.Page[int, int], error) {
			sent = append(sent, time.Since(start))
			return dispatch.Page[int, int]{Rows: []int{at}, Next: at + 1, More: at < 3}, nil
		}) {
			require.NoError(t, err)
			if len(sent) == 1 { // another call trips the vendor while this row is processed
				other.Go(func() { calls(t, d, newScript(answer{0, limited(15 * time.Second)}), "") })
				synctest.Wait()
			}
		}
		other.Wait()
		require.Equal(t, []time.Duration{0, 15*time.Second + pad, 15*time.Second + pad}, sent)
	})
}

func TestAPulledStreamThatIsStoppedReturnsItsConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDispatcher(t, config{Capacity: 1})
		var fetched []int
		next, stop := iter.Pull2(dispatch.Stream(t.Context(), d, "", 1, pages(&fetched, 0)))
		require.Zero(t, d.Stats().Active, "it begins with the first row")
		row, err, ok := next()
		require.Equal(t, []any{1, nil, true}, []any{row, err, ok})
		require.Equal(t, 1, d.Stats().Active)
		stop()
		require.Zero(t, d.Stats().Active)
		require.Equal(t, 1, d.Stats().Idle)
	})
}

func TestALoopThatPanicsReturnsTheConnectionOfItsStream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDispatcher(t, config{Capacity: 1})
		require.Panics(t, func() {
			for _, err := range dispatch.Stream(t.Context(), d, "", 1, pages(new([]int), 0)) {
				panic(err)
			}
		})
		require.Equal(t, 1, d.Stats().Idle, "the page was answered")
		require.Panics(t, func() {
			for _, err := range dispatch.Stream(t.Context(), d, "", 1, func(context.Context, none, int) (dispatch.Page[int, int], error) { panic("fetch") }) {
				t.Error("a row", err)
			}
		})
		require.Zero(t, d.Stats().Connections, "it was in use")
		calls(t, d, newScript(), "")
	})
}

func TestAStreamEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDispatcher(t, config{Capacity: 1})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		rows, start := 0, time.Now()
		var last error
		for _, err := range dispatch.Stream(ctx, d, "", 1, pages(new([]int), 3)) {
			if err != nil {
				last = err
				continue
			}
			rows++
		}
		require.Equal(t, 200, rows)
		require.ErrorIs(t, last, context.DeadlineExceeded)
		require.Equal(t, 5*time.Second, time.Since(start))
		require.Equal(t, uint64(1), d.Stats().Canceled)
		require.Zero(t, d.Stats().Active)
	})
}

// No lock is held while a function of the user's runs: a key whose server is stuck blocks
// no other key.
func TestAStuckKeyBlocksNoOther(t *testing.T) {
	t.Parallel()
	for name, stuck := range map[string]func(*dispatch.Config[string, string], func(key string)){
		"Dial": func(cfg *dispatch.Config[string, string], wait func(string)) {
			dial := cfg.Dial
			cfg.Dial = func(ctx context.Context, key string) (string, error) { wait(key); return dial(ctx, key) }
		},
		"Healthy": func(cfg *dispatch.Config[string, string], wait func(string)) {
			cfg.Healthy = func(key, _ string) bool { wait(key); return true }
		},
		"Close": func(cfg *dispatch.Config[string, string], wait func(string)) {
			closing := cfg.Close
			cfg.IdleTime = time.Second
			cfg.Close = func(key, conn string) { wait(key); closing(key, conn) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var block atomic.Bool
				d, _ := newPooled(t, 3, func(cfg *dispatch.Config[string, string]) {
					stuck(cfg, func(key string) {
						if block.Load() && key == "a" {
							time.Sleep(20 * time.Second)
						}
					})
				})
				use(t, d, "a", 0)
				block.Store(true)
				time.Sleep(2 * time.Second) // Close runs
				use(t, d, "a", time.Second)
				start := time.Now()
				for range 3 {
					_, err := dispatch.Do(t.Context(), d, "b", func(context.Context, string) (int, error) { return 0, nil })
					require.NoError(t, err)
					_ = d.Stats()
				}
				require.Zero(t, time.Since(start))
				time.Sleep(time.Minute)
				require.Zero(t, d.Stats().Active)
			})
		})
	}
}

func TestAKeyWithoutAConnectionBlocksNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, s := newPooled(t, 2, nil)
		use(t, d, "a", time.Minute)
		use(t, d, "b", time.Second)
		time.Sleep(2 * time.Second) // b is idle
		use(t, d, "a", 10*time.Second)
		require.Equal(t, []string{"+a1", "+b1", "-b1", "+a2"}, s.news())
		use(t, d, "c", time.Second) // waits
		use(t, d, "b", time.Second)
		time.Sleep(13 * time.Second)
		synctest.Wait()
		require.Equal(t, []string{"-a2", "+c1", "-c1", "+b2"}, s.news())
		time.Sleep(time.Minute)
	})
}

func TestTwoScopesHoldACallUntilTheLaterOfThem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct{ own, vendor, want time.Duration }{
			"the account is later": {time.Minute, 15 * time.Second, time.Minute},
			"the vendor is later":  {15 * time.Second, time.Minute, time.Minute},
		} {
			d := newDispatcher(t, config{Attempts: 1, Account: ownAccount})
			for _, err := range []error{limitedAccount(c.own), limited(c.vendor)} {
				go func() { _, _ = dispatch.Do(t.Context(), d, "a", newScript(answer{1, err}).call) }()
			}
			time.Sleep(2 * time.Nanosecond)
			start, s := time.Now(), newScript()
			calls(t, d, s, "a")
			require.InDelta(t, c.want+pad, time.Since(start), 2, name)
		}
	})
}

func TestAfterDrainingEveryCallHasOneResult(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDispatcher(t, config{Capacity: 4})
		second := answer{after: 2 * time.Second}
		s := newScript(answer{time.Second, limited(time.Hour)}, second, second, second)
		results := make(chan error, 50)
		for range 50 {
			go func() {
				_, err := dispatch.Do(t.Context(), d, "", s.call)
				results <- err
			}()
		}
		time.Sleep(3 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.Error(t, d.Close(ctx))
		closed := 0
		for range 50 {
			if errors.Is(<-results, dispatch.ErrClosed) {
				closed++
			}
		}
		require.Equal(t, 47, closed, "three were answered")
		require.Zero(t, d.Stats().Active)
		require.Zero(t, d.Stats().Connections)
		require.Zero(t, d.Stats().InFlight)
	})
}

func TestTheNumberInFlightGrowsSlowlyWhileCallsSucceed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDispatcher(t, config{Capacity: 8})
		calls(t, d, newScript(answer{0, limited(time.Second)}), "")
		for _, c := range []struct{ calls, limit int }{{40, 4}, {100, 5}, {1000, 8}} {
			answers := make([]answer, c.calls)
			for i := range answers {
				answers[i].after = time.Millisecond
			}
			calls(t, d, newScript(answers...), make([]string, c.calls)...)
			require.Equal(t, c.limit, d.Stats().Limit, "after %d calls", c.calls)
		}
	})
}

func TestAProbeThatHangsHoldsOthersForAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScript(answer{0, limited(15 * time.Second)}, answer{after: time.Hour}, answer{after: time.Second}, answer{after: time.Second})
		d := newDispatcher(t, config{})
		var first sync.WaitGroup
		first.Go(func() { calls(t, d, s, "") })
		synctest.Wait() // it was refused: the others come into the cooldown
		calls(t, d, s, "", "")
		first.Wait()
		require.InDelta(t, 15*time.Second+pad, s.times()[1], float64(time.Second))
		require.InDelta(t, time.Minute, s.times()[2]-s.times()[1], float64(time.Second))
	})
}

func TestACallThatWaitedForTheLimiterReadsTheCooldownOfItsAccountAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limiter := core.Must(ratelimit.New(ratelimit.Config{Limit: ratelimit.TokenBucket(1, 5*time.Second, 1), MaxWait: -1}))
		s := newScript(answer{4 * time.Second, limitedAccount(15 * time.Second)})
		d := newDispatcher(t, config{Limiter: limiter, Account: ownAccount})
		calls(t, d, s, "a", "a")
		require.GreaterOrEqual(t, s.times()[1], 19*time.Second+pad, "it had a permit at 5 seconds")
	})
}

func TestACallWhoseContextEndedOnItsWayIsNotSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, _ := newPooled(t, 1, func(cfg *dispatch.Config[string, string]) {
			cfg.Healthy = func(string, string) bool { time.Sleep(10 * time.Second); return true }
		})
		use(t, d, "a", 0)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err := dispatch.Do(ctx, d, "a", func(context.Context, string) (int, error) { t.Error("sent"); return 0, nil })
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, uint64(1), d.Stats().Canceled)
		require.Equal(t, 1, d.Stats().Idle)
	})
}
