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

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/groups"
	"github.com/gresil/gresil/outbound/batch"
	"github.com/gresil/gresil/outbound/jobs"
)

var errNo = errors.New("no")

// answers fails a record "bad" for good, and "twice" with its first attempt.
func answers(_ context.Context, n int, records []record) ([]result, error) {
	results := all(records)
	for i, r := range records {
		if r.Content == "bad" {
			results[i].Err = core.Permanent(errNo)
		}
		if r.Content == "twice" && n == 1 {
			results[i].Err = errNo
		}
	}
	return results, nil
}

func TestCall(t *testing.T) {
	for name, row := range map[string]struct {
		content string
		during  func(t *testing.T, b *batcher)
		value   string
		err     error
		after   time.Duration
	}{
		"success": {content: "1", value: "of 1", after: time.Minute},
		"failed":  {content: "bad", err: errNo, after: time.Minute},
		"sent again": {
			content: "twice", value: "of twice", after: 75 * time.Second,
		},
		"full":     {content: "full", err: batch.ErrFull},
		"gives up": {content: "late", err: context.DeadlineExceeded, after: 3 * time.Second},
		"deleted": {
			content: "1", err: batch.ErrNotFound, after: 31150 * time.Millisecond, // as soon as it is asked for
			during: func(t *testing.T, b *batcher) {
				t.Helper()
				n, err := b.Delete(t.Context(), "o")
				require.NoError(t, err)
				require.Equal(t, 2, n)
			},
		},
	} {
		for _, where := range []string{"here", "another process"} {
			t.Run(name+" "+where, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					engine := jobs.Memory()
					v := &vendor{answer: answers}
					change := func(c *config) {
						c.Engine = engine
						if row.content == "full" {
							c.MaxPending = 1
						}
					}
					b := v.start(t, change)
					if where != "here" {
						b = core.Must(newBatcher(v.config(change)))
					}
					add(t, b, "o", "other")
					ctx := t.Context()
					if row.content == "late" {
						var cancel func()
						ctx, cancel = context.WithTimeout(ctx, 3*time.Second)
						defer cancel()
					}
					if row.during != nil {
						go func() {
							time.Sleep(30 * time.Second)
							row.during(t, b)
						}()
					}
					begun := time.Now()
					value, err := b.Call(ctx, record{"o", row.content})
					require.ErrorIs(t, err, row.err)
					require.Equal(t, row.value, value)
					require.GreaterOrEqual(t, time.Since(begun), min(row.after, 30*time.Second))
					require.LessOrEqual(t, time.Since(begun), row.after+time.Second)
					if where == "here" && row.during == nil {
						require.Equal(t, row.after, time.Since(begun))
					}
				})
			})
		}
	}
}

// Calls whose records have one key get one result.
func TestCallOfOneKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := &vendor{}
		b := v.start(t, func(c *config) { c.Key = func(record) string { return "k" } })
		values := make(chan string, 3)
		for i := range 3 {
			go func() {
				value, err := b.Call(t.Context(), record{"o", fmt.Sprint(i)})
				if err != nil {
					value = err.Error()
				}
				values <- value
			}()
			synctest.Wait()
		}
		for range 3 {
			require.Equal(t, "of 2", <-values)
		}
		require.Equal(t, []string{"60 o: 2"}, v.seen())
	})
}

// A Call that gives up takes the result of no other one.
func TestCallOfOneKeyGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := &vendor{}
		b := v.start(t, func(c *config) { c.Key = func(record) string { return "k" } })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		go func() {
			_, err := b.Call(ctx, record{"o", "1"})
			assert.ErrorIs(t, err, context.DeadlineExceeded)
		}()
		synctest.Wait()
		patient, end := context.WithTimeout(t.Context(), time.Hour)
		defer end()
		value, err := b.Call(patient, record{"o", "2"})
		require.NoError(t, err)
		require.Equal(t, "of 2", value)
	})
}

