package batch_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/outbound/batch"
	"github.com/gresil/gresil/outbound/pace"
)

// 35
func TestOneFlushSendsAllRecordsInTheirOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := newVendor[int]()
		b := start(t, batch.Config[int, string]{MaxRecords: 200, Pacer: newPacer(t, 30), Send: v.send})
		add(t, b, numbers(0, 379)...)
		time.Sleep(2 * time.Minute)
		calls := v.seen()
		require.Len(t, calls, 2)
		require.Equal(t, numbers(0, 200), calls[0].records)
		require.Equal(t, numbers(200, 379), calls[1].records)
		require.NotEqual(t, calls[0].key, calls[1].key)
		require.Equal(t, time.Minute, calls[0].at.Truncate(time.Millisecond))
		drain(t, b)
		require.Len(t, v.seen(), 2)
	})
}

// 37
func TestASmallOptionDoesNotWaitForALargeOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := newVendor[item]()
		b := start(t, batch.Config[item, string]{MaxRecords: 200, Option: optionOf, Pacer: newPacer(t, 30), Send: v.send})
		add(t, b, items("large", 0, 6000)...)
		add(t, b, item{"small", 0})
		require.NoError(t, b.Flush(t.Context()))
		time.Sleep(time.Minute)
		records := map[string]int{}
		for _, c := range v.seen() {
			records[c.option] += len(c.records)
		}
		require.Len(t, v.seen(), 30)
		require.Equal(t, map[string]int{"large": 29 * 200, "small": 1}, records)
		require.Contains(t, v.options()[:2], "small")
		drain(t, b)
		require.Len(t, v.seen(), 31)
		require.Len(t, v.sizes("large"), 30)
	})
}

func TestWithMoreOptionsThanCallsEachIsServedInTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := newVendor[item]()
		b := start(t, batch.Config[item, string]{MaxRecords: 2, Option: optionOf, Pacer: newPacer(t, 10), Send: v.send})
		for i := range 3 {
			for option := range 35 {
				add(t, b, items(fmt.Sprint(option), 2*i, 2*i+2)...)
			}
		}
		require.NoError(t, b.Flush(t.Context()))
		drain(t, b)
		for round := range 3 { // ceil(35/10) minutes each
			seen := map[string]bool{}
			for _, option := range v.options()[35*round : 35*round+35] {
				seen[option] = true
			}
			require.Len(t, seen, 35)
		}
		require.Len(t, v.seen(), 105)
		require.LessOrEqual(t, most(v.seen(), time.Minute), 10)
	})
}

// 39
func TestNoMinuteHasMoreCallsThanTheLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := newVendor[item]()
		v.answer = func(n int, c call[item]) ([]batch.Result[string], error) {
			if n%5 == 3 {
				return nil, errors.New("unavailable")
			}
			return make([]batch.Result[string], len(c.records)), nil
		}
		p := newPacer(t, 30)
		store := batch.NewMemory()
		cfg := batch.Config[item, string]{
			MaxRecords: 10, Option: optionOf, Pacer: p, Send: v.send, MaxAttempts: 100,
			Backoff: backoff.Constant{Delay: 7 * time.Second}, Method: "merge", Store: store,
		}
		a, b := start(t, cfg), start(t, cfg) // two processes
		go func() {                          // direct calls of the same method
			for range 40 {
				time.Sleep(3 * time.Second)
				if _, err := p.Wait(context.Background(), "merge", 1); err == nil {
					_, _ = v.send(context.Background(), "direct", nil)
				}
			}
		}()
		for i := range 50 {
			add(t, a, items(fmt.Sprint(i%7), 20*i, 20*i+20)...)
			add(t, b, items(fmt.Sprint(i%7), 20*i, 20*i+20)...)
		}
		require.NoError(t, a.Drain(t.Context()))
		require.LessOrEqual(t, most(v.seen(), time.Minute), 30)
		require.EqualValues(t, 2000, a.Stats().Sent+b.Stats().Sent)
		require.Positive(t, a.Stats().Sent)
		require.Positive(t, b.Stats().Sent)
		time.Sleep(3 * time.Minute)
		drain(t, b)
		require.NoError(t, a.Close())
	})
}

