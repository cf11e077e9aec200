package jobs_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/outbound/gate"
	"github.com/gresil/gresil/outbound/jobs"
)

func TestConfigValidate(t *testing.T) {
	t.Parallel()
	require.NoError(t, jobs.Config{}.Validate())
	err := jobs.Config{MaxPending: -1, Queues: map[string]jobs.Queue{
		"a": {Concurrency: -1, Backoff: backoff.Exponential{Delay: -1}, MaxDeliveries: -1},
		"{": {Handler: nothing, Concurrency: 1 << 17, GateCall: func(jobs.Job) gate.Call { return gate.Call{} }},
	}}.Validate()
	require.ErrorIs(t, err, core.ErrConfig)
	require.Equal(t, []string{
		`jobs.Config.MaxPending = -1: must be >= 0 (0 means 1000000)`,
		`jobs.Config.Queues["a"].Handler = <nil>: must be set`,
		`jobs.Config.Queues["a"].Concurrency = -1: must be 0 to 65536 (0 means 10)`,
		`jobs.Config.Queues["a"].MaxDeliveries = -1: must be >= 0 (0 means 5)`,
		`jobs.Config.Queues["a"].Backoff.Exponential.Delay = -1ns: must be >= 0 (0 means 500ms)`,
		`jobs.Config.Queues = {: must be at most 200 bytes of UTF-8 without control characters and braces, not blank, and not begin with batch:`,
		`jobs.Config.Queues["{"].GateCall = a function: must be nil without a Gate`,
		`jobs.Config.Queues["{"].Concurrency = 131072: must be 0 to 65536 (0 means 10)`,
	}, strings.Split(err.Error(), "\n"))
	_, err = jobs.New(jobs.Config{Engine: &jobs.Engine{}})
	require.EqualError(t, err, "jobs.Config.Engine = an empty one: must be made by Memory or asynqjobs.New")
	require.NoError(t, jobs.Config{Grace: -1, Queues: map[string]jobs.Queue{"a": {Handler: nothing, Concurrency: 1 << 16, Timeout: -1}}}.Validate())
}

func TestJobValidate(t *testing.T) {
	t.Parallel()
	r, err := jobs.New(jobs.Config{})
	require.NoError(t, err)
	long := strings.Repeat("x", 201)
	for field, job := range map[string]jobs.Job{
		"ID":         {Queue: "q", ID: " "},
		"ID ":        {Queue: "q", ID: "a\nb"},
		"Queue":      {},
		"Queue ":     {Queue: "a{b}"},
		"Queue  ":    {Queue: long},
		"Queue   ":   {Queue: "\xff"},
		"Queue    ":  {Queue: "batch:contacts"}, // that of a batcher
		"Campaign":   {Queue: "q", Campaign: long},
		"Payload":    {Queue: "q", Payload: make([]byte, 1<<20+1)},
		"Meta":       {Queue: "q", Meta: map[string]string{"a": "\xff"}},
		"Meta ":      {Queue: "q", Meta: map[string]string{"a": strings.Repeat("x", 4<<10)}},
		"NotBefore":  {Queue: "q", NotBefore: time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)},
		"NotBefore ": {Queue: "q", NotBefore: time.Date(0, 1, 1, 0, 0, 0, -1, time.UTC)},
		"Retain":     {Queue: "q", Retain: -1},
		"Retain ":    {Queue: "q", Retain: 91 * 24 * time.Hour},
	} {
		_, err := r.Enqueue(t.Context(), job)
		bad, ok := errors.AsType[*core.ConfigError](err)
		require.True(t, ok, field)
		require.Equal(t, "jobs.Job."+strings.TrimSpace(field), bad.Field)
	}
	id := enqueue(t, r, jobs.Job{Queue: "a:b \u00fc", Payload: make([]byte, 1<<20), Meta: map[string]string{"a": strings.Repeat("x", 4<<10-1)}})
	require.Len(t, id, 26)
	_, err = r.Enqueue(t.Context(), jobs.Job{Queue: "a:b \u00fc", ID: id})
	require.ErrorIs(t, err, jobs.ErrExists)
}

func TestSetConfig(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		engine, called := jobs.Memory(), false
		r, _ := start(t, jobs.Queue{Handler: nothing}, func(c *jobs.Config) { c.Name, c.Engine = "calls", engine })
		require.NoError(t, r.SetConfig(jobs.Config{MaxPending: 7, Queues: map[string]jobs.Queue{"q": {Concurrency: 10, Handler: func(context.Context, jobs.Job) error {
			called = true
			return nil
		}}}}))
		cfg := r.Config()
		require.Equal(t, []any{7, "calls"}, []any{cfg.MaxPending, cfg.Name})
		require.Same(t, engine, cfg.Engine)
		enqueue(t, r, jobs.Job{})
		synctest.Wait()
		require.True(t, called, "by the next attempt")
		err := r.SetConfig(jobs.Config{Engine: jobs.Memory(), Queues: map[string]jobs.Queue{"q": {Handler: nothing, Concurrency: 11}, "other": {Handler: nothing}}})
		require.EqualError(t, err, "jobs.Config.Engine = another one: must stay as it is\njobs.Config.Queues = other names: must have the same names\n"+
			`jobs.Config.Queues["q"].Concurrency = 11: must stay as it is`)
	})
}
