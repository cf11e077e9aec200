package batch_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
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

// A record of the tests has an option, and a content.
type record struct{ Option, Content string }

type (
	batcher = batch.Batcher[record, string]
	config  = batch.Config[record, string]
	result  = batch.Result[string]
)

// A vendor notes the calls of a batcher. Without an answer, it returns each content.
type vendor struct {
	answer func(ctx context.Context, n int, records []record) ([]result, error) // n counts from 1

	mu    sync.Mutex
	calls []call
}

type call struct {
	at       time.Duration // from the beginning
	option   string
	contents []string
	key      string
}

// config is that of a batcher for this vendor.
func (v *vendor) config(change func(*config)) config {
	begun := time.Now()
	cfg := config{Name: "vendor", Option: func(r record) string { return r.Option }}
	cfg.Send = func(ctx context.Context, option string, records []record) ([]result, error) {
		c := call{at: time.Since(begun), option: option, key: batch.IdempotencyKey(ctx)}
		for _, r := range records {
			c.contents = append(c.contents, r.Content)
		}
		v.mu.Lock()
		v.calls = append(v.calls, c)
		n, answer := len(v.calls), v.answer
		v.mu.Unlock()
		if answer == nil {
			return all(records), nil
		}
		return answer(ctx, n, records)
	}
	if change != nil {
		change(&cfg)
	}
	return cfg
}

func all(records []record) (results []result) {
	for _, r := range records {
		results = append(results, result{Value: "of " + r.Content})
	}
	return results
}

// seen returns the calls so far as texts: the second, the option and the contents.
func (v *vendor) seen() (texts []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, c := range v.calls {
		texts = append(texts, fmt.Sprintf("%v %s: %s", c.at.Seconds(), c.option, strings.Join(c.contents, " ")))
	}
	return texts
}

// answers changes the answer.
func (v *vendor) answers(f func(ctx context.Context, n int, records []record) ([]result, error)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.answer = f
}

// made returns the calls so far.
func (v *vendor) made() []call {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.calls)
}

func (v *vendor) count() int { return len(v.made()) }

// start runs a batcher until the end of the test.
func (v *vendor) start(t *testing.T, change func(*config)) *batcher {
	t.Helper()
	b, err := batch.New(v.config(change))
	require.NoError(t, err)
	run(t, b)
	return b
}

func run(t *testing.T, b *batcher) (stop func()) {
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

func add(t *testing.T, b *batcher, option string, contents ...string) (ids []string) {
	t.Helper()
	for _, c := range contents {
		id, err := b.Add(t.Context(), record{option, c})
		require.NoError(t, err)
		ids = append(ids, id)
	}
	return ids
}

func TestAdd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := &vendor{}
		b := v.start(t, func(c *config) {
			c.Key = func(r record) string { return strings.TrimRight(r.Content, "0123456789") }
			c.MaxBytes, c.MaxPending = 60, 3
		})
		ids := add(t, b, "a", "x1", "y1", "x2", "1")
		require.Equal(t, ids[0], ids[2], "the record with its key")
		_, err := b.Add(t.Context(), record{"b", "z"})
		require.ErrorIs(t, err, batch.ErrFull)
		require.ErrorIs(t, err, core.ErrRejected)
		_, err = b.Add(t.Context(), record{"a", strings.Repeat("z", 60)})
		require.ErrorIs(t, err, core.ErrConfig)
		ended, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("given up"))
		_, err = b.Add(ended, record{"a", "z"})
		require.EqualError(t, err, "given up")
		time.Sleep(time.Minute + time.Second)
		require.ElementsMatch(t, []string{"60 a: x2 y1", "60 a: 1"}, v.seen(), "MaxBytes")
		require.NotEqual(t, ids[0], add(t, b, "a", "x3")[0], "it was taken")
		require.Equal(t, batch.Stats{Added: 5, Calls: 2, Sent: 3}, b.Stats())
	})
}

