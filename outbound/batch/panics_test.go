package batch_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/outbound/batch"
	"github.com/gresil/gresil/outbound/pace"
)

// A brokenError panics when it is asked for its text: a nil pointer that was returned as an error.
type brokenError struct{ text string }

func (e *brokenError) Error() string { return e.text }

type brokenBackoff struct{}

func (brokenBackoff) Next(int, time.Duration) time.Duration { panic("backoff") }

// A stubborn value panics when it is encoded.
type stubborn struct{}

func (stubborn) MarshalJSON() ([]byte, error) { panic("marshal") }

// A picky record panics when it is decoded, if it is negative.
type picky int

func (p *picky) UnmarshalJSON(text []byte) error {
	var n int
	if err := json.Unmarshal(text, &n); err != nil {
		return err
	}
	if n < 0 {
		panic("unmarshal")
	}
	*p = picky(n)
	return nil
}

func TestPanicsOfErrorsAndStrategiesLoseNothing(t *testing.T) {
	t.Parallel()
	none := (*brokenError)(nil)
	for name, c := range map[string]struct {
		send    func(records []int) ([]batch.Result[string], error)
		backoff backoff.Strategy
		err     string
	}{
		"error of the call": {func([]int) ([]batch.Result[string], error) { return nil, none }, nil, "an error of Send panicked: "},
		"error of a record": {func(records []int) ([]batch.Result[string], error) {
			results := make([]batch.Result[string], len(records))
			results[0].Err = none
			return results, nil
		}, nil, "an error of Send panicked: "},
		"panic with an error": {func([]int) ([]batch.Result[string], error) { panic(none) }, nil, "Send panicked"},
		"backoff":             {func([]int) ([]batch.Result[string], error) { return nil, errors.New("no") }, brokenBackoff{}, "no"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := start(t, batch.Config[int, string]{
					MaxAttempts: 3, Backoff: c.backoff,
					Send: func(_ context.Context, _ string, records []int) ([]batch.Result[string], error) {
						return c.send(records)
					},
				})
				add(t, b, 1, 2, 3)
				require.NoError(t, b.Flush(t.Context()))
				time.Sleep(time.Hour)
				groups, err := b.Groups(t.Context())
				require.NoError(t, err)
				require.Len(t, groups, 1)
				require.Zero(t, groups[0].InFlight+groups[0].Retrying+groups[0].Pending)
				require.Positive(t, groups[0].Failed)
				require.Contains(t, groups[0].LastError, c.err)
			})
		})
	}
}

func TestRecordsAndResultsThatPanicWhenTheyAreCodedFailAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, err := batch.New(batch.Config[picky, stubborn]{
			Store: batch.NewMemory(),
			Send: func(_ context.Context, _ string, records []picky) ([]batch.Result[stubborn], error) {
				return make([]batch.Result[stubborn], len(records)), nil
			},
		})
		require.NoError(t, err)
		go func() { _ = b.Run(t.Context()) }()
		_, err = b.Add(t.Context(), -1) // it fails
		require.NoError(t, err)
		_, err = b.Call(t.Context(), 1)
		require.ErrorContains(t, err, "the result cannot be encoded")
		synctest.Wait()
		require.EqualValues(t, 1, b.Stats().Failed)
		require.EqualValues(t, 1, b.Stats().Sent)
		require.NoError(t, b.Close())
	})
}

// A record that takes as long to decode as its number of milliseconds.
type heavy int

func (h *heavy) UnmarshalJSON(text []byte) error {
	var n int
	err := json.Unmarshal(text, &n)
	time.Sleep(time.Duration(n) * time.Millisecond)
	*h = heavy(n)
	return err
}

func TestDecodingDoesNotMoveCallsTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pacer, err := pace.New(pace.Config{Rates: []pace.Rate{{Calls: 1, Per: time.Second}}})
		require.NoError(t, err)
		v := newVendor[heavy]()
		b := start(t, batch.Config[heavy, string]{Send: v.send, Pacer: pacer, MaxRecords: 1, Store: batch.NewMemory()})
		add(t, b, 900, 0, 900, 0)
		drain(t, b)
		require.Len(t, v.seen(), 4)
		require.Equal(t, 1, most(v.seen(), time.Second))
	})
}

func TestAnExemptRecordWhoseContextEndsGetsItsCause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cause := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, cause)
		defer cancel()
		b, err := batch.New(batch.Config[int, string]{Inline: true, Send: func(context.Context, string, []int) ([]batch.Result[string], error) {
			time.Sleep(time.Minute)
			return nil, nil
		}})
		require.NoError(t, err)
		_, err = b.Add(ctx, 1)
		require.ErrorIs(t, err, cause)
		require.NotContains(t, err.Error(), "Timeout")
		time.Sleep(time.Hour)
		require.NoError(t, b.Close())
	})
}

// A vendor that was asked with a key answers it the same way again.
func TestRecordsThatTheVendorAnsweredAreSentAgainWithAnotherKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := newVendor[int]()
		answers := map[string][]batch.Result[string]{}
		v.answer = func(n int, c call[int]) ([]batch.Result[string], error) {
			if answers[c.key] == nil {
				answers[c.key] = make([]batch.Result[string], len(c.records))
				if n < 2 {
					answers[c.key][0].Err = errors.New("busy")
				}
			}
			return answers[c.key], nil
		}
		b := start(t, batch.Config[int, string]{Send: v.send})
		add(t, b, 1)
		drain(t, b)
		require.EqualValues(t, 1, b.Stats().Sent)
		require.Len(t, v.seen(), 3)
	})
}

// A settlement that the store never accepts keeps neither other records nor the end of Run waiting.
func TestASettlementThatTheStoreNeverAcceptsStopsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		bad := ""
		v := newVendor[item]()
		v.answer = func(_ int, c call[item]) ([]batch.Result[string], error) {
			if c.option == "bad" {
				bad = c.key
			}
			return make([]batch.Result[string], len(c.records)), nil
		}
		store := &picking{Store: batch.NewMemory(), refused: func(id string) bool { return id == bad }}
		b, err := batch.New(batch.Config[item, string]{Send: v.send, Option: optionOf, Store: store, Concurrency: 1})
		require.NoError(t, err)
		stop := run(t, b)
		add(t, b, item{"bad", 1})
		require.NoError(t, b.Flush(t.Context()))
		synctest.Wait()
		add(t, b, item{"good", 2})
		time.Sleep(10 * time.Minute)
		require.Len(t, v.sizes("good"), 1)
		ended := time.Now()
		stop()
		require.Less(t, time.Since(ended), 2*time.Minute)
		for _, c := range v.seen() {
			require.True(t, c.option == "good" || c.key == bad, "one key")
		}
		require.NoError(t, b.Close())
	})
}

// A picking store refuses to settle some batches.
type picking struct {
	batch.Store
	refused func(id string) bool
}

func (p *picking) Settle(ctx context.Context, method string, s batch.Settlement) error {
	if p.refused(s.ID) {
		return errors.New("no")
	}
	return p.Store.Settle(ctx, method, s)
}
