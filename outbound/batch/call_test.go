package batch_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/outbound/batch"
)

func echo(_ int, c call[item]) ([]batch.Result[string], error) {
	results := make([]batch.Result[string], len(c.records))
	for i, r := range c.records {
		results[i].Value = fmt.Sprintf("%s %d", r.Option, r.N)
		if r.N < 0 {
			results[i].Err = core.Permanent(fmt.Errorf("record %d is negative", r.N))
		}
	}
	return results, nil
}

func TestACallGetsTheResultOfItsRecordFromAnyProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := newVendor[item]()
		v.answer = echo
		store := batch.NewMemory()
		cfg := batch.Config[item, string]{Method: "m", Send: v.send, Option: optionOf, Store: store, MaxRecords: 7}
		caller, err := batch.New(cfg) // it sends nothing
		require.NoError(t, err)
		sender := start(t, cfg)
		var calls sync.WaitGroup
		for i := range 100 {
			for _, b := range []*batch.Batcher[item, string]{caller, sender} {
				calls.Go(func() {
					value, err := b.Call(t.Context(), item{"x", i - 10})
					if i < 10 {
						require.EqualError(t, err, fmt.Sprintf("record %d is negative", i-10))
						return
					}
					require.NoError(t, err)
					require.Equal(t, fmt.Sprint("x ", i-10), value)
				})
			}
		}
		calls.Wait()
		require.Equal(t, time.Minute, time.Since(v.start))
		require.Zero(t, caller.Stats().Waiting)
		drain(t, sender)
		require.NoError(t, caller.Close())
	})
}

func TestCallsOfOneUniqueRecordShareItsResult(t *testing.T) {
	t.Parallel()
	for _, store := range []batch.Store{nil, batch.NewMemory()} {
		synctest.Test(t, func(t *testing.T) {
			v := newVendor[item]()
			v.answer, v.latency = echo, 10*time.Second
			if store != nil {
				store = batch.NewMemory() // of this bubble
			}
			b := start(t, batch.Config[item, string]{Send: v.send, Store: store, Unique: batch.UntilDone, Key: optionOf})
			results := make(chan string, 4)
			call := func(n int) {
				value, err := b.Call(t.Context(), item{"k", n})
				results <- fmt.Sprint(value, err)
			}
			add(t, b, item{"k", 0})
			go call(1)
			synctest.Wait()
			go call(2)
			time.Sleep(65 * time.Second)
			go call(3) // during the call
			for range 3 {
				require.Equal(t, "k 2<nil>", <-results)
			}
			require.Len(t, v.seen(), 1)
			drain(t, b)
		})
	}
}

func TestACallJoinsARecordThatIsInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := newVendor[item]()
		v.answer, v.latency = echo, 10*time.Second
		b := start(t, batch.Config[item, string]{Send: v.send, Store: batch.NewMemory(), Unique: batch.UntilDone, Key: optionOf})
		add(t, b, item{"k", 1})
		require.NoError(t, b.Flush(t.Context()))
		time.Sleep(time.Second)
		value, err := b.Call(t.Context(), item{"k", 2})
		require.NoError(t, err)
		require.Equal(t, "k 1", value, "this is the record that was sent")
		require.Equal(t, 10*time.Second, time.Since(v.start))
		drain(t, b)
	})
}

func TestOneReceiveAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var receiving, most atomic.Int64
		p := &proxy{Store: batch.NewMemory()}
		p.before = func(operation string) error {
			if operation == "Receive" {
				most.Store(max(most.Load(), receiving.Add(1)))
			}
			return nil
		}
		p.after = func(operation string) error {
			if operation == "Receive" {
				receiving.Add(-1)
			}
			return nil
		}
		b := start(t, batch.Config[item, string]{Send: newVendor[item]().send, Store: p, FlushAfter: 3 * time.Second})
		for range 3 {
			var calls sync.WaitGroup
			for range 20 {
				calls.Go(func() { _, _ = b.Call(t.Context(), item{}) })
				time.Sleep(100 * time.Millisecond)
			}
			calls.Wait()
			time.Sleep(5 * time.Second)
			require.Zero(t, receiving.Load(), "without a Call there is no goroutine")
		}
		require.EqualValues(t, 1, most.Load())
		drain(t, b)
	})
}

func TestACallEndsWithItsContextAndItsRecordIsSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := newVendor[item]()
		b := start(t, batch.Config[item, string]{Send: v.send})
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("impatient"))
		defer cancel()
		_, err := b.Call(ctx, item{})
		require.EqualError(t, err, "impatient")
		require.Equal(t, time.Second, time.Since(v.start))
		require.Zero(t, b.Stats().Waiting)
		drain(t, b)
		require.Len(t, v.seen(), 1)
	})
}

func TestADeleteAndACloseEndTheirCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := start(t, batch.Config[item, string]{Send: newVendor[item]().send, Option: optionOf, Store: batch.NewMemory()})
		errs := map[string]chan error{"a": make(chan error), "b": make(chan error)}
		for option, ended := range errs {
			go func() {
				_, err := b.Call(t.Context(), item{option, 0})
				ended <- err
			}()
		}
		synctest.Wait()
		n, err := b.Delete(t.Context(), "a")
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.ErrorIs(t, <-errs["a"], batch.ErrDeleted)
		require.NoError(t, b.Close())
		require.ErrorIs(t, <-errs["b"], batch.ErrClosed)
	})
}

func TestAResultThatCannotBeEncodedIsAnError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, err := batch.New(batch.Config[int, any]{Store: batch.NewMemory(), Send: func(context.Context, string, []int) ([]batch.Result[any], error) {
			return []batch.Result[any]{{Value: func() {}}}, nil
		}})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = b.Run(ctx) }()
		_, err = b.Call(ctx, 1)
		require.ErrorContains(t, err, "batch: the result cannot be encoded")
		cancel()
		require.NoError(t, b.Close())
	})
}

func TestAPausedGroupIsSentAfterItsPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := newVendor[item]()
		b := start(t, batch.Config[item, string]{Name: "x", Send: v.send, Option: optionOf})
		require.NoError(t, b.Pause(t.Context(), "a"))
		add(t, b, item{"a", 1}, item{"b", 2})
		time.Sleep(time.Hour)
		require.Equal(t, []string{"b"}, v.options())
		require.EqualError(t, b.Drain(t.Context()), "batch: x: 1 records remain in paused groups")
		require.NoError(t, b.Resume(t.Context(), "a"))
		synctest.Wait()
		require.Equal(t, []string{"b", "a"}, v.options())
		drain(t, b)
	})
}

func TestOneOptionIsFlushedByHand(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := newVendor[item]()
		b := start(t, batch.Config[item, string]{Send: v.send, Option: optionOf})
		add(t, b, item{"a", 1}, item{"b", 2}, item{"c", 3})
		require.NoError(t, b.Flush(t.Context(), "b", "none"))
		synctest.Wait()
		require.Equal(t, []string{"b"}, v.options())
		require.Zero(t, time.Since(v.start))
		time.Sleep(time.Minute + time.Second)
		require.ElementsMatch(t, []string{"b", "a", "c"}, v.options())
		drain(t, b)
	})
}

func TestACallHasMaxBytesAtMost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := newVendor[string]()
		b := start(t, batch.Config[string, string]{Send: v.send, MaxBytes: 100, Size: func(s string) int { return len(s) }})
		for i := range 20 {
			add(t, b, strings.Repeat("x", 1+7*i%60))
		}
		_, err := b.Add(t.Context(), strings.Repeat("x", 101))
		require.EqualError(t, err, "batch record size = 101: must be at most MaxBytes, 100")
		drain(t, b)
		for _, c := range v.seen() {
			require.LessOrEqual(t, len(strings.Join(c.records, "")), 100)
		}
		require.Less(t, len(v.seen()), 12)
	})
}

func TestConcurrencyBoundsTheCallsInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := newVendor[int]()
		v.latency = 10 * time.Second
		b := start(t, batch.Config[int, string]{Send: v.send, MaxRecords: 1, Concurrency: 3})
		add(t, b, numbers(0, 30)...)
		require.NoError(t, b.Flush(t.Context()))
		time.Sleep(time.Second)
		require.Equal(t, 3, b.Stats().InFlight)
		require.Equal(t, 30, b.Stats().Records)
		drain(t, b)
		require.Equal(t, 90*time.Second, v.seen()[29].at)
		require.Equal(t, 3, most(v.seen(), 10*time.Second))
	})
}

func TestASecondRunIsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, 1)
		b := start(t, batch.Config[int, string]{Send: newVendor[int]().send, Pacer: p})
		synctest.Wait()
		require.ErrorIs(t, b.Run(t.Context()), batch.ErrRunning)
		require.NoError(t, b.Close())
	})
}

func TestRunEndsWithItsPacer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, 1)
		b, err := batch.New(batch.Config[int, string]{Send: newVendor[int]().send, Pacer: p, FlushSize: 1})
		require.NoError(t, err)
		require.NoError(t, p.Close())
		add(t, b, 1)
		require.ErrorContains(t, b.Run(t.Context()), "pace: closed")
	})
}
