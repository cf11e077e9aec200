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
	"github.com/gresil/gresil/outbound/jobs"
)

func nothing(context.Context, jobs.Job) error { return nil }

func TestValidateReportsEveryField(t *testing.T) {
	t.Parallel()
	require.NoError(t, jobs.Config{}.Validate())
	err := jobs.Config{LookAhead: -1, Queues: map[string]jobs.Queue{
		"a": {Concurrency: -1, Backoff: backoff.Exponential{Delay: -1}},
		"{": {Handler: nothing, Concurrency: 1 << 17, Spread: jobs.RandomSpread(-1, -2)},
	}}.Validate()
	require.ErrorIs(t, err, core.ErrConfig)
	require.Equal(t, []string{
		`jobs.Config.LookAhead = -1ns: must be 0 to 5m0s (0 means 1m0s)`,
		`jobs.Config.Queues["a"].Handler = <nil>: must be set`,
		`jobs.Config.Queues["a"].Concurrency = -1: must be 0 to 65536 (0 means 10)`,
		`jobs.Config.Queues["a"].Backoff.Exponential.Delay = -1ns: must be >= 0 (0 means 500ms)`,
		`jobs.Config.Queues = {: must be at most 200 bytes of UTF-8 without control characters and braces, and not blank`,
		`jobs.Config.Queues["{"].Concurrency = 131072: must be 0 to 65536 (0 means 10)`,
		`jobs.Config.Queues["{"].Spread.RandomSpread.Shortest = -1ns: must be >= 0`,
		`jobs.Config.Queues["{"].Spread.RandomSpread.Longest = -2ns: must be >= the shortest, -1ns`,
	}, strings.Split(err.Error(), "\n"))
	_, err = jobs.New(jobs.Config{LookAhead: -1})
	require.ErrorIs(t, err, core.ErrConfig)
	_, err = jobs.New(jobs.Config{LookAhead: jobs.Soon + 1, Engine: (*jobs.Memory)(nil)})
	require.EqualError(t, err, "jobs.Config.Engine = a nil pointer: must be an engine, or nil for jobs in memory\n"+
		"jobs.Config.LookAhead = 5m0.000000001s: must be 0 to 5m0s (0 means 1m0s)")
	require.NoError(t, jobs.Config{LookAhead: jobs.Soon, Grace: -1, Queues: map[string]jobs.Queue{
		"a": {Handler: nothing, Concurrency: 1 << 16, Timeout: -1, Hold: -1},
	}}.Validate())
}

func TestAJobThatIsNotValidIsRefused(t *testing.T) {
	t.Parallel()
	r, err := jobs.New(jobs.Config{})
	require.NoError(t, err)
	long := strings.Repeat("x", 201)
	for field, job := range map[string]jobs.Job{
		"ID":       {Queue: "q", ID: " "},
		"ID ":      {Queue: "q", ID: "a\nb"},
		"Queue":    {},
		"Queue ":   {Queue: "a{b}"},
		"Queue  ":  {Queue: long},
		"Queue   ": {Queue: "\xff"},
		"Kind":     {Queue: "q", Kind: long},
		"Campaign": {Queue: "q", Campaign: long},
		"Payload":  {Queue: "q", Payload: make([]byte, 1<<20+1)},
		"Retain":   {Queue: "q", Retain: -1},
		"Retain ":  {Queue: "q", Retain: 91 * 24 * time.Hour},
	} {
		_, err := r.Enqueue(t.Context(), job)
		bad, ok := errors.AsType[*core.ConfigError](err)
		require.True(t, ok, field)
		require.Equal(t, "jobs.Job."+strings.TrimSpace(field), bad.Field)
	}
	id, err := r.Enqueue(t.Context(), jobs.Job{Queue: "a:b \u00fc", Payload: make([]byte, 1<<20)})
	require.NoError(t, err)
	require.Len(t, id, 26)
	_, err = r.Enqueue(t.Context(), jobs.Job{Queue: "a:b \u00fc", ID: id})
	require.ErrorIs(t, err, jobs.ErrExists)
	require.EqualValues(t, 1, r.Stats().Duplicates)
}

func TestSetConfigAppliesToTheNextAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var registry core.Registry
		r, _ := start(t, jobs.Queue{Handler: nothing}, func(c *jobs.Config) { c.Name, c.Registry = "calls", &registry })
		got, _ := core.Lookup[*jobs.Runner](&registry, "calls")
		require.Same(t, r, got)
		_, err := jobs.New(jobs.Config{Name: "calls", Registry: &registry})
		require.Error(t, err)
		called := false
		require.NoError(t, r.SetConfig(jobs.Config{LookAhead: jobs.Soon, Queues: map[string]jobs.Queue{"q": {Concurrency: 10, Handler: func(context.Context, jobs.Job) error {
			called = true
			return nil
		}}}}))
		require.Equal(t, jobs.Soon, r.Config().LookAhead)
		require.Equal(t, "calls", r.Config().Name)
		enqueue(t, r, jobs.Job{})
		synctest.Wait()
		require.True(t, called)
		err = r.SetConfig(jobs.Config{Engine: jobs.NewMemory(0), Queues: map[string]jobs.Queue{"q": {Handler: nothing, Concurrency: 11}, "other": {Handler: nothing}}})
		require.ErrorContains(t, err, "jobs.Config.Engine = another one: must stay as it is")
		require.ErrorContains(t, err, "jobs.Config.Queues = other names: must have the same names")
		require.ErrorContains(t, err, `jobs.Config.Queues["q"].Concurrency = 11: must stay as it is`)
	})
}

func TestCloseEndsRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, err := jobs.New(jobs.Config{Queues: map[string]jobs.Queue{"q": {Handler: nothing}}})
		require.NoError(t, err)
		ended := make(chan error, 1)
		go func() { ended <- r.Run(t.Context()) }()
		synctest.Wait()
		require.ErrorIs(t, r.Run(t.Context()), jobs.ErrRunning)
		require.NoError(t, r.Close())
		require.NoError(t, r.Close())
		require.NoError(t, <-ended)
		_, err = r.Enqueue(t.Context(), jobs.Job{Queue: "q"})
		require.ErrorIs(t, err, jobs.ErrClosed)
		require.ErrorIs(t, r.Run(t.Context()), jobs.ErrClosed)
	})
}

// broken is an engine whose Run fails.
type broken struct{ *jobs.Memory }

func (b broken) Run(ctx context.Context, queue string, n int, handle func(context.Context, jobs.Job) jobs.Result) error {
	if queue == "broken" {
		return errors.New("no connection")
	}
	return b.Memory.Run(ctx, queue, n, handle)
}

func TestAnErrorOfTheEngineEndsRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, err := jobs.New(jobs.Config{Engine: &broken{jobs.NewMemory(0)}, Queues: map[string]jobs.Queue{"broken": {Handler: nothing}, "q": {Handler: nothing}}})
		require.NoError(t, err)
		require.EqualError(t, r.Run(t.Context()), "no connection")
	})
}

// repeating is an engine that adds a job, and then repeats the command, as a client of Redis does if the reply is lost.
type repeating struct{ *jobs.Memory }

func (r repeating) Enqueue(ctx context.Context, job jobs.Job) error {
	return errors.Join(r.Memory.Enqueue(ctx, job), r.Memory.Enqueue(ctx, job))
}

func TestAnIDThatIsDrawnIsNeverInUse(t *testing.T) {
	t.Parallel()
	r, err := jobs.New(jobs.Config{Engine: &repeating{jobs.NewMemory(0)}})
	require.NoError(t, err)
	_, err = r.Enqueue(t.Context(), jobs.Job{Queue: "q"})
	require.NoError(t, err)
	_, err = r.Enqueue(t.Context(), jobs.Job{Queue: "q", ID: "a"})
	require.ErrorIs(t, err, jobs.ErrExists)
}

func TestTextsOfConstantsAreReadBack(t *testing.T) {
	t.Parallel()
	for s := jobs.Pending; s <= jobs.Done; s++ {
		text, err := s.MarshalText()
		require.NoError(t, err)
		var back jobs.State
		require.NoError(t, back.UnmarshalText(text))
		require.Equal(t, s, back)
	}
	for v := jobs.Succeeded; v <= jobs.Fail; v++ {
		text, err := v.MarshalText()
		require.NoError(t, err)
		var back jobs.Verdict
		require.NoError(t, back.UnmarshalText(text))
		require.Equal(t, v, back)
	}
	require.Equal(t, "State(9)", jobs.State(9).String())
	_, err := jobs.Verdict(9).MarshalText()
	require.Error(t, err)
}
