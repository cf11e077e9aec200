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
	"github.com/gresil/gresil/internal/groups"
	"github.com/gresil/gresil/internal/registry"
	"github.com/gresil/gresil/outbound/batch"
	"github.com/gresil/gresil/outbound/jobs"
)

// Flush and Retry bring back what waits for another attempt, or has failed.
func TestControl(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		v := &vendor{answer: func(context.Context, int, []record) ([]result, error) { return nil, limitedError(time.Hour) }}
		b := v.start(t, func(c *config) { c.FlushSize, c.MaxAttempts = 2, 1 })
		add(t, b, "o", "1", "2")
		time.Sleep(time.Minute)
		v.answers(nil)
		require.NoError(t, b.Flush(ctx, "o"))
		time.Sleep(time.Second)
		require.Equal(t, []string{"0 o: 1 2", "60 o: 1 2"}, v.seen())

		require.NoError(t, b.Pause(ctx, "o"))
		add(t, b, "o", "3", "4")
		time.Sleep(time.Hour)
		require.Equal(t, 2, v.count())
		require.NoError(t, b.Resume(ctx, "o"))
		synctest.Wait()
		require.Equal(t, 3, v.count())

		v.answers(func(context.Context, int, []record) ([]result, error) { return nil, errors.New("down") })
		add(t, b, "o", "5", "6")
		synctest.Wait()
		var failed []string
		for f, err := range b.Failed(ctx, "o") {
			require.NoError(t, err)
			failed = append(failed, f.Record.Content+": "+f.Err.Error())
		}
		require.Equal(t, []string{"5: down", "6: down"}, failed)
		v.answers(nil)
		n, err := b.Retry(ctx, "o")
		require.NoError(t, err)
		require.Equal(t, 2, n)
		synctest.Wait()
		require.EqualValues(t, 6, b.Stats().Sent)
		require.EqualValues(t, 2, b.Stats().Failed)
	})
}

// Failed reads as many records as there are.
func TestManyFailed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := &vendor{answer: func(context.Context, int, []record) ([]result, error) { return nil, errors.New("down") }}
		b := v.start(t, func(c *config) { c.FlushSize, c.MaxAttempts = 100, 1 })
		const n = 1200
		for i := range n {
			add(t, b, "o", fmt.Sprint(i))
		}
		time.Sleep(2 * time.Minute) // after FlushAfter: the last batch can have fewer than FlushSize
		failed := map[string]bool{}
		for f, err := range b.Failed(t.Context(), "o") {
			require.NoError(t, err)
			failed[f.Record.Content] = true
		}
		require.Len(t, failed, n)
	})
}

// What is in flight is not deleted, and nothing takes its place.
func TestDelete(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := &vendor{answer: func(_ context.Context, _ int, records []record) ([]result, error) {
			time.Sleep(10 * time.Second)
			return all(records), nil
		}}
		b := v.start(t, func(c *config) { c.Key, c.FlushSize = func(r record) string { return r.Content }, 2 })
		ids := add(t, b, "o", "1", "2")
		synctest.Wait()
		ids = append(ids, add(t, b, "o", "1")...)
		require.NotEqual(t, ids[0], ids[2])
		n, err := b.Delete(t.Context(), "o")
		require.NoError(t, err)
		require.Equal(t, 1, n)
		time.Sleep(time.Hour)
		require.Equal(t, []string{"0 o: 1 2"}, v.seen())
		require.EqualValues(t, 2, b.Stats().Sent)
	})
}

