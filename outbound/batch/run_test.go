package batch_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/outbound/gate"
	"github.com/gresil/gresil/outbound/jobs"
)

// A group is sent exactly when it is due, also if another process has added its records.
func TestRunWhenDue(t *testing.T) {
	for name, row := range map[string]struct {
		change func(*config)
		add    func(t *testing.T, b *batcher)
		calls  []string
	}{
		"20 ms": {
			change: func(c *config) { c.FlushAfter = 20 * time.Millisecond },
			add: func(t *testing.T, b *batcher) {
				t.Helper()
				add(t, b, "a", "1")
				time.Sleep(7 * time.Millisecond)
				add(t, b, "b", "2")
				add(t, b, "a", "3")
			},
			calls: []string{"0.02 a: 1 3", "0.027 b: 2"},
		},
		"3 ms": { // shorter than the time between two looks
			change: func(c *config) { c.FlushAfter = 3 * time.Millisecond },
			add: func(t *testing.T, b *batcher) {
				t.Helper()
				time.Sleep(1001 * time.Millisecond)
				add(t, b, "a", "1")
			},
			calls: []string{"1.004 a: 1"},
		},
		"default": {
			add: func(t *testing.T, b *batcher) {
				t.Helper()
				time.Sleep(1500 * time.Millisecond)
				add(t, b, "a", "1")
				time.Sleep(59 * time.Second)
				add(t, b, "a", "2")
				time.Sleep(10 * time.Minute)
				add(t, b, "a", "3")
			},
			calls: []string{"61.5 a: 1 2", "720.5 a: 3"},
		},
		"size": {
			change: func(c *config) { c.FlushSize = 2 },
			add: func(t *testing.T, b *batcher) {
				t.Helper()
				add(t, b, "a", "1")
				add(t, b, "b", "2")
				time.Sleep(time.Second)
				add(t, b, "a", "3")
			},
			calls: []string{"1 a: 1 3", "60 b: 2"},
		},
		"flush": {
			add: func(t *testing.T, b *batcher) {
				t.Helper()
				add(t, b, "a", "1")
				add(t, b, "b", "2")
				time.Sleep(time.Second)
				require.NoError(t, b.Flush(t.Context(), "b", "none"))
				time.Sleep(time.Second)
				require.NoError(t, b.Flush(t.Context()))
			},
			calls: []string{"1 b: 2", "2 a: 1"},
		},
		"added during a look": {
			change: func(c *config) { c.FlushAfter = 20 * time.Millisecond },
			add: func(t *testing.T, b *batcher) {
				t.Helper()
				for range 3000 {
					begun := time.Now()
					_, err := b.Call(t.Context(), record{"a", ""})
					require.NoError(t, err)
					require.LessOrEqual(t, time.Since(begun), 20*time.Millisecond)
				}
			},
		},
		"MaxRecords": {
			change: func(c *config) { c.MaxRecords, c.Concurrency = 2, 1 },
			add: func(t *testing.T, b *batcher) {
				t.Helper()
				add(t, b, "a", "1", "2", "3", "4", "5")
			},
			calls: []string{"60 a: 1 2", "60 a: 3 4", "60 a: 5"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				v := &vendor{}
				b := v.start(t, row.change)
				synctest.Wait()
				row.add(t, b)
				time.Sleep(3 * time.Minute)
				if row.calls != nil {
					require.Equal(t, row.calls, v.seen())
				}
			})
		})
	}
}

// Records that a process without Run adds are sent by the one that has it.
func TestRunOfAnotherProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		engine, v := jobs.Memory(), &vendor{}
		change := func(c *config) { c.Engine, c.FlushAfter, c.FlushSize = engine, 40*time.Millisecond, 2 }
		v.start(t, change)
		adds := core.Must(newBatcher(v.config(change)))
		time.Sleep(time.Minute)
		add(t, adds, "a", "1")
		time.Sleep(time.Second)
		require.Less(t, v.made()[0].at, time.Minute+80*time.Millisecond)
		add(t, adds, "a", "2", "3")
		time.Sleep(30 * time.Millisecond)
		require.Equal(t, 2, v.count())
	})
}

// While calls are limited, options have one call each in turn, so that a small one does not wait for a large one.
func TestRunTakesTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := &vendor{}
		b := v.start(t, func(c *config) {
			c.MaxRecords = 200
			c.Gate = core.Must(gate.New(gate.Config{Limits: []gate.Limit{{N: 30, Per: time.Minute}}}))
		})
		for i := range 6000 {
			add(t, b, "large", strconv.Itoa(i))
		}
		add(t, b, "small", "1")
		time.Sleep(3*time.Minute + time.Second)
		calls := v.made()
		require.Len(t, calls, 31, "6,000 / 200 and 1")
		small := 0
		for i, c := range calls {
			if c.option == "small" {
				small = i + 1
			}
			if i >= 30 {
				require.GreaterOrEqual(t, c.at-calls[i-30].at, time.Minute)
			}
			require.LessOrEqual(t, c.at, time.Minute+time.Duration(i)*2010*time.Millisecond, "the limit is used")
		}
		require.LessOrEqual(t, small, 5)
		require.EqualValues(t, 6001, b.Stats().Sent)
	})
}

// No more calls than Concurrency run at a time, and all places are used.
func TestRunConcurrency(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		flying, most := 0, 0
		v := &vendor{}
		v.answer = func(_ context.Context, _ int, records []record) ([]result, error) {
			v.mu.Lock()
			flying++
			most = max(most, flying)
			v.mu.Unlock()
			time.Sleep(time.Second)
			v.mu.Lock()
			flying--
			v.mu.Unlock()
			return all(records), nil
		}
		b := v.start(t, func(c *config) { c.Concurrency, c.MaxRecords = 3, 1 })
		for i := range 30 {
			add(t, b, fmt.Sprint(i%7), strconv.Itoa(i))
		}
		require.NoError(t, b.Flush(t.Context()))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.Equal(t, 3, most)
		require.EqualValues(t, 30, b.Stats().Sent)
	})
}
