package batch_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/internal/blame/blametest"
	"github.com/gresil/gresil/outbound/batch"
)

func TestAddReportsWhatCannotBeAdded(t *testing.T) {
	t.Parallel()
	send := func(context.Context, string, []any) ([]batch.Result[string], error) { return nil, nil }
	b, err := batch.New(batch.Config[any, string]{Name: "x", Send: send, Store: batch.NewMemory(), MaxBytes: 10, MaxPending: 3, MaxGroups: 2, Option: func(v any) string {
		s, _ := v.(string)
		return s
	}})
	require.NoError(t, err)
	add := func(v any) error {
		_, err := b.Add(t.Context(), v)
		return err
	}
	require.ErrorContains(t, add(func() {}), "batch: x: the record cannot be encoded")
	require.ErrorContains(t, add("123456789"), "batch record size = 11: must be at most MaxBytes, 10")
	require.NoError(t, add("12345678"))
	require.NoError(t, add("b"))
	require.ErrorIs(t, add("c"), batch.ErrGroups)
	require.NoError(t, add("b"))
	require.ErrorIs(t, add("b"), batch.ErrFull)
	require.ErrorIs(t, b.Pause(t.Context(), "d"), batch.ErrGroups)
	gone, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("why"))
	_, err = b.Add(gone, 1)
	require.EqualError(t, err, "why")
	require.EqualError(t, b.Flush(gone), "why")
	_, err = b.Call(gone, 1)
	require.EqualError(t, err, "why")
	require.EqualValues(t, 4, b.Stats().Rejected)
	require.NoError(t, b.Close(), "the records stay in the store")
	require.ErrorIs(t, add("b"), batch.ErrClosed)
	_, err = b.Call(t.Context(), 1)
	require.ErrorIs(t, err, batch.ErrClosed)
}

func TestAStoreThatIsDownIsAClearError(t *testing.T) {
	t.Parallel()
	down := errors.New("no route")
	p := &proxy{Store: batch.NewMemory(), before: func(string) error { return down }}
	b, err := batch.New(batch.Config[int, string]{Store: p, Send: newVendor[int]().send})
	require.NoError(t, err)
	_, err = b.Add(t.Context(), 1)
	require.ErrorIs(t, err, batch.ErrStore)
	require.ErrorIs(t, err, down)
	require.EqualError(t, err, "batch: store failed: no route")
	_, err = b.Groups(t.Context())
	require.ErrorIs(t, err, batch.ErrStore)
	require.ErrorIs(t, b.Drain(t.Context()), batch.ErrStore)
	require.EqualValues(t, 3, b.Stats().StoreErrors)
}

// TestTheDeadlineOfTheCallerIsNoFailureOfTheStore: the connection of the store has the same deadline, and
// notices it first.
func TestTheDeadlineOfTheCallerIsNoFailureOfTheStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &proxy{Store: batch.NewMemory(), before: func(string) error { return os.ErrDeadlineExceeded }}
		b, err := batch.New(batch.Config[int, string]{Store: p, Send: newVendor[int]().send})
		require.NoError(t, err)
		for i, f := range []func(context.Context) error{
			func(ctx context.Context) error { _, err := b.Add(ctx, 1); return err },
			func(ctx context.Context) error { _, err := b.Groups(ctx); return err },
			func(ctx context.Context) error { return b.Flush(ctx) },
			b.Drain,
		} {
			require.ErrorIs(t, f(blametest.Late(t.Context())), blametest.ErrLate, i)
		}
		require.Zero(t, b.Stats().StoreErrors)
		require.NoError(t, b.Close())
	})
}

func TestALargeRecordAndAnyOptionAreSent(t *testing.T) {
	t.Parallel()
	for _, store := range []batch.Store{nil, batch.NewMemory()} {
		options := []string{"", ":", "a:b:c", strings.Repeat("o", 1024), "Grüße 日本語", "\xff\x00"}
		v := newVendor[string]()
		b := start(t, batch.Config[string, string]{Send: v.send, Store: store, Option: func(s string) string {
			if len(s) > 1<<19 {
				return "large"
			}
			return s
		}})
		add(t, b, options...)
		large := strings.Repeat("x", 1<<20)
		add(t, b, large)
		drain(t, b)
		require.ElementsMatch(t, append([]string{"large"}, options...), v.options())
		i := slices.IndexFunc(v.seen(), func(c call[string]) bool { return c.option == "large" })
		require.Equal(t, large, v.seen()[i].records[0])
	}
}