// 39
func TestACallThatFailsIsSentAgainAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := newVendor[int]()
		v.answer = func(n int, c call[int]) ([]batch.Result[string], error) {
			if n == 1 {
				return nil, laterError(5 * time.Second)
			}
			return make([]batch.Result[string], len(c.records)), nil
		}
		b := start(t, batch.Config[int, string]{MaxRecords: 10, Send: v.send, Concurrency: 1, Backoff: backoff.Constant{Delay: time.Second}})
		add(t, b, numbers(0, 30)...)
		require.NoError(t, b.Flush(t.Context()))
		drain(t, b)
		calls := v.seen()
		require.Len(t, calls, 4)
		require.Equal(t, calls[1].records, calls[3].records)
		require.Equal(t, calls[1].key, calls[3].key, "the same records have the same key")
		require.GreaterOrEqual(t, calls[3].at-calls[1].at, 5*time.Second, "Retry-After is a floor")
		require.Equal(t, map[string]bool{calls[0].key: true, calls[1].key: true, calls[2].key: true}, keys(calls))
	})
}

type laterError time.Duration

func (e laterError) Error() string             { return "limited" }
func (e laterError) RetryAfter() time.Duration { return time.Duration(e) }

func keys[T any](calls []call[T]) map[string]bool {
	all := map[string]bool{}
	for _, c := range calls {
		all[c.key] = true
	}
	return all
}

// 43
func TestAUniqueRecordCanBeAddedAgainAfterItsFlushAndAfterADelete(t *testing.T) {
	t.Parallel()
	for _, unique := range []batch.Unique{batch.UntilFlushed, batch.UntilDone} {
		synctest.Test(t, func(t *testing.T) {
			v := newVendor[item]()
			b := start(t, batch.Config[item, string]{Send: v.send, Unique: unique, Key: optionOf})
			add(t, b, item{"k", 1}, item{"k", 2}, item{"other", 0}, item{"k", 3})
			time.Sleep(61 * time.Second)
			require.Equal(t, []item{{"k", 3}, {"other", 0}}, v.seen()[0].records, "the last wins, in the place of the first")
			add(t, b, item{"k", 4})
			n, err := b.Delete(t.Context(), "")
			require.NoError(t, err)
			require.Equal(t, 1, n)
			add(t, b, item{"k", 5})
			drain(t, b)
			require.Len(t, v.seen(), 2)
			require.Equal(t, []item{{"k", 5}}, v.seen()[1].records)
			require.EqualValues(t, 2, b.Stats().Replaced)
		})
	}
}

func TestUntilDoneKeepsTheKeyDuringTheCall(t *testing.T) {
	t.Parallel()
	for unique, calls := range map[batch.Unique]int{batch.UntilFlushed: 2, batch.UntilDone: 1} {
		synctest.Test(t, func(t *testing.T) {
			v := newVendor[item]()
			v.latency = time.Minute / 2
			b := start(t, batch.Config[item, string]{Send: v.send, Unique: unique, Key: optionOf})
			first, err := b.Add(t.Context(), item{"k", 1})
			require.NoError(t, err)
			time.Sleep(61 * time.Second)
			again, err := b.Add(t.Context(), item{"k", 2})
			require.NoError(t, err)
			require.Equal(t, unique == batch.UntilDone, first == again)
			drain(t, b)
			require.Len(t, v.seen(), calls)
		})
	}
}

// 45
func TestARecordAfterAnIdleTimeWaitsAsTheFirstDid(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := newVendor[int]()
		b := start(t, batch.Config[int, string]{Send: v.send, FlushSize: 5})
		add(t, b, 1)
		time.Sleep(10 * time.Second)
		add(t, b, 2)
		time.Sleep(10*time.Minute - 10*time.Second)
		require.Len(t, v.seen(), 1)
		require.Equal(t, time.Minute, v.seen()[0].at, "the age is that of the oldest")
		add(t, b, 3)
		time.Sleep(10 * time.Minute)
		require.Len(t, v.seen(), 2)
		require.Equal(t, 11*time.Minute, v.seen()[1].at)
		add(t, b, 4, 5, 6, 7)
		time.Sleep(30*time.Second + 300*time.Millisecond) // not when Run looks at the store
		require.Len(t, v.seen(), 2)
		add(t, b, 8)
		synctest.Wait()
		require.Len(t, v.seen(), 3, "the fifth is sent at once")
		require.Equal(t, numbers(4, 9), v.seen()[2].records)
		drain(t, b)
	})
}

func TestAFullCallTakesLaterRecordsAlong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := newVendor[int]()
		b := start(t, batch.Config[int, string]{Send: v.send, MaxRecords: 4, Pacer: newPacer(t, 6)})
		add(t, b, numbers(0, 6)...)
		require.NoError(t, b.Flush(t.Context()))
		synctest.Wait()
		add(t, b, numbers(6, 20)...) // while the second call waits for its permit
		time.Sleep(30 * time.Second)
		require.Equal(t, []int{4, 4}, v.sizes(""), "6 and 7 fill the call, the others are not due")
		drain(t, b)
	})
}

