package breaker_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/breaker"
)

// A step is what one goroutine does in a round, and what came of it.
type step struct {
	id      int // of the call
	acquire bool
	outcome core.Outcome
	permit  *breaker.Permit

	admitted bool
	wait     time.Duration
}

func (s *step) do(t *testing.T, b *breaker.Breaker) {
	t.Helper()
	if !s.acquire {
		s.permit.Done(s.outcome)
		return
	}
	p, err := b.Acquire(t.Context())
	s.permit, s.admitted = &p, err == nil
	if err != nil {
		s.wait, _ = core.RetryAfter(err)
	}
}

// A world is a model, and what its calls are called here.
type world struct {
	model
	calls map[int]int
}

func (w *world) clone() *world {
	c := *w
	c.log, c.running, c.ended = slices.Clone(w.log), slices.Clone(w.running), slices.Clone(w.ended)
	c.model.calls, c.began = slices.Clone(w.model.calls), maps.Clone(w.began)
	c.calls = maps.Clone(w.calls)
	return &c
}

// key tells worlds apart that may differ from now on.
func (w *world) key() string {
	letters := func(all []modelCall) (s []byte) {
		for _, c := range all {
			s = append(s, "SF"[min(1, count([]modelCall{c}, func(c modelCall) bool { return c.failed }))])
		}
		return s
	}
	s := fmt.Sprint(w.state, w.since, w.until, w.openFor, w.opened, w.late, w.generation, string(letters(w.window())), string(letters(w.ended)))
	for _, id := range slices.Sorted(maps.Keys(w.calls)) {
		call := w.calls[id]
		s += fmt.Sprint(" ", id, w.model.calls[call].generation, slices.Index(w.running, call))
	}
	return s
}

// worlds adds to found all that the steps can lead to, in any order, if it is what
// came of them.
func (w *world) worlds(steps []*step, over []bool, s breaker.Snapshot, now time.Duration, found map[string]*world) {
	left := false
	for i, step := range steps {
		if over[i] {
			continue
		}
		left = true
		next, then := w.clone(), slices.Clone(over)
		then[i] = true
		if step.acquire {
			next.advance(now)
			call, wait := next.acquire()
			if call >= 0 != step.admitted || call < 0 && wait != step.wait && next.state != breaker.HalfOpen { // there it is what it was when it was read
				continue
			}
			if call >= 0 {
				next.calls[step.id] = call
			}
		} else {
			next.done(now, next.calls[step.id], step.outcome, 0, 0)
			delete(next.calls, step.id)
		}
		next.worlds(steps, then, s, now, found)
	}
	if !left {
		if w.advance(now); w.is(s) {
			found[w.key()] = w
		}
	}
}

func (w *world) is(s breaker.Snapshot) bool {
	window := w.window()
	trials := [3]int{len(w.running), len(w.ended), failedIn(w.ended)}
	return w.state == s.State && len(window) == s.Calls && failedIn(window) == s.Failures && w.opened == s.Opened && w.openFor == s.OpenFor &&
		(w.state != breaker.HalfOpen || trials == [3]int{s.TrialsRunning, s.TrialsEnded, s.TrialsFailed})
}

// TestConcurrentCallsAreAsIfOneAfterTheOther has three calls begin or end at once,
// again and again, and looks for an order in which the model does the same.
func TestConcurrentCallsAreAsIfOneAfterTheOther(t *testing.T) {
	t.Parallel()
	checkLinear(t, 8)
}

func checkLinear(t *testing.T, sequences uint64) {
	t.Helper()
	const rounds = 60
	seed := rand.Uint64()
	for n := range sequences {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, n))
			cfg := breaker.Config{
				Window: 1 + r.IntN(8), Trials: 1 + r.IntN(3), TrialTimeout: 2 * second, JudgeWithHistory: r.IntN(3) == 0,
				OpenDelay: pick[backoff.Strategy](r, backoff.Linear{Delay: second, Jitter: -1}, backoff.Constant{}),
			}
			cfg.MinCalls = cfg.Window
			if !cfg.JudgeWithHistory && r.IntN(2) == 0 {
				cfg.TrialRule = breaker.AllMustSucceed
			}
			if !cfg.JudgeWithHistory && r.IntN(2) == 0 {
				cfg.Failures, cfg.MinCalls = 1+r.IntN(cfg.Window), 0
			}
			b := newBreaker(t, cfg)
			first := &world{model: model{cfg: cfg, num: 1, den: 2, trials: cfg.Trials, began: map[int]time.Duration{}}, calls: map[int]int{}}
			possible := map[string]*world{"": first}
			began := time.Now()
			running := map[int]*breaker.Permit{}
			for round := range rounds {
				var steps []*step
				ids := slices.Sorted(maps.Keys(running))
				r.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
				for i := range 3 {
					if len(ids) > 0 && r.IntN(2) == 0 {
						steps = append(steps, &step{id: ids[0], permit: running[ids[0]], outcome: pick(r, core.Success, core.Success, core.Failure, core.Ignored)})
						delete(running, ids[0])
						ids = ids[1:]
					} else {
						steps = append(steps, &step{id: round*3 + i, acquire: true})
					}
				}
				var all sync.WaitGroup
				for _, s := range steps {
					all.Go(func() { s.do(t, b) })
				}
				all.Wait()
				now := time.Since(began)
				snapshot := b.Snapshot()
				found := map[string]*world{}
				for _, w := range possible {
					w.worlds(steps, make([]bool, len(steps)), snapshot, now, found)
				}
				require.NotEmpty(t, found, "seed %d/%d, round %d: no order of %+v %+v %+v leads to %+v", seed, n, round, *steps[0], *steps[1], *steps[2], snapshot)
				possible = found
				for _, s := range steps {
					if s.acquire && s.admitted {
						running[s.id] = s.permit
					}
				}
				if r.IntN(3) == 0 {
					time.Sleep(pick(r, second/2, second, 2*second))
				}
			}
		})
	}
}