func TestGroupsAndRows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r core.Registry
		begun := time.Now()
		v := &vendor{}
		v.answer = func(_ context.Context, n int, records []record) ([]result, error) {
			switch records[0].Content {
			case "slow":
				time.Sleep(time.Hour)
			case "bad":
				return nil, core.Permanent(errors.New("secret"))
			case "later":
				return nil, errors.New("down")
			}
			return all(records), nil
		}
		b := v.start(t, func(c *config) {
			c.Registry, c.Timeout, c.Backoff = &r, 2*time.Hour, backoff.Constant{Delay: 20 * time.Minute}
		})
		for _, option := range []string{"slow", "bad", "later", "paused"} {
			add(t, b, option, option)
		}
		require.NoError(t, b.Pause(t.Context(), "paused"))
		time.Sleep(2 * time.Minute)
		add(t, b, "new", "new")
		all, err := b.Groups(t.Context())
		require.NoError(t, err)
		flushed := begun.Add(time.Minute)
		require.Equal(t, []batch.Group{
			{Option: "slow", InFlight: 1, LastCall: flushed},
			{Option: "bad", Failed: 1, LastCall: flushed, LastError: "secret"},
			{Option: "later", Pending: 1, Oldest: begun, NextFlush: flushed.Add(20 * time.Minute), LastCall: flushed, LastError: "down"},
			{Option: "paused", Pending: 1, Paused: true, Oldest: begun, NextFlush: begun.Add(time.Minute)},
			{Option: "new", Pending: 1, Oldest: begun.Add(2 * time.Minute), NextFlush: begun.Add(3 * time.Minute)},
		}, all)

		source := entry(t, &r).Source
		rows, err := source.Rows(t.Context())
		require.NoError(t, err)
		var got []string
		for _, row := range rows {
			got = append(got, fmt.Sprintf("%s%d%v", row.Key, row.Alarm, row.Verbs))
			for _, c := range row.Cells {
				require.Equal(t, c.Name == "last_error", c.Secret)
			}
		}
		require.Equal(t, []string{
			"slow0[pause]", "bad2[pause retry delete]", "later0[flush pause delete]", "paused1[flush resume delete]", "new0[flush pause delete]",
		}, got)
		require.Equal(t, []registry.Cell{
			{Name: "pending", Value: 1},
			{Name: "in_flight", Value: 0},
			{Name: "failed", Value: 0},
			{Name: "oldest", Value: all[4].Oldest},
			{Name: "next_flush", Value: all[4].NextFlush},
			{Name: "last_call", Value: time.Time{}},
			{Name: "last_error", Value: "", Secret: true},
			{Name: "paused", Value: false},
		}, rows[4].Cells)
		for verb, want := range map[string]int{"flush": 1, "resume": 0, "pause": 0, "delete": 1, "retry": 0} {
			n, err := source.Control(t.Context(), verb, "later")
			require.NoError(t, err)
			require.LessOrEqual(t, n, want)
		}
	})
}

func entry(t *testing.T, r *core.Registry) registry.Entry {
	t.Helper()
	e, ok := (*registry.Registry)(r).Get("batch", "vendor")
	require.True(t, ok)
	return e
}

// Controls return the errors of the engine.
func TestControlWhileEngineFails(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	q := groups.Open(jobs.Memory())
	b := core.Must(newBatcher((&vendor{}).config(func(c *config) { c.Engine = groups.NewEngine(q, broken{}) })))
	_, errGroups := b.Groups(ctx)
	_, errDelete := b.Delete(ctx, "o")
	_, _, errResult := b.Result(ctx, "id")
	for _, err := range []error{errGroups, errDelete, errResult, b.Flush(ctx), b.Pause(ctx, "o")} {
		require.ErrorIs(t, err, errNo)
	}
	for _, err := range b.Failed(ctx, "o") {
		require.ErrorIs(t, err, errNo)
	}
}

// A broken store fails.
type broken struct{ groups.Store }

func (broken) Control(context.Context, string, groups.Verb, ...string) (int, error) { return 0, errNo }

func (broken) Groups(context.Context, string, time.Duration, int) ([]groups.Group, error) {
	return nil, errNo
}

func (broken) Failed(context.Context, string, string, int, int) ([]groups.Failure, error) {
	return nil, errNo
}

func (broken) Results(context.Context, string, []string) (map[string]groups.Result, error) {
	return nil, errNo
}
