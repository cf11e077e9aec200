package keyvalue_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/core/ratelimit/driver/keyvalue"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/ratelimittest"
)

// A database has rows with a version. Each first update is overtaken by another one.
type database struct {
	mu     sync.Mutex
	rows   map[string][]byte
	closed bool
	keep   time.Duration // of the last update
}

func (d *database) Open(name string) (limits.Table, error) {
	return keyvalue.Table(rows{d, name}), nil
}

type rows struct {
	*database

	table string
}

func (r rows) Update(ctx context.Context, key string, f func(time.Time, []byte) ([]byte, time.Duration)) error {
	return r.update(ctx, r.table+"/"+key, f)
}

func (d *database) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	return nil
}

func (d *database) update(_ context.Context, key string, f func(time.Time, []byte) ([]byte, time.Duration)) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return core.ErrClosed
	}
	f(time.Now(), d.rows[key])
	next, keep := f(time.Now(), d.rows[key])
	switch d.keep = keep; {
	case next == nil:
	case len(next) == 0:
		delete(d.rows, key)
	default:
		d.rows[key] = next
	}
	return nil
}

func TestAStoreOfValuesConforms(t *testing.T) {
	t.Parallel()
	ratelimittest.Run(t, ratelimittest.Harness{
		Open:   func(*testing.T) ratelimit.Store { return &database{rows: map[string][]byte{}} },
		Bubble: synctest.Test,
	})
}

// Two processes share a database, and the second knows nothing of the limits of the first.
func TestAnotherProcessReadsTheValues(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &database{rows: map[string][]byte{}}
		for i, limit := range []ratelimit.Limit{
			ratelimit.PerHour(10), ratelimit.TokenBucket(10, time.Hour, 10), ratelimit.SlidingLog(10, time.Hour),
			ratelimit.SlidingCounter(10, time.Hour).And(ratelimit.SlidingWindow(20, time.Hour, 2)).And(ratelimit.AlignedWindow(30, time.Hour)),
		} {
			key := string(rune('a' + i))
			take := func(limit ratelimit.Limit, n int64) limits.Result {
				table, err := d.Open("")
				require.NoError(t, err)
				id, err := table.Plan(limits.Limit(limit).Specs())
				require.NoError(t, err)
				r, err := table.Apply(t.Context(), key, id, limits.Op{Cost: n})
				require.NoError(t, err)
				return r
			}
			require.EqualValues(t, 6, take(limit, 4).Remaining)
			require.EqualValues(t, 1, take(limit, 5).Remaining, "%v", limit)
			require.Equal(t, int64(3), take(ratelimit.FixedWindow(12, 2*time.Hour), 0).Remaining, "another limit carries over")
		}
	})
}

func TestAValueIsKeptAsLongAsItCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &database{rows: map[string][]byte{}}
		l, err := ratelimit.New(ratelimit.Config{Name: "values", Store: d, Limit: ratelimit.TokenBucket(1, time.Minute, 10)})
		require.NoError(t, err)
		take, err := l.Take(t.Context(), "k", 3)
		require.NoError(t, err)
		require.Equal(t, 3*time.Minute, d.keep)
		before := d.rows["values/k"]
		_, err = l.Take(t.Context(), "k", 8)
		require.NoError(t, err)
		require.Equal(t, before, d.rows["values/k"], "a refusal writes nothing")
		require.NoError(t, l.Refund(t.Context(), take))
		require.Empty(t, d.rows, "a key without usage is dropped")
	})
}

// repaired has a value that cannot be read, which another process deletes during the first update.
type repaired struct{}

func (r repaired) Update(_ context.Context, _ string, f func(time.Time, []byte) ([]byte, time.Duration)) error {
	f(time.Now(), []byte("broken"))
	f(time.Now(), nil)
	return nil
}

func TestAnUpdateThatIsRepeatedForgetsAValueThatCannotBeRead(t *testing.T) {
	t.Parallel()
	table := keyvalue.Table(repaired{})
	id, err := table.Plan(limits.Limit(ratelimit.PerHour(10)).Specs())
	require.NoError(t, err)
	r, err := table.Apply(t.Context(), "k", id, limits.Op{Cost: 1})
	require.NoError(t, err)
	require.EqualValues(t, 9, r.Remaining)
}

