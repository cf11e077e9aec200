package dispatch_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/outbound/dispatch"
)

// pages fetches 10 pages of 100 rows. The first fetch of page limitAt is refused.
func pages(fetched *[]int, limitAt int) func(context.Context, none, int) (dispatch.Page[int, int], error) {
	return func(_ context.Context, _ none, at int) (p dispatch.Page[int, int], err error) {
		if *fetched = append(*fetched, at); at == limitAt {
			limitAt = 0
			return p, limited(15 * time.Second)
		}
		for i := range 100 {
			p.Rows = append(p.Rows, (at-1)*100+i+1)
		}
		p.Next, p.More = at+1, at < 10
		return p, nil
	}
}

func TestAStreamContinuesAfterACooldown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dials := 0
		d := newDispatcher(t, config{Account: func(key string) string { return key }, Dial: func(context.Context, string) (none, error) { dials++; return none{}, nil }})
		var fetched []int
		start, rows, s := time.Now(), 0, newScript()
		for row, err := range dispatch.Stream(t.Context(), d, "a", 1, pages(&fetched, 6)) {
			require.NoError(t, err)
			rows++
			require.Equal(t, rows, row)
			switch rows {
			case 500:
				require.Zero(t, time.Since(start))
				time.AfterFunc(time.Second, func() { calls(t, d, s, "b") })
			case 501:
				require.Equal(t, 15*time.Second+pad, time.Since(start))
			}
		}
		require.Equal(t, 1000, rows)
		require.Equal(t, []int{1, 2, 3, 4, 5, 6, 6, 7, 8, 9, 10}, fetched)
		synctest.Wait()
		require.Len(t, s.times(), 1)
		require.GreaterOrEqual(t, s.times()[0], 15*time.Second+pad, "other calls pause, too")
		require.Equal(t, 2, dials, "the stream had one connection")
		require.Equal(t, uint64(2), d.Stats().Succeeded)
	})
}

func TestAStreamKeepsItsConnectionWhileItsAccountIsHeld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dials := map[string]int{}
		d := newDispatcher(t, config{
			Capacity: 2, Account: func(key string) string { return key },
			Dial: func(_ context.Context, key string) (none, error) { dials[key]++; return none{}, nil },
		})
		refused, rows := false, 0
		for _, err := range dispatch.Stream(t.Context(), d, "a", 1, func(_ context.Context, _ none, at int) (dispatch.Page[int, int], error) {
			if at == 2 && !refused {
				refused = true
				time.AfterFunc(time.Second, func() { calls(t, d, newScript(), "b") })   //nolint:contextcheck // another call
				time.AfterFunc(2*time.Second, func() { calls(t, d, newScript(), "c") }) //nolint:contextcheck // another call
				return dispatch.Page[int, int]{}, &limitError{15 * time.Second, dispatch.ScopeAccount}
			}
			return dispatch.Page[int, int]{Rows: []int{at}, Next: at + 1, More: at < 3}, nil
		}) {
			require.NoError(t, err)
			rows++
		}
		require.Equal(t, 3, rows)
		require.Equal(t, map[string]int{"a": 1, "b": 1, "c": 1}, dials)
	})
}

func TestAStreamThatIsBrokenOffReturnsItsConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDispatcher(t, config{Capacity: 1})
		var fetched []int
		rows := 0
		for _, err := range dispatch.Stream(t.Context(), d, "", 1, pages(&fetched, 0)) {
			require.NoError(t, err)
			if rows++; rows == 120 {
				require.Zero(t, d.Stats().Idle)
				break
			}
		}
		require.Equal(t, []int{1, 2}, fetched)
		require.Equal(t, dispatch.Stats{Calls: 1, Canceled: 1, Attempts: 2, Dials: 1, Connections: 1, Idle: 1, Limit: 1}, d.Stats())
		calls(t, d, newScript(), "")
	})
}

func TestAStreamEndsWithItsError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		failure := errors.New("500")
		for name, c := range map[string]struct {
			page, want error
			attempts   uint64
		}{
			"another error": {failure, failure, 1},
			"a limit":       {limited(time.Second), dispatch.ErrRateLimited, 5},
		} {
			d := newDispatcher(t, config{})
			var errs []error
			for _, err := range dispatch.Stream(t.Context(), d, "", 1, func(context.Context, none, int) (dispatch.Page[int, int], error) {
				return dispatch.Page[int, int]{Rows: []int{1}, More: true}, c.page
			}) {
				errs = append(errs, err)
			}
			require.Len(t, errs, 1, name)
			require.ErrorIs(t, errs[0], c.want, name)
			require.Equal(t, c.attempts, d.Stats().Attempts, name)
			require.Equal(t, 1, d.Stats().Idle, name)
		}
		d := newDispatcher(t, config{})
		require.NoError(t, d.Close(t.Context()))
		for _, err := range dispatch.Stream(t.Context(), d, "", 1, pages(new([]int), 0)) {
			require.ErrorIs(t, err, dispatch.ErrClosed)
		}
	})
}

// Streams keep their connections while they wait; a call that is to probe the vendor must
// not wait for one of these.
func TestStreamsWithAllConnectionsResumeAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDispatcher(t, config{Capacity: 2})
		start, done := time.Now(), make(chan time.Duration, 10)
		for range 2 {
			go func() {
				attempts := 0
				for _, err := range dispatch.Stream(t.Context(), d, "", 1, func(ctx context.Context, _ none, _ int) (p dispatch.Page[int, int], err error) {
					if attempts++; attempts == 1 {
						return p, errors.Join(sleep(ctx, time.Second), limited(15*time.Second))
					}
					return p, nil
				}) {
					t.Error(err)
				}
				done <- time.Since(start)
			}()
		}
		synctest.Wait()
		for range 8 {
			go func() {
				calls(t, d, newScript(), "")
				done <- time.Since(start)
			}()
		}
		for range 10 {
			require.Equal(t, 16*time.Second+pad, <-done)
		}
	})
}

func TestEachPageOfAStreamHasItsOwnAttempts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, fetches, rows := newDispatcher(t, config{Attempts: 3}), 0, 0
		for _, err := range dispatch.Stream(t.Context(), d, "", 1, func(_ context.Context, _ none, at int) (p dispatch.Page[int, int], err error) {
			if fetches++; fetches%3 != 0 {
				return p, limited(time.Second)
			}
			return dispatch.Page[int, int]{Rows: []int{at}, Next: at + 1, More: at < 4}, nil
		}) {
			require.NoError(t, err)
			rows++
		}
		require.Equal(t, 4, rows)
		require.Equal(t, 12, fetches)
	})
}
