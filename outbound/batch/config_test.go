package batch_test

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/internal/instance"
	"github.com/gresil/gresil/internal/registry"
	"github.com/gresil/gresil/outbound/batch"
)

func TestEveryBadFieldIsReported(t *testing.T) {
	t.Parallel()
	_, err := batch.New(batch.Config[int, string]{
		Unique: 9, MaxRecords: -1, MaxBytes: 5, FlushAfter: -time.Second, FlushSize: -1, Concurrency: 10_001,
		Timeout: -1, Lease: time.Millisecond, MaxAttempts: -2, Backoff: backoff.Constant{Delay: -1}, MaxPending: -1, MaxGroups: -1,
	})
	require.EqualError(t, err, `batch.Config.Send = <nil>: must be a function: it makes the calls
batch.Config.Unique = Unique(9): must be Off, UntilFlushed or UntilDone
batch.Config.Key = <nil>: must be a function, with Unique
batch.Config.MaxRecords = -1: must be 0 to 100000 (0 means 100)
batch.Config.Size = <nil>: must be a function, with MaxBytes and without a Store
batch.Config.FlushAfter = -1s: must be 1ns to 744h0m0s (0 means 1m0s)
batch.Config.FlushSize = -1: must be >= 0 (0 means none)
batch.Config.Concurrency = 10001: must be 0 to 10000 (0 means 4)
batch.Config.Timeout = -1ns: must be 1ns to 744h0m0s (0 means 1m0s)
batch.Config.Lease = 1ms: must be 10ms to 744h0m0s (0 means 30s)
batch.Config.MaxAttempts = -2: must be >= 0 (0 means 5)
backoff.Constant.Delay = -1ns: must be >= 0
batch.Config.MaxPending = -1: must be >= 0 (0 means 1000000)
batch.Config.MaxGroups = -1: must be >= 0 (0 means 10000)`)
	require.ErrorIs(t, err, core.ErrConfig)
	err = batch.Config[int, string]{Send: newVendor[int]().send, Key: func(int) string { return "" }, MaxBytes: -1}.Validate()
	require.EqualError(t, err, `batch.Config.Unique = off: must be UntilFlushed or UntilDone, with Key
batch.Config.MaxBytes = -1: must be >= 0 (0 means no limit)`)
	err = batch.Config[int, string]{Send: newVendor[int]().send, Store: (*nilStore)(nil)}.Validate()
	require.EqualError(t, err, "batch.Config.Store = a nil pointer: must be a store, or nil for records in memory")
}

type nilStore struct{ batch.Store }

// Each function sets the last value that can be used, or the one beyond it.
func TestTheBoundsOfEachFieldAreThoseOfItsDoc(t *testing.T) {
	t.Parallel()
	type config = batch.Config[int, string]
	const most = 31 * 24 * time.Hour
	for field, set := range map[string]func(c *config, beyond bool){
		"MaxRecords":  func(c *config, beyond bool) { c.MaxRecords = 100_000 + one(beyond) },
		"FlushAfter":  func(c *config, beyond bool) { c.FlushAfter = most + time.Duration(one(beyond)) },
		"Concurrency": func(c *config, beyond bool) { c.Concurrency = 10_000 + one(beyond) },
		"Timeout":     func(c *config, beyond bool) { c.Timeout = most + time.Duration(one(beyond)) },
		"Lease":       func(c *config, beyond bool) { c.Lease = most + time.Duration(one(beyond)) },
		"Lease ":      func(c *config, beyond bool) { c.Lease = 10*time.Millisecond - time.Duration(one(beyond)) },
		"Lease  ":     func(c *config, beyond bool) { c.Lease = -time.Duration(one(beyond)) },
		"MaxPending":  func(c *config, beyond bool) { c.MaxPending = -one(beyond) },
		"MaxGroups":   func(c *config, beyond bool) { c.MaxGroups = -one(beyond) },
		"MaxAttempts": func(c *config, beyond bool) { c.MaxAttempts = -one(beyond) },
		"FlushSize":   func(c *config, beyond bool) { c.FlushSize = -one(beyond) },
	} {
		cfg := config{Send: newVendor[int]().send, MaxFailed: -1} // none is kept
		set(&cfg, false)
		require.NoError(t, cfg.Validate(), field)
		set(&cfg, true)
		bad, ok := errors.AsType[*core.ConfigError](cfg.Validate())
		require.True(t, ok, field)
		require.Equal(t, "batch.Config."+strings.TrimSpace(field), bad.Field)
	}
}