func TestAValueThatCannotBeReadIsAnErrorOfTheStore(t *testing.T) {
	t.Parallel()
	d := &database{rows: map[string][]byte{"broken/k": []byte("5"), "broken/l": []byte(`{"At":1,"Counts":[{"Limit":{"Algorithm":9}}]}`), "broken/m": []byte(`{"At":1,"Counts":[{"Limit":{"Algorithm":2,"Permits":1,"Period":1,"Segments":0}}]}`)}}
	for _, list := range []string{"[1]", "[3,1,1,1]", "[-2,1]", "[6,1,1,1]"} {
		d.rows["broken/"+list] = []byte(`{"At":1,"Counts":[{"Limit":{"Algorithm":4,"Permits":1,"Period":1},"State":{"List":` + list + `}}]}`)
		d.rows["broken/counter"+list] = []byte(`{"At":1,"Counts":[{"Limit":{"Algorithm":3,"Permits":1,"Period":1},"State":{"List":` + list + `}}]}`)
	}
	l, err := ratelimit.New(ratelimit.Config{Name: "broken", Store: d, OnStoreError: ratelimit.Deny})
	require.NoError(t, err)
	for key := range d.rows {
		_, err = l.Take(t.Context(), strings.TrimPrefix(key, "broken/"), 1)
		require.ErrorIs(t, err, ratelimit.ErrStore)
	}
}

// The words of a window of many permits in a short time can be read for some seconds only.
func TestAChangeAppliesToUsageAsOfItsTimeHoweverMuchLaterTheKeyIsUsed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, err := ratelimit.New(ratelimit.Config{Name: "values", Store: &database{rows: map[string][]byte{}}, Limit: ratelimit.PerSecond(1_000_000)})
		require.NoError(t, err)
		_, err = l.Take(t.Context(), "k", 1_000_000)
		require.NoError(t, err)
		time.Sleep(500 * time.Millisecond)
		require.NoError(t, l.SetLimit(ratelimit.PerHour(100)))
		time.Sleep(time.Minute)
		r, err := l.Take(t.Context(), "k", 1)
		require.NoError(t, err)
		require.Equal(t, 59*time.Minute, r.RetryAfter)
	})
}

func TestALimitInForceDoesNotStartAgainWithTheUsageOfAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, err := ratelimit.New(ratelimit.Config{Name: "values", Store: &database{rows: map[string][]byte{}}, Limit: ratelimit.FixedWindow(1000, 24*time.Hour)})
		require.NoError(t, err)
		_, err = l.Take(t.Context(), "k", 1000)
		require.NoError(t, err)
		require.NoError(t, l.SetLimit(ratelimit.PerSecond(1_000_000)))
		for range 3 {
			time.Sleep(time.Minute)
			r, err := l.Take(t.Context(), "k", 1_000_000)
			require.NoError(t, err)
			require.True(t, r.Allowed)
		}
	})
}

// Each refund writes the value anew, but gives back nothing to the first limit any more.
func TestALimitThatHasRecoveredStaysSoHoweverManyRefundsComeWithoutATake(t *testing.T) {
	t.Parallel()
	for _, limit := range []ratelimit.Limit{ratelimit.PerSecond(1_000_000), ratelimit.TokenBucket(1<<38, time.Second, 1<<38)} {
		synctest.Test(t, func(t *testing.T) {
			l, err := ratelimit.New(ratelimit.Config{
				Name: "values", Store: &database{rows: map[string][]byte{}}, Limit: limit.And(ratelimit.FixedWindow(1<<38, 24*time.Hour)),
			})
			require.NoError(t, err)
			var takes []ratelimit.Result
			for range 10 {
				r, err := l.Take(t.Context(), "k", spec(limit).Permits/10)
				require.NoError(t, err)
				takes = append(takes, r)
			}
			for _, r := range takes {
				time.Sleep(5 * time.Second)
				require.NoError(t, l.Refund(t.Context(), r))
				r, err := l.Take(t.Context(), "k", 0)
				require.NoError(t, err)
				require.NotZero(t, r.Remaining, "%v", limit)
			}
		})
	}
}

func spec(l ratelimit.Limit) limits.Spec { return limits.Limit(l).Specs()[0] }