func TestCloseSendsWhatIsThere(t *testing.T) {
	for name, row := range map[string]struct {
		before func(t *testing.T, b *batcher, stop func())
		within time.Duration
		calls  []string
		err    string
	}{
		"pending": {within: time.Hour, calls: []string{"0 a: 1 2", "0 b: 3"}},
		"Run has ended": {
			within: time.Hour,
			before: func(_ *testing.T, _ *batcher, stop func()) { stop() },
			calls:  []string{"0 a: 1 2", "0 b: 3"},
		},
		"Run is ending": {
			within: time.Hour,
			before: func(t *testing.T, b *batcher, stop func()) {
				t.Helper()
				require.NoError(t, b.Flush(t.Context(), "b"))
				synctest.Wait()
				go stop()
				synctest.Wait()
			},
			calls: []string{"0 b: 3", "10 a: 1 2"},
		},
		"Run ends meanwhile": {
			within: time.Hour,
			before: func(t *testing.T, b *batcher, stop func()) {
				t.Helper()
				cfg := b.Config()
				cfg.MaxRecords = 1
				require.NoError(t, b.SetConfig(cfg))
				for i := range 4 {
					add(t, b, "c", fmt.Sprint(i))
				}
				time.AfterFunc(5*time.Second, stop)
			},
			calls: []string{"0 a: 1", "0 a: 2", "0 b: 3", "0 c: 0", "10 c: 1", "10 c: 2", "10 c: 3"},
		},
		"paused": {
			within: time.Hour,
			before: func(t *testing.T, b *batcher, _ func()) {
				t.Helper()
				require.NoError(t, b.Pause(t.Context(), "a"))
				go func() {
					_, err := b.Call(context.Background(), record{"a", "4"})
					assert.ErrorIs(t, err, batch.ErrClosed)
				}()
				synctest.Wait()
			},
			calls: []string{"0 b: 3"}, err: "batch: vendor: closed without an Engine: 3 records are lost",
		},
		"while one is added": {
			within: time.Hour,
			before: func(t *testing.T, b *batcher, _ func()) {
				t.Helper()
				cfg := b.Config()
				cfg.Key = func(record) string { return fmt.Sprint(b.Close(t.Context())) }
				require.NoError(t, b.SetConfig(cfg))
				_, err := b.Add(t.Context(), record{"a", "4"})
				require.ErrorIs(t, err, batch.ErrClosed)
			},
			calls: []string{"0 a: 1 2", "0 b: 3"},
		},
		"no time": {
			within: time.Second, calls: []string{"0 a: 1 2", "0 b: 3"},
			err: "batch: vendor: closed without an Engine: 3 records are lost\ncontext deadline exceeded",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				v := &vendor{answer: func(ctx context.Context, _ int, records []record) ([]result, error) {
					select {
					case <-time.After(10 * time.Second):
						return all(records), nil
					case <-ctx.Done():
						return nil, context.Cause(ctx)
					}
				}}
				b, err := batch.New(v.config(nil))
				require.NoError(t, err)
				stop := run(t, b)
				add(t, b, "a", "1", "2")
				add(t, b, "b", "3")
				synctest.Wait()
				if row.before != nil {
					row.before(t, b, stop)
				}
				ctx, cancel := context.WithTimeout(t.Context(), row.within)
				defer cancel()
				err = b.Close(ctx)
				if row.err == "" {
					require.NoError(t, err)
				} else {
					require.EqualError(t, err, row.err)
				}
				require.ElementsMatch(t, row.calls, v.seen())
				_, err = b.Add(t.Context(), record{})
				require.ErrorIs(t, err, batch.ErrClosed)
				require.ErrorIs(t, b.Run(t.Context()), batch.ErrClosed)
			})
		})
	}
}

// With an Engine, Close waits for calls in flight alone. The records stay for the next process.
func TestCloseWithEngine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		engine := jobs.Memory()
		slow := func(_ context.Context, _ int, records []record) ([]result, error) {
			time.Sleep(10 * time.Second)
			return all(records), nil
		}
		v := &vendor{answer: slow}
		b := v.start(t, func(c *config) { c.Engine, c.MaxRecords, c.Concurrency = engine, 1, 1 })
		add(t, b, "a", "1", "2", "3")
		require.NoError(t, b.Flush(t.Context()))
		synctest.Wait()
		begun := time.Now()
		require.NoError(t, b.Close(t.Context()))
		require.Equal(t, 10*time.Second, time.Since(begun))
		require.Len(t, v.seen(), 1)
		next := &vendor{}
		b = next.start(t, func(c *config) { c.Engine = engine })
		time.Sleep(time.Second)
		require.Equal(t, []string{"0 a: 2 3"}, next.seen())
		require.EqualValues(t, 2, b.Stats().Sent)
	})
}

func TestRunEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := &vendor{answer: func(ctx context.Context, _ int, records []record) ([]result, error) {
			time.Sleep(5 * time.Second)
			return all(records), ctx.Err() // it does not end with that of Run
		}}
		b, err := batch.New(v.config(nil))
		require.NoError(t, err)
		stop := run(t, b)
		add(t, b, "a", "1")
		require.NoError(t, b.Flush(t.Context()))
		synctest.Wait()
		require.EqualError(t, b.Run(t.Context()), "batch: Run is running already")
		begun := time.Now()
		stop()
		require.Equal(t, 5*time.Second, time.Since(begun))
		require.EqualValues(t, 1, b.Stats().Sent)
		add(t, b, "a", "2")
		run(t, b)
		time.Sleep(2 * time.Minute)
		require.EqualValues(t, 2, b.Stats().Sent)
	})
}

