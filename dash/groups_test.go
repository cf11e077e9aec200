package dash_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/dash"
	"github.com/gresil/gresil/outbound/batch"
	"github.com/gresil/gresil/outbound/pace"
)

type record struct{ option, value string }

// merge is a batcher whose calls fail for the record "poison".
func merge(t *testing.T, registry *core.Registry) *batch.Batcher[record, string] {
	t.Helper()
	calls, err := pace.New(pace.Config{Name: "responsys", Registry: registry, Rates: []pace.Rate{{Calls: 30, Per: time.Minute}}})
	require.NoError(t, err)
	b, err := batch.New(batch.Config[record, string]{
		Name: "members", Method: "mergeMembers", Registry: registry, MaxRecords: 200, Pacer: calls, MaxAttempts: 1,
		Option: func(r record) string { return r.option },
		Send: func(_ context.Context, _ string, records []record) ([]batch.Result[string], error) {
			results := make([]batch.Result[string], len(records))
			for i, r := range records {
				if r.value == "poison" {
					results[i].Err = errors.New(`POST "https://vendor/merge?token=secret": bad <record>`)
				}
			}
			return results, nil
		},
	})
	require.NoError(t, err)
	return b
}

func addRecords(t *testing.T, b *batch.Batcher[record, string], option string, values ...string) {
	t.Helper()
	for _, value := range values {
		_, err := b.Add(t.Context(), record{option, value})
		require.NoError(t, err)
	}
}

// running runs a service in the bubble until the end of the test.
func running(t *testing.T, run func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
}

func rowOf(s reply, field, value string) map[string]any {
	for _, row := range s.Rows {
		if row[field] == value {
			return row
		}
	}
	return nil
}

func TestAGroupIsShownWithItsFlushes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := &core.Registry{}
		b := merge(t, registry)
		h := handler(t, registry, dash.Config{})
		row := state(t, h, "?kind=batch").Rows[0]
		require.Equal(t, "mergeMembers", row["method"])
		require.Nil(t, row["option"], "there is no group")
		require.Equal(t, []any{}, row["verbs"])
		require.Contains(t, row["limits"], map[string]any{"calls": 30.0, "per_s": 60.0, "burst": 0.0})

		began := time.Now()
		addRecords(t, b, "crm:<b>vip</b>", "a", "b", "poison")
		time.Sleep(20 * time.Second)
		addRecords(t, b, "", "c")
		s := state(t, h, "?kind=batch")
		require.Len(t, s.Rows, 2)
		row = rowOf(s, "option", "crm:<b>vip</b>")
		require.Equal(t, "pending", row["state"])
		require.InDelta(t, 3, row["pending"], 0)
		require.Equal(t, began.UTC().Format(time.RFC3339Nano), row["oldest"])
		require.Equal(t, began.Add(time.Minute).UTC().Format(time.RFC3339Nano), row["next_flush"])
		require.Nil(t, row["last_flush"])
		require.Nil(t, row["last_error"])
		require.Equal(t, []any{"flush", "pause", "delete"}, row["verbs"])
		page := get(h, "/").Body.String()
		require.Contains(t, page, "<td>crm:&lt;b&gt;vip&lt;/b&gt;</td>")
		require.Contains(t, page, "<td>(empty)</td>")
		require.Contains(t, page, ">20 s ago</td>")
		require.Contains(t, page, ">in 40 s</td>")
		require.Contains(t, page, "30 per 1m</td>")
		require.NotContains(t, page, "<button name=")

		running(t, b.Run)
		time.Sleep(45 * time.Second)
		s = state(t, h, "?kind=batch")
		require.Equal(t, 1, s.Totals["batch"].Attention)
		row = s.Rows[0]
		require.Equal(t, "crm:<b>vip</b>", row["option"], "a group with an error is first")
		require.Equal(t, "failed", row["state"])
		require.InDelta(t, 0, row["pending"], 0)
		require.InDelta(t, 1, row["failed"], 0)
		require.InDelta(t, 1, row["calls_last_minute"], 0)
		require.NotNil(t, row["last_flush"])
		require.Equal(t, `POST "https://vendor/merge?…": bad <record>`, row["last_error"])
		require.Contains(t, get(h, "/").Body.String(), `POST &#34;https://vendor/merge?…&#34;: bad &lt;record&gt; (`)
		require.Equal(t, `POST "https://vendor/merge?token=secret": bad <record>`, state(t, handler(t, registry, dash.Config{Keys: true}), "?kind=batch").Rows[0]["last_error"])
	})
}

func TestAControlChangesItsGroup(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := &core.Registry{}
		b := merge(t, registry)
		addRecords(t, b, "a", "1", "2", "poison")
		addRecords(t, b, "b", "3")
		h := handler(t, registry, dash.Config{Controls: true})
		at := func(option string) map[string]any { return rowOf(state(t, h, "?kind=batch"), "option", option) }

		require.Equal(t, done{Verb: "pause", Kind: "batch", Name: "members", Option: "a"}, ask(t, h, "pause", "a"))
		require.Equal(t, "paused", at("a")["state"])
		require.Equal(t, true, at("a")["paused"])
		require.Equal(t, []any{"flush", "resume", "delete"}, at("a")["verbs"])
		require.Equal(t, 1.0, *ask(t, h, "flush", "b").Count)
		running(t, b.Run)
		time.Sleep(10 * time.Second)
		require.InDelta(t, 3, at("a")["pending"], 0, "it is paused")
		ask(t, h, "resume", "a")
		ask(t, h, "flush", "a")
		time.Sleep(10 * time.Second)
		require.InDelta(t, 1, at("a")["failed"], 0)
		require.Equal(t, 1.0, *ask(t, h, "retry", "a").Count)
		time.Sleep(10 * time.Second)
		require.InDelta(t, 1, at("a")["failed"], 0, "it has failed again")
		require.Equal(t, 1.0, *ask(t, h, "delete", "a").Count)
		row := at("a")
		require.True(t, row == nil || row["failed"] == 0.0, row)
	})
}
