package bulkhead_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/bulkhead"
)

// A modelCall is a call, and its state in the model.
type modelCall struct {
	weight     int
	deadline   time.Time
	generation int
	admitted   bool
	rejected   bool
	cancel     context.CancelFunc

	permit bulkhead.Permit // of the bulkhead, with the rest
	err    error
	over   atomic.Bool
}

// A modelKey is one key: plain arithmetic, and a queue in a slice.
type modelKey struct {
	cfg                        *bulkhead.Config
	limit, inFlight, successes int
	generation                 int
	queue, running             []*modelCall
}

func (k *modelKey) fits(weight int) bool { return k.limit-k.inFlight >= min(weight, k.limit) }

func (k *modelKey) admit(c *modelCall) {
	k.inFlight += c.weight
	c.admitted, c.generation = true, k.generation
	k.running = append(k.running, c)
}

func (k *modelKey) serve() {
	for len(k.queue) > 0 {
		i := 0
		if k.cfg.NewestFirst {
			i = len(k.queue) - 1
		}
		c := k.queue[i]
		if !k.fits(c.weight) {
			return
		}
		k.queue = slices.Delete(k.queue, i, i+1)
		k.admit(c)
	}
}

func (k *modelKey) enter(c *modelCall) {
	switch {
	case c.weight > k.cfg.Limit:
		c.rejected = true
	case (len(k.queue) == 0 || k.cfg.NewestFirst) && k.fits(c.weight):
		k.admit(c)
	case k.cfg.MaxQueue < 0, len(k.queue) >= k.cfg.MaxQueue && !k.cfg.NewestFirst:
		c.rejected = true
	default:
		if len(k.queue) >= k.cfg.MaxQueue {
			k.queue[0].rejected = true
			k.queue = k.queue[1:]
		}
		k.queue = append(k.queue, c)
	}
}

func (k *modelKey) leave(c *modelCall) {
	if i := slices.Index(k.queue, c); i >= 0 {
		c.rejected = true
		k.queue = slices.Delete(k.queue, i, i+1)
		k.serve()
	}
}

func (k *modelKey) done(c *modelCall, outcome core.Outcome) {
	if k.cfg.Backoff > 0 && c.generation == k.generation {
		switch lower := max(k.cfg.MinLimit, 1, int(float64(k.limit)*k.cfg.Backoff)); {
		case outcome == core.Failure:
			k.successes = 0
			if lower < k.limit {
				k.limit, k.generation = lower, k.generation+1
			}
		case outcome == core.Success && k.limit < k.cfg.Limit && 2*k.inFlight >= k.limit:
			if k.successes += c.weight; k.successes >= k.limit {
				k.limit, k.successes = k.limit+1, 0
			}
		}
	}
	k.inFlight -= c.weight
	k.running = slices.DeleteFunc(k.running, func(o *modelCall) bool { return o == c })
	k.serve()
}

// expire ends the waits that are over, in the order of their times.
func (k *modelKey) expire() {
	for {
		var first *modelCall
		for _, c := range k.queue {
			if !c.deadline.After(time.Now()) && (first == nil || c.deadline.Before(first.deadline)) {
				first = c
			}
		}
		if first == nil {
			return
		}
		k.leave(first)
	}
}

func testModel(t *testing.T, seed uint64) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	config := func() *bulkhead.Config {
		limit := 1 + r.IntN(6)
		return &bulkhead.Config{
			Limit: limit, MinLimit: r.IntN(limit + 1), Backoff: []float64{0, 0.5, 0.9}[seed%3],
			MaxQueue: []int{-1, 1, 3, 10}[r.IntN(4)], MaxWait: 4 * time.Second, NewestFirst: seed%2 == 0,
		}
	}
	cfg := config()
	b := newBulkhead(t, *cfg)
	names := []string{"", "k"}
	keys := map[string]*modelKey{"": {cfg: cfg, limit: cfg.Limit}}
	var all []*modelCall
	pick := func(calls []*modelCall) *modelCall {
		if len(calls) == 0 {
			return nil
		}
		return calls[r.IntN(len(calls))]
	}
	for step := range 150 {
		name := names[r.IntN(2)]
		k := keys[name]
		if k == nil { // a key begins with the Config in use
			k = &modelKey{cfg: cfg, limit: cfg.Limit}
			keys[name] = k
			p, err := b.Acquire(t.Context(), name, 1)
			require.NoError(t, err)
			p.Done(core.Ignored)
		}
		switch r.IntN(12) {
		case 0, 1, 2, 3, 4:
			ctx, cancel := context.WithCancel(t.Context())
			c := &modelCall{weight: 1, deadline: time.Now().Add(cfg.MaxWait), cancel: cancel}
			if r.IntN(3) == 0 {
				c.weight = 1 + r.IntN(6)
			}
			all = append(all, c)
			k.enter(c)
			go func() {
				c.permit, c.err = b.Acquire(ctx, name, c.weight)
				c.over.Store(true)
			}()
		case 5, 6, 7, 8:
			if c := pick(k.running); c != nil {
				outcome := core.Outcome(r.IntN(4)) // one is unknown
				k.done(c, outcome)
				c.permit.Done(outcome)
			}
		case 9:
			if c := pick(k.queue); c != nil {
				k.leave(c)
				c.cancel()
			}
		case 10:
			time.Sleep(time.Duration(r.IntN(1500)) * time.Millisecond)
			for _, k := range keys {
				k.expire()
			}
		case 11:
			old := cfg.Limit
			cfg = config()
			for _, k := range keys {
				if k.cfg = cfg; cfg.Backoff == 0 || k.limit >= old {
					k.limit = cfg.Limit
				} else {
					k.limit = min(max(k.limit, cfg.MinLimit, 1), cfg.Limit)
				}
				k.serve()
			}
			require.NoError(t, b.SetConfig(*cfg))
		}
		synctest.Wait()
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		for i, c := range all {
			require.Equal(t, c.admitted, c.over.Load() && c.err == nil, "seed %d, step %d, call %d: admitted", seed, step, i)
			require.Equal(t, c.rejected, c.over.Load() && c.err != nil, "seed %d, step %d, call %d: rejected", seed, step, i)
		}
		for name, k := range keys {
			require.Equal(t, bulkhead.Stats{InFlight: k.inFlight, Limit: k.limit, Waiting: len(k.queue)}, b.KeyState(name), "seed %d, step %d", seed, step)
		}
	}
	for _, c := range all {
		c.cancel()
	}
	require.NoError(t, b.Close())
}

// Random operations on two keys: after each, every call and both keys are as in the model.
func TestModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) { testModel(t, seed) })
	}
}

func FuzzModel(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) { testModel(t, seed) })
	})
}