func one(beyond bool) int {
	if beyond {
		return 1
	}
	return 0
}

func TestUniqueHasATextForm(t *testing.T) {
	t.Parallel()
	for _, u := range []batch.Unique{batch.Off, batch.UntilFlushed, batch.UntilDone} {
		text, err := u.MarshalText()
		require.NoError(t, err)
		var back batch.Unique
		require.NoError(t, back.UnmarshalText(text))
		require.Equal(t, u, back)
	}
	_, err := batch.Unique(7).MarshalText()
	require.Error(t, err)
	require.Error(t, new(batch.Unique).UnmarshalText([]byte("sometimes")))
}

func TestSetConfigAppliesAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := newVendor[int]()
		registry := &core.Registry{}
		cfg := batch.Config[int, string]{Name: "x", Registry: registry, Send: v.send, FlushAfter: time.Hour}
		b := start(t, cfg)
		has, _ := core.Lookup[*batch.Batcher[int, string]](registry, "x")
		require.Same(t, b, has)
		add(t, b, numbers(0, 10)...)
		time.Sleep(time.Minute)
		cfg.FlushAfter, cfg.MaxRecords = time.Minute, 5
		require.NoError(t, b.SetConfig(cfg))
		synctest.Wait()
		require.Equal(t, []int{5, 5}, v.sizes(""))
		require.Equal(t, 5, b.Config().MaxRecords)
		cfg.Name, cfg.Method, cfg.Store = "y", "other", batch.NewMemory()
		require.EqualError(t, b.SetConfig(cfg), `batch.Config.Name = y: must stay x
batch.Config.Method = other: must stay ""
batch.Config.Store = another one: must stay as it is`)
		drain(t, b)
		_, ok := core.Lookup[*batch.Batcher[int, string]](registry, "x")
		require.False(t, ok)
	})
}

func TestTheMethodIsTheName(t *testing.T) {
	t.Parallel()
	for want, cfg := range map[string]batch.Config[int, string]{"default": {}, "a": {Name: "a"}, "m": {Name: "a", Method: "m"}} {
		cfg.Send = newVendor[int]().send
		b, err := batch.New(cfg)
		require.NoError(t, err)
		require.Equal(t, want, b.Method())
	}
}

func TestASnapshotShowsTheGroupsAndTheLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := newVendor[item]()
		p := newPacer(t, 30)
		b := start(t, batch.Config[item, string]{Name: "x", Send: v.send, Option: optionOf, Pacer: p, MaxRecords: 3, Size: func(item) int { return 10 }})
		began := time.Now()
		add(t, b, items("b", 0, 5)...)
		time.Sleep(20 * time.Second)
		add(t, b, items("a", 0, 2)...)
		require.NoError(t, b.Flush(t.Context(), "b"))
		synctest.Wait()
		s, err := b.Snapshot(t.Context())
		require.NoError(t, err)
		require.Equal(t, p.Config().Rates, s.Rates)
		require.Equal(t, 1, s.Calls)
		require.Equal(t, "x", s.Method)
		require.EqualValues(t, 3, s.Stats.Sent)
		require.Equal(t, []batch.GroupInfo{
			{Method: "x", Option: "a", Pending: 2, Bytes: 20, Oldest: began.Add(20 * time.Second), NextFlush: began.Add(80 * time.Second)},
			{Method: "x", Option: "b", Pending: 2, Bytes: 20, Due: true, Oldest: began, LastCall: began.Add(20 * time.Second), NextFlush: time.Now()},
		}, s.Groups)
		text, err := json.Marshal(s.Groups[0])
		require.NoError(t, err)
		require.JSONEq(t, `{"method":"x","option":"a","pending":2,"unique":0,"bytes":20,"inFlight":0,"retrying":0,"failed":0,"dropped":0,
			"paused":false,"due":false,"oldest":"2000-01-01T00:00:20Z","nextFlush":"2000-01-01T00:01:20Z"}`, string(text))
		drain(t, b)
		s, err = b.Snapshot(t.Context())
		require.NoError(t, err)
		require.Equal(t, 3, s.Calls)
		time.Sleep(2 * time.Minute)
		s, err = b.Snapshot(t.Context())
		require.NoError(t, err)
		require.Zero(t, s.Calls, "they are those of the last minute")
	})
}

