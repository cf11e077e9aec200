package jobs_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/eventtest"
	"github.com/gresil/gresil/internal/groups"
	"github.com/gresil/gresil/internal/registry"
	"github.com/gresil/gresil/outbound/jobs"
)

func TestFigures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, _ := start(t, jobs.Queue{Concurrency: 1, Handler: func(_ context.Context, job jobs.Job) error {
			if job.ID == "slow" {
				time.Sleep(time.Minute)
			}
			return core.Permanent(errors.New("no"))
		}})
		enqueue(t, r, jobs.Job{})
		enqueue(t, r, jobs.Job{ID: "slow"})
		enqueue(t, r, jobs.Job{})
		enqueue(t, r, jobs.Job{NotBefore: time.Now().Add(time.Hour)})
		time.Sleep(6 * time.Second)
		enqueue(t, r, jobs.Job{}) // seen within a second
		time.Sleep(time.Second)
		synctest.Wait()
		got := map[string]float64{}
		for _, f := range eventtest.Source(r.Config().Registry).Figures() {
			got[strings.Join(append([]string{f.Name}, f.Labels...), " ")] = f.N
		}
		require.Equal(t, map[string]float64{
			"attempts_total result succeeded": 0, "attempts_total result limited": 0, "attempts_total result retried": 0, "attempts_total result failed": 1,
			"enqueued_total": 5, "skipped_total": 0, "running": 1,
			"pending queue q": 2, "scheduled queue q": 1, "active queue q": 1, "kept_failed queue q": 1, "paused queue q": 0,
		}, got)
	})
}

func TestEvents(t *testing.T) {
	t.Parallel()
	for _, calls := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			n := 0
			r, _ := start(t, jobs.Queue{Handler: func(context.Context, jobs.Job) error {
				switch n++; n {
				case 1:
					return rejection{time.Minute}
				case 2:
					panic("no")
				case 3:
					return nil
				}
				return core.Permanent(errors.New("no"))
			}})
			var texts []string
			defer eventtest.Source(r.Config().Registry).Events(calls, func(_ context.Context, e registry.Event) {
				require.Equal(t, "q", e.Attrs[0].Value.String())
				texts = append(texts, e.Text)
				require.Equal(t, []bool{e.Text == "job failed", e.Text != "job failed"}, []bool{e.Warn, e.Call})
				if e.Text == "attempt failed" {
					require.EqualError(t, e.Err(), "jobs: the handler panicked: no")
					require.Contains(t, e.Attr("stack").String(), "report_test.go")
				} else {
					require.Equal(t, slog.Value{}, e.Attr("stack"))
				}
			})()
			enqueue(t, r, jobs.Job{})
			time.Sleep(time.Hour)
			synctest.Wait()
			enqueue(t, r, jobs.Job{})
			synctest.Wait()
			want := []string{"job failed"}
			if calls {
				want = []string{"job runs again later", "attempt failed", "job succeeded", "job failed"}
			}
			require.Equal(t, want, texts)
		})
	}
}

// Each failure of the engine is an event, and the first success after them too, also if Run does not read the queues.
func TestEngineOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFault()
		m := f.Queue
		var until time.Time
		f.inspect = func(ctx context.Context, queues ...string) ([]groups.Counts, error) {
			if time.Now().Before(until) {
				return nil, errors.New("down")
			}
			return m.Inspect(ctx, queues...)
		}
		f.enqueue = func(ctx context.Context, j groups.Job, most int) error {
			if time.Now().Before(until) {
				return errors.New("down")
			}
			return m.Enqueue(ctx, j, most)
		}
		r, err := jobs.New(jobs.Config{Engine: groups.NewEngine(f, nil), Registry: &core.Registry{}})
		require.NoError(t, err)
		var events []registry.Event
		defer eventtest.Source(r.Config().Registry).Events(false, func(_ context.Context, e registry.Event) { events = append(events, e) })()
		for range 2 {
			events, until = nil, time.Now().Add(time.Second-time.Millisecond)
			fed, skipped, err := r.Feed(t.Context(), func(yield func(jobs.Job) bool) { yield(jobs.Job{ID: "a", Queue: "q"}) })
			require.NoError(t, err)
			require.Equal(t, 1, fed+skipped)
			require.Len(t, events, 5, "4 failures within a second, and the end")
			for i, e := range events {
				require.Equal(t, []bool{true, i < 4, i == 4}, []bool{e.Outage, e.Warn, e.Text == "engine has recovered"})
			}
		}
	})
}

// TestRows also does what the rows offer.
func TestRows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fails := true
		r, _ := start(t, jobs.Queue{Handler: func(context.Context, jobs.Job) error {
			if fails {
				return core.Permanent(errors.New("no"))
			}
			return nil
		}}, func(c *jobs.Config) { c.Queues["other"] = jobs.Queue{Handler: nothing} })
		for i := range 25 {
			enqueue(t, r, jobs.Job{ID: string(rune('a' + i))})
		}
		enqueue(t, r, jobs.Job{NotBefore: time.Now().Add(time.Hour)})
		synctest.Wait()
		source := eventtest.Source(r.Config().Registry)
		row := func() (row registry.Row, cells map[string]any) {
			rows, err := source.Rows(t.Context())
			require.NoError(t, err)
			require.Equal(t, "other", rows[0].Key)
			require.Equal(t, registry.Calm, rows[0].Alarm)
			cells = map[string]any{}
			for _, c := range rows[1].Cells {
				cells[c.Name] = c.Value
				require.Equal(t, c.Name == "failed_jobs", c.Secret)
			}
			return rows[1], cells
		}
		control := func(verb string, n int) {
			got, err := source.Control(t.Context(), verb, "q")
			require.NoError(t, err)
			require.Equal(t, n, got)
			synctest.Wait()
		}
		now, cells := row()
		require.Equal(t, []any{"q", registry.Failing, []string{"pause", "retry", "delete_failed"}}, []any{now.Key, now.Alarm, now.Verbs})
		require.Equal(t, []any{25, 1, false, time.Time{}}, []any{cells["failed"], cells["scheduled"], cells["paused"], cells["oldest"]})
		require.Len(t, cells["failed_jobs"], 20)
		control("pause", 1)
		control("retry", 25)
		now, cells = row()
		require.Equal(t, []any{registry.Notice, []string{"resume"}}, []any{now.Alarm, now.Verbs})
		require.Equal(t, []any{25, 0, time.Now()}, []any{cells["pending"], cells["failed"], cells["oldest"]})
		control("resume", 1)
		control("delete_failed", 25)
		fails = false
		now, cells = row()
		require.Equal(t, []any{registry.Calm, []string{"pause"}, 0}, []any{now.Alarm, now.Verbs, cells["failed"]})
	})
}