func TestSetConfig(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := &vendor{}
		b := v.start(t, nil)
		add(t, b, "a", "1", "2")
		add(t, b, "b", "3", "4", "5")
		cfg := b.Config()
		cfg.Name, cfg.FlushAfter, cfg.MaxRecords, cfg.FlushSize = "", 10*time.Second, 1, 3
		require.NoError(t, b.SetConfig(cfg))
		time.Sleep(11 * time.Second)
		require.ElementsMatch(t, []string{"0 b: 3", "0 b: 4", "0 b: 5", "10 a: 1", "10 a: 2"}, v.seen(), "what waits has the new FlushAfter and FlushSize")
		require.Equal(t, "vendor", b.Config().Name)
		for field, change := range map[string]func(*config){
			"Name":        func(c *config) { c.Name = "other" },
			"Engine":      func(c *config) { c.Engine = jobs.Memory() },
			"Concurrency": func(c *config) { c.Concurrency = 5 },
			"MaxBytes":    func(c *config) { c.MaxBytes = -1 },
		} {
			bad := cfg
			change(&bad)
			err := b.SetConfig(bad)
			require.ErrorIs(t, err, core.ErrConfig)
			require.ErrorContains(t, err, "batch.Config."+field)
		}
	})
}

// A lower MaxRecords or MaxBytes holds for a call that waits for another attempt too.
func TestSetConfigWhileWaiting(t *testing.T) {
	for name, lower := range map[string]func(*config){
		"MaxRecords": func(c *config) { c.MaxRecords = 2 },
		"MaxBytes":   func(c *config) { c.MaxBytes = 70 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				v := &vendor{answer: func(_ context.Context, n int, records []record) ([]result, error) {
					if n == 1 {
						return nil, errors.New("down")
					}
					return all(records), nil
				}}
				b := v.start(t, nil)
				add(t, b, "a", "1", "2", "3", "4", "5")
				time.Sleep(time.Minute + time.Second)
				cfg := b.Config()
				lower(&cfg)
				require.NoError(t, b.SetConfig(cfg))
				time.Sleep(time.Hour)
				require.ElementsMatch(t, []string{"60 a: 1 2 3 4 5", "75 a: 1 2", "75 a: 3", "75 a: 4 5"}, v.seen())
				require.Equal(t, batch.Stats{Added: 5, Calls: 4, Split: 2, Sent: 5}, b.Stats())
			})
		})
	}
}

// An engine that fails is asked again, and nothing is lost.
func TestEngineFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &failing{Store: groups.NewMemory()}
		q := groups.Open(jobs.Memory())
		v := &vendor{answer: func(_ context.Context, n int, records []record) ([]result, error) {
			if n == 1 {
				s.set(errors.New("down"))
			}
			return all(records), nil
		}}
		b := v.start(t, func(c *config) { c.Engine = groups.NewEngine(q, s) })
		add(t, b, "a", "1")
		require.NoError(t, b.Flush(t.Context()))
		time.Sleep(time.Minute)
		_, err := b.Add(t.Context(), record{})
		require.EqualError(t, err, "down")
		require.Zero(t, b.Stats().Sent)
		s.set(nil)
		time.Sleep(2 * time.Second)
		require.EqualValues(t, 1, b.Stats().Sent)
		require.Equal(t, 1, v.count())
		s.set(errors.New("down"))
		time.Sleep(time.Minute)
		s.set(nil)
		add(t, b, "a", "2")
		time.Sleep(time.Minute + 2*time.Second)
		require.EqualValues(t, 2, b.Stats().Sent)
	})
}

// A failing store fails while it has an error.
type failing struct {
	groups.Store

	mu  sync.Mutex
	err error
}

func (s *failing) set(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *failing) get() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (s *failing) Add(ctx context.Context, queue string, r groups.Record, rules groups.Rules) (string, bool, error) {
	if err := s.get(); err != nil {
		return "", false, err
	}
	return s.Store.Add(ctx, queue, r, rules)
}

func (s *failing) Take(ctx context.Context, queue string, t groups.Terms) (groups.Batch, groups.State, error) {
	if err := s.get(); err != nil {
		return groups.Batch{}, groups.State{}, err
	}
	return s.Store.Take(ctx, queue, t)
}

func (s *failing) Replace(ctx context.Context, queue string, b groups.Batch, parts []groups.Part, results []groups.Result, last error) error {
	if err := s.get(); err != nil {
		return err
	}
	return s.Store.Replace(ctx, queue, b, parts, results, last)
}

// The defaults in force.
func TestDefaults(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := &vendor{answer: func(context.Context, int, []record) ([]result, error) { return nil, errors.New("down") }}
		b := v.start(t, nil)
		add(t, b, "a", "1")
		time.Sleep(21 * 24 * time.Hour)
		calls := v.made()
		require.Len(t, calls, 25)
		require.EqualValues(t, 1, b.Stats().Failed)
		var waits []time.Duration
		for i, c := range calls[1:] {
			waits = append(waits, c.at-calls[i].at)
		}
		require.Equal(t, []time.Duration{15 * time.Second, 30 * time.Second}, waits[:2])
		require.Equal(t, 36*time.Hour, slices.Max(waits))
		require.InDelta(t, 17.8, calls[24].at.Hours()/24, 0.1)
		require.Equal(t, time.Minute, calls[0].at)
	})
}