func TestTheFiguresAndStepsOfABatcher(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := newVendor[item]()
		v.answer = echo
		r := &core.Registry{}
		b := start(t, batch.Config[item, string]{Send: v.send, Unique: batch.UntilFlushed, Key: optionOf, Exempt: func(i item) bool { return i.Option == "read" }, Registry: r})
		var texts []string
		for _, calls := range []bool{false, true} {
			cancel := instance.Inner(r).Events(calls, func(_ context.Context, step registry.Event) {
				texts = append(texts, step.Text)
				require.Equal(t, step.Text == "call ended", step.Call)
			})
			add(t, b, item{"read", 0}, item{"a", 1}, item{"a", 2}, item{"b", -3})
			require.NoError(t, b.Flush(t.Context()))
			synctest.Wait()
			cancel()
		}
		time.Sleep(2 * time.Second) // records is of the last look at the store
		require.Equal(t, []string{"records failed", "call ended", "call ended", "records failed"}, texts)
		figures := instance.Inner(r).Figures()
		values := map[string]float64{}
		for _, f := range figures {
			values[f.Name+" "+valueOf(f)] = f.N
		}
		require.Len(t, values, len(figures))
		for name, want := range map[string]float64{
			"calls_total answered": 4, "calls_total failed": 0, "added_total grouped": 4, "added_total replaced": 2, "added_total exempt": 2,
			"records_total sent": 2, "records_total failed": 2, "records ": 0, "in_flight ": 0,
		} {
			require.InDelta(t, want, values[name], 0, name)
		}
		drain(t, b)
	})
}

func TestASecondBatcherOfAStoreNeedsANameOrMethod(t *testing.T) {
	t.Parallel()
	var registry core.Registry
	send, store := newVendor[int]().send, batch.NewMemory()
	first, err := batch.New(batch.Config[int, string]{Send: send, Store: store})
	require.NoError(t, err)
	_, err = batch.New(batch.Config[string, string]{Send: newVendor[string]().send, Store: store})
	bad, ok := errors.AsType[*core.ConfigError](err)
	require.True(t, ok, err)
	require.Equal(t, "batch.Config.Name", bad.Field)
	require.ErrorContains(t, err, "Method")

	for _, other := range []batch.Config[int, string]{
		{Store: store, Name: "other"}, {Store: store, Method: "m"}, {Store: store, Method: "m"}, {Store: batch.NewMemory()}, {}, {},
	} {
		other.Send = send
		b, err := batch.New(other)
		require.NoError(t, err, "%+v", other)
		defer func() { require.NoError(t, b.Close()) }()
	}

	require.NoError(t, first.Close())
	holder, err := batch.New(batch.Config[int, string]{Name: "default", Send: send, Registry: &registry})
	require.NoError(t, err)
	cfg := batch.Config[int, string]{Send: send, Store: store, Registry: &registry}
	_, err = batch.New(cfg)
	require.ErrorContains(t, err, "default", "the name is in use")
	require.NoError(t, holder.Close())
	again, err := batch.New(cfg)
	require.NoError(t, err, "a batcher that was not registered has no Store")
	require.NoError(t, first.Close())
	_, err = batch.New(batch.Config[int, string]{Send: send, Store: store})
	require.ErrorIs(t, err, core.ErrConfig, "a second Close frees nothing")
	require.NoError(t, again.Close())
}

func TestABatcherThatIsDroppedKeepsNoStore(t *testing.T) {
	t.Parallel()
	cfg := batch.Config[int, string]{Send: newVendor[int]().send, Store: batch.NewMemory()}
	_, err := batch.New(cfg)
	require.NoError(t, err)
	for range 1000 {
		runtime.GC()
		if b, err := batch.New(cfg); err == nil {
			require.NoError(t, b.Close())
			return
		}
	}
	t.Error("the batcher still has the Store")
}

// valueOf returns the value of the label of a figure, if it has one.
func valueOf(f registry.Figure) string {
	if len(f.Labels) == 0 {
		return ""
	}
	return f.Labels[1]
}
