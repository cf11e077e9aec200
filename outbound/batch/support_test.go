package batch_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/outbound/batch"
	"github.com/gresil/gresil/outbound/pace"
)

// A call is one call as the vendor sees it.
type call[T any] struct {
	at      time.Duration // since the start
	option  string
	key     string
	records []T
}

// A vendor answers calls after a time, and keeps them.
type vendor[T any] struct {
	start   time.Time
	latency time.Duration
	answer  func(n int, c call[T]) ([]batch.Result[string], error) // n counts calls from 0; nil: all succeed

	mu    sync.Mutex
	calls []call[T]
}

func newVendor[T any]() *vendor[T] { return &vendor[T]{start: time.Now()} }

func (v *vendor[T]) send(ctx context.Context, option string, records []T) ([]batch.Result[string], error) {
	c := call[T]{time.Since(v.start), option, batch.IdempotencyKey(ctx), slices.Clone(records)}
	v.mu.Lock()
	n := len(v.calls)
	v.calls = append(v.calls, c)
	v.mu.Unlock()
	if v.latency > 0 {
		time.Sleep(v.latency)
	}
	if v.answer != nil {
		return v.answer(n, c)
	}
	return make([]batch.Result[string], len(records)), nil
}

func (v *vendor[T]) seen() []call[T] {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.calls)
}

// sizes returns the number of records of each call to an option.
func (v *vendor[T]) sizes(option string) (all []int) {
	for _, c := range v.seen() {
		if c.option == option {
			all = append(all, len(c.records))
		}
	}
	return all
}

// options returns the options of the calls.
func (v *vendor[T]) options() (all []string) {
	for _, c := range v.seen() {
		all = append(all, c.option)
	}
	return all
}

// most returns the largest number of calls in a window, wherever it begins.
func most[T any](calls []call[T], window time.Duration) (most int) {
	times := make([]time.Duration, 0, len(calls))
	for _, c := range calls {
		times = append(times, c.at)
	}
	slices.Sort(times)
	first := 0
	for i, at := range times {
		for at-times[first] >= window {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

func newPacer(t *testing.T, perMinute int64) *pace.Pacer {
	t.Helper()
	p, err := pace.New(pace.Config{Rates: []pace.Rate{{Calls: perMinute, Per: time.Minute}}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// start makes a batcher, and runs it until the test ends.
func start[T any](t *testing.T, cfg batch.Config[T, string]) *batch.Batcher[T, string] {
	t.Helper()
	b, err := batch.New(cfg)
	require.NoError(t, err)
	run(t, b)
	return b
}

// run runs a batcher until the test ends, or stop is called.
func run[T any](t *testing.T, b *batch.Batcher[T, string]) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	t.Cleanup(stop)
	return stop
}

func add[T any](t *testing.T, b *batch.Batcher[T, string], records ...T) {
	t.Helper()
	for _, r := range records {
		_, err := b.Add(t.Context(), r)
		require.NoError(t, err)
	}
}

// drain sends everything, and closes the batcher.
func drain[T any](t *testing.T, b *batch.Batcher[T, string]) {
	t.Helper()
	require.NoError(t, b.Drain(t.Context()))
	require.NoError(t, b.Close())
}

func numbers(from, to int) (all []int) {
	for i := from; i < to; i++ {
		all = append(all, i)
	}
	return all
}

// An item is a record with an option.
type item struct {
	Option string
	N      int
}

func optionOf(i item) string { return i.Option }

func items(option string, from, to int) (all []item) {
	for i := from; i < to; i++ {
		all = append(all, item{option, i})
	}
	return all
}