func TestResult(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := &vendor{answer: answers}
		b := v.start(t, nil)
		ids := add(t, b, "o", "1", "bad", "twice")
		get := func(id string) string {
			t.Helper()
			r, done, err := b.Result(t.Context(), id)
			if err != nil {
				require.ErrorIs(t, err, batch.ErrNotFound)
				return "unknown"
			}
			return strings.TrimSpace(fmt.Sprintf("%s %t %v", r.Value, done, r.Err))
		}
		expect := func(want ...string) {
			t.Helper()
			for i, id := range ids {
				require.Equal(t, want[i], get(id), i)
			}
		}
		expect("false <nil>", "false <nil>", "false <nil>")
		time.Sleep(61 * time.Second)
		expect("of 1 true <nil>", "true no", "false <nil>")
		time.Sleep(15 * time.Second)
		expect("of 1 true <nil>", "true no", "of twice true <nil>")
		time.Sleep(10*time.Minute - 10*time.Second)
		expect("unknown", "true no", "of twice true <nil>")
		_, err := b.Retry(t.Context(), "o")
		require.NoError(t, err)
		require.Equal(t, "false <nil>", get(ids[1]))
		_, err = b.Delete(t.Context(), "o")
		require.NoError(t, err)
		time.Sleep(time.Hour)
		require.Equal(t, "unknown", get("none"))
	})
}

// Calls that wait for another process ask together, once a second at last, and each has its own result.
func TestCallsAskTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &noResults{failing: failing{Store: groups.NewMemory()}}
		engine, v := groups.NewEngine(groups.Open(jobs.Memory()), s), &vendor{}
		change := func(c *config) { c.Engine = engine }
		v.start(t, change)
		b := core.Must(newBatcher(v.config(change)))
		var calls sync.WaitGroup
		for i := range 100 {
			calls.Go(func() {
				value, err := b.Call(t.Context(), record{"o", fmt.Sprint(i)})
				assert.NoError(t, err)
				assert.Equal(t, fmt.Sprint("of ", i), value)
			})
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(5 * time.Second)
		before := s.asked.Load()
		time.Sleep(30 * time.Second)
		require.InDelta(t, 30, s.asked.Load()-before, 5)
		calls.Wait()
	})
}

// While the store fails, Calls wait.
func TestCallWhileEngineFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &noResults{failing: failing{Store: groups.NewMemory()}}
		q := groups.Open(jobs.Memory())
		engine, v := groups.NewEngine(q, s), &vendor{}
		v.start(t, func(c *config) { c.Engine, c.FlushSize = engine, 1 })
		b := core.Must(newBatcher(v.config(func(c *config) { c.Engine, c.FlushSize = engine, 1 })))
		s.set(errNo)
		go func() {
			time.Sleep(time.Minute)
			s.set(nil)
		}()
		begun := time.Now()
		value, err := b.Call(t.Context(), record{"o", "1"})
		require.NoError(t, err)
		require.Equal(t, "of 1", value)
		require.Greater(t, time.Since(begun), time.Minute)
	})
}

// noResults is a store whose Results fail, and are counted.
type noResults struct {
	failing

	asked atomic.Int64
}

func (s *noResults) Results(ctx context.Context, queue string, ids []string) (map[string]groups.Result, error) {
	s.asked.Add(1)
	if err := s.get(); err != nil {
		return nil, err
	}
	return s.Store.Results(ctx, queue, ids)
}

func (s *noResults) Add(ctx context.Context, queue string, r groups.Record, rules groups.Rules) (string, bool, error) {
	return s.Store.Add(ctx, queue, r, rules)
}

func (s *noResults) Take(ctx context.Context, queue string, terms groups.Terms) (groups.Batch, groups.State, error) {
	return s.Store.Take(ctx, queue, terms)
}

func (s *noResults) Replace(ctx context.Context, queue string, b groups.Batch, parts []groups.Part, results []groups.Result, last error) error {
	return s.Store.Replace(ctx, queue, b, parts, results, last)
}
