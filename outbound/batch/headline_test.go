package batch_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/outbound/batch"
)

// load adds records to options round robin, flushes, and checks that two processes send them in as few
// calls as possible, never more than the limit in any minute, and in 1.15 of the ideal time.
func load(t *testing.T, records, options, perMinute int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		v := newVendor[item]()
		v.latency = 800 * time.Millisecond
		cfg := batch.Config[item, string]{
			Method: "merge", Option: optionOf, MaxRecords: 200, Pacer: newPacer(t, int64(perMinute)), Send: v.send,
			Store: batch.NewMemory(), Concurrency: 16,
		}
		processes := []*batch.Batcher[item, string]{start(t, cfg), start(t, cfg)}
		for i := range records {
			add(t, processes[i%2], item{fmt.Sprint(i % options), i})
		}
		began := time.Now()
		require.NoError(t, processes[0].Drain(t.Context()))
		elapsed := time.Since(began) - v.latency // of the last call

		calls, seen := map[string]int{}, map[int]bool{}
		for _, c := range v.seen() {
			calls[c.option]++
			for _, r := range c.records {
				require.False(t, seen[r.N], "record %d was sent twice", r.N)
				seen[r.N] = true
			}
		}
		require.Len(t, seen, records)
		require.Len(t, calls, options)
		for option := range options {
			n := (records - option + options - 1) / options
			require.Equal(t, (n+199)/200, calls[fmt.Sprint(option)], "calls of option %d with %d records", option, n)
		}
		require.LessOrEqual(t, most(v.seen(), time.Minute), perMinute)
		ideal := time.Duration(len(v.seen())) * time.Minute / time.Duration(perMinute)
		require.LessOrEqual(t, elapsed, ideal+ideal*15/100)
		t.Logf("%d calls in %v, ideal %v, unused permits %d", len(v.seen()), elapsed, ideal, processes[0].Stats().Unused+processes[1].Stats().Unused)
	})
}

func TestManyRecordsTakeTheFewestCallsWithinTheLimit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ records, options, perMinute int }{
		{20_000, 1, 100}, {20_000, 1, 1000}, {20_000, 37, 100}, {20_000, 8, 1000},
	} {
		t.Run(fmt.Sprintf("%d records, %d options, %d a minute", c.records, c.options, c.perMinute), func(t *testing.T) {
			t.Parallel()
			load(t, c.records, c.options, c.perMinute)
		})
	}
}
