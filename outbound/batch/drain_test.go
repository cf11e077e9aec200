package batch_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/outbound/batch"
)

// 51
func TestDrainSendsAllWithinTheLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := newVendor[item]()
		b := start(t, batch.Config[item, string]{Send: v.send, Option: optionOf, MaxRecords: 10, Pacer: newPacer(t, 30)})
		for i := range 10 {
			add(t, b, items(fmt.Sprint(i), 0, 95)...)
		}
		brief, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.ErrorIs(t, b.Drain(brief), context.DeadlineExceeded)
		_, err := b.Add(t.Context(), item{"a", 1})
		require.ErrorIs(t, err, batch.ErrClosed)
		drain(t, b)
		require.Len(t, v.seen(), 100)
		require.LessOrEqual(t, most(v.seen(), time.Minute), 30)
		require.EqualValues(t, 950, b.Stats().Sent)
	})
}

// 51
func TestCloseLeavesTheRestForTheNextStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := newVendor[int]()
		v.latency = 3 * time.Second
		cfg := batch.Config[int, string]{Send: v.send, MaxRecords: 10, Store: batch.NewMemory(), Concurrency: 1}
		first, err := batch.New(cfg)
		require.NoError(t, err)
		ended := make(chan error)
		go func() { ended <- first.Run(t.Context()) }()
		add(t, first, numbers(0, 25)...)
		require.NoError(t, first.Flush(t.Context()))
		time.Sleep(time.Second)
		require.NoError(t, first.Close())
		require.NoError(t, <-ended)
		require.Len(t, v.seen(), 1, "the call in flight ends")
		require.EqualValues(t, 10, first.Stats().Sent)
		time.Sleep(time.Hour)
		require.Len(t, v.seen(), 1)
		second := start(t, cfg)
		drain(t, second)
		require.EqualValues(t, 15, second.Stats().Sent)
	})
}

// 51
func TestCloseWithoutAStoreReportsWhatIsLost(t *testing.T) {
	t.Parallel()
	b, err := batch.New(batch.Config[int, string]{Name: "x", Send: newVendor[int]().send})
	require.NoError(t, err)
	add(t, b, 1, 2, 3)
	require.ErrorContains(t, b.Close(), "batch: x: 3 records were not sent")
	require.NoError(t, b.Close())
}

// 51
func TestInlineSendsEachRecordAtOnce(t *testing.T) {
	t.Parallel()
	v := newVendor[item]()
	v.answer = func(_ int, c call[item]) ([]batch.Result[string], error) {
		if c.option == "bad" {
			return nil, errors.New("400")
		}
		return []batch.Result[string]{{Value: strings.Repeat("x", c.records[0].N)}}, nil
	}
	b, err := batch.New(batch.Config[item, string]{Send: v.send, Option: optionOf, Inline: true}) // no Run
	require.NoError(t, err)
	add(t, b, item{"a", 1}, item{"b", 2})
	value, err := b.Call(t.Context(), item{"c", 3})
	require.NoError(t, err)
	require.Equal(t, "xxx", value)
	_, err = b.Add(t.Context(), item{"bad", 3})
	require.EqualError(t, err, "400")
	require.Len(t, v.seen(), 4)
	require.Equal(t, []item{{"b", 2}}, v.seen()[1].records)
	require.NoError(t, b.Close())
}

func TestExemptRecordsPassThePacer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := newVendor[item]()
		b := start(t, batch.Config[item, string]{
			Send: v.send, Option: optionOf, Pacer: newPacer(t, 1), Exempt: func(i item) bool { return i.Option == "read" },
		})
		for i := range 50 {
			_, err := b.Call(t.Context(), item{"read", i})
			require.NoError(t, err)
		}
		require.Zero(t, time.Since(v.start))
		require.Len(t, v.seen(), 50)
		require.Len(t, keys(v.seen()), 50)
		require.EqualValues(t, 50, b.Stats().Direct)
		drain(t, b)
	})
}