// 47
func TestOnlyTheRecordsThatFailedAreSentAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		invalid := errors.New("invalid")
		v := newVendor[int]()
		v.answer = func(n int, c call[int]) ([]batch.Result[string], error) {
			results := make([]batch.Result[string], len(c.records))
			for i, r := range c.records {
				switch {
				case r == 7:
					results[i].Err = core.Permanent(invalid)
				case r == 90 && n < 2:
					results[i].Err = errors.New("busy")
				}
				results[i].Value = fmt.Sprint("id of ", r)
			}
			return results, nil
		}
		b := start(t, batch.Config[int, string]{Send: v.send, MaxRecords: 200})
		type result struct {
			value string
			err   error
		}
		results := make([]result, 200)
		for i := range results {
			go func() { results[i].value, results[i].err = b.Call(t.Context(), i) }()
			synctest.Wait()
		}
		require.NoError(t, b.Flush(t.Context()))
		time.Sleep(time.Minute)
		synctest.Wait()
		for i, r := range results {
			if i == 7 {
				require.ErrorIs(t, r.err, invalid)
				continue
			}
			require.Equal(t, result{fmt.Sprint("id of ", i), nil}, r)
		}
		calls := v.seen()
		require.Len(t, calls, 3)
		require.Equal(t, []int{90}, calls[1].records)
		require.Equal(t, []int{90}, calls[2].records)
		require.NotEqual(t, calls[0].key, calls[1].key, "another set of records is another call")
		require.NotEqual(t, calls[1].key, calls[2].key, "with the same key, the vendor may repeat its answer")
		require.EqualValues(t, 1, b.Stats().Failed)
		require.EqualValues(t, 199, b.Stats().Sent)
		drain(t, b)
	})
}

// 47
func TestAPoisonRecordIsIsolatedByHalving(t *testing.T) {
	t.Parallel()
	for _, poison := range []int{0, 66, 90, 199} {
		synctest.Test(t, func(t *testing.T) {
			v := newVendor[int]()
			v.answer = func(_ int, c call[int]) ([]batch.Result[string], error) {
				for _, r := range c.records {
					if r == poison {
						return nil, core.Permanent(errors.New("400: bad record"))
					}
				}
				return make([]batch.Result[string], len(c.records)), nil
			}
			b := start(t, batch.Config[int, string]{Send: v.send, MaxRecords: 200, Pacer: newPacer(t, 30)})
			var failure error
			go func() { _, failure = b.Call(t.Context(), poison) }()
			synctest.Wait()
			for i := range 200 {
				if i != poison {
					add(t, b, i)
				}
			}
			drain(t, b)
			synctest.Wait()
			require.ErrorContains(t, failure, "400: bad record")
			require.LessOrEqual(t, len(v.seen())-1, 16, "2·log2(200) further calls")
			require.LessOrEqual(t, most(v.seen(), time.Minute), 30)
			require.EqualValues(t, 199, b.Stats().Sent)
			require.EqualValues(t, 1, b.Stats().Failed)
			require.Len(t, keys(v.seen()), len(v.seen()), "each half is another call")
		})
	}
}

// 49
func TestTheLimitIsReadFromTheVendor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var warnings int
		p, err := pace.New(pace.Config{
			Rates: []pace.Rate{{Calls: 10, Per: time.Minute}}, RefreshEvery: 2 * time.Minute,
			Refresh: func(context.Context) ([]pace.Rate, error) {
				switch minute := time.Since(began) / time.Minute; {
				case minute < 2:
					return []pace.Rate{{Calls: 30, Per: time.Minute}}, nil
				case minute < 4:
					return []pace.Rate{{Calls: 100, Per: time.Minute}}, nil
				}
				return nil, errors.New("503")
			},
			Hooks: pace.Hooks{RefreshFailed: func(context.Context, pace.Info) { warnings++ }},
		})
		require.NoError(t, err)
		v := newVendor[int]()
		b := start(t, batch.Config[int, string]{Send: v.send, MaxRecords: 1, Pacer: p})
		add(t, b, numbers(0, 600)...)
		require.NoError(t, b.Flush(t.Context()))
		time.Sleep(7 * time.Minute)
		in := make([]int, 7)
		for _, c := range v.seen() {
			in[c.at/time.Minute]++
		}
		for minute, want := range []int{30, 30, 100, 100, 100, 100, 100} {
			require.InDelta(t, want, in[minute], 1, "minute %d: %v", minute, in)
		}
		drain(t, b)
		synctest.Wait()
		require.Positive(t, warnings)
		require.NoError(t, p.Close())
	})
}
