package breaker_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/breaker"
)

// A model is a breaker that keeps everything and computes all of it anew. It
// compares fractions of integers, and finds out whether trials are decided by
// trying how they might go on.
type model struct {
	cfg      breaker.Config
	num, den int // the threshold
	trials   int

	now          time.Duration
	state        breaker.State
	generation   int
	since, until time.Duration
	openFor      time.Duration
	opened       int
	log          []modelCall // ended, since the window was last emptied
	running      []int       // trials, the oldest first
	began        map[int]time.Duration
	ended        []bool // trials: failed?
	calls        []modelCall
	late         int
}

type modelCall struct {
	at         time.Duration
	failed     bool
	generation int
	state      breaker.State // it was admitted in
}

func (m *model) reached(failed, all int) bool { return all > 0 && failed*m.den >= m.num*all }

func failedIn(all []bool) (n int) {
	for _, failed := range all {
		if failed {
			n++
		}
	}
	return n
}

func (m *model) window() (all []bool) {
	for _, c := range m.log {
		if tenth := m.cfg.WindowTime / 10; tenth == 0 || c.at/tenth > m.now/tenth-10 {
			all = append(all, c.failed)
		}
	}
	if m.cfg.WindowTime == 0 {
		all = all[max(0, len(all)-m.cfg.Window):]
	}
	return all
}

func (m *model) enter(s breaker.State) {
	m.generation++
	m.state, m.since = s, m.now
	m.running, m.ended, m.began = nil, nil, map[int]time.Duration{}
	switch s {
	case breaker.Open:
		m.until = m.now + m.openFor
	case breaker.HalfOpen:
		if m.opened == 0 {
			m.opened = 1
		}
	case breaker.Closed, breaker.ForcedOpen, breaker.Disabled, breaker.MetricsOnly:
		m.opened, m.openFor = 0, 0
		if (s == breaker.Closed || s == breaker.MetricsOnly) && !m.cfg.JudgeWithHistory {
			m.log = nil
		}
	}
}

func (m *model) open(least time.Duration) {
	m.opened++
	m.openFor = max(least, m.cfg.OpenDelay.Delay(m.opened, m.openFor))
	m.enter(breaker.Open)
}

func (m *model) advance(now time.Duration) {
	m.now = now
	if m.state == breaker.HalfOpen && m.cfg.MaxHalfOpen > 0 && now >= m.since+m.cfg.MaxHalfOpen {
		m.open(0)
	}
	if m.state == breaker.Open && now >= m.until {
		m.enter(breaker.HalfOpen)
	}
}

// acquire returns the number of the call, or how long to wait.
func (m *model) acquire() (call int, wait time.Duration) {
	call = len(m.calls)
	switch m.state {
	case breaker.Open:
		return -1, m.until - m.now
	case breaker.ForcedOpen:
		return -1, -1
	case breaker.HalfOpen:
		if len(m.running)+len(m.ended) == m.trials {
			if len(m.running) == 0 || m.now < m.began[m.running[0]]+m.cfg.TrialTimeout {
				return -1, m.openFor
			}
			m.running = m.running[1:]
		}
		m.running = append(m.running, call)
		m.began[call] = m.now
	case breaker.Closed, breaker.Disabled, breaker.MetricsOnly:
	}
	m.calls = append(m.calls, modelCall{generation: m.generation, state: m.state})
	return call, 0
}

func (m *model) done(now time.Duration, call int, o core.Outcome, least time.Duration) {
	admitted := m.calls[call].state
	if admitted == breaker.Disabled || o == core.Ignored && admitted != breaker.HalfOpen {
		return // not even the time is looked at
	}
	m.advance(now)
	if m.calls[call].generation != m.generation {
		m.late++
		return
	}
	if m.state == breaker.HalfOpen {
		i := slices.Index(m.running, call)
		if i < 0 {
			m.late++
			return
		}
		m.running = slices.Delete(m.running, i, i+1)
	}
	if o == core.Ignored {
		return
	}
	failed := o == core.Failure
	if m.state == breaker.HalfOpen {
		m.ended = append(m.ended, failed)
	}
	if m.state != breaker.HalfOpen || m.cfg.JudgeWithHistory {
		m.log = append(m.log, modelCall{at: m.now, failed: failed})
	}
	window := m.window()
	enough := len(window) >= m.cfg.MinCalls
	switch {
	case m.state == breaker.Closed:
		if enough && m.reached(failedIn(window), len(window)) {
			m.open(least)
		}
	case m.state == breaker.HalfOpen && m.cfg.JudgeWithHistory:
		if len(m.ended) < m.trials {
			return
		}
		judged := window
		if !enough {
			judged = m.ended
		}
		if m.reached(failedIn(judged), len(judged)) {
			m.open(least)
		} else {
			m.enter(breaker.Closed)
		}
	case m.state == breaker.HalfOpen:
		mayOpen, mayClose := false, false
		for more := range m.trials - len(m.ended) + 1 {
			if m.reached(failedIn(m.ended)+more, m.trials) {
				mayOpen = true
			} else {
				mayClose = true
			}
		}
		switch {
		case !mayClose:
			m.open(least)
		case !mayOpen:
			m.enter(breaker.Closed)
		}
	}
}

func TestModel(t *testing.T) {
	t.Parallel()
	const sequences, steps = 300, 400
	seed := rand.Uint64()
	for n := range uint64(sequences) {
		synctest.Test(t, func(t *testing.T) {
			compare(t, rand.New(rand.NewPCG(seed, n)), steps, fmt.Sprintf("seed %d/%d", seed, n))
		})
	}
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

func compare(t *testing.T, r *rand.Rand, steps int, title string) {
	t.Helper()
	rate := pick(r, [2]int{1, 2}, [2]int{3, 10}, [2]int{7, 100}, [2]int{29, 100}, [2]int{1, 1}, [2]int{1, 3})
	m := &model{num: rate[0], den: rate[1], trials: 1 + r.IntN(5), began: map[int]time.Duration{}}
	m.cfg = breaker.Config{
		FailureRate:      float64(rate[0]) / float64(rate[1]),
		Window:           1 + r.IntN(100)%(1+r.IntN(100)),
		Trials:           m.trials,
		TrialTimeout:     time.Duration(1+r.IntN(10)) * second,
		MaxHalfOpen:      pick(r, 0, 0, 5*second),
		OpenDelay:        pick[backoff.Strategy](r, backoff.Linear{Initial: second}, backoff.Exponential{Initial: second, Max: 9 * second}, backoff.None{}, backoff.Constant{Wait: 3 * second}),
		JudgeWithHistory: r.IntN(3) == 0,
	}
	m.cfg.MinCalls = 1 + r.IntN(m.cfg.Window)
	if r.IntN(3) == 0 {
		m.cfg.Window, m.cfg.WindowTime = 0, time.Duration(1+r.IntN(20))*second
	}
	b := newBreaker(t, m.cfg)
	began := time.Now()
	m.advance(0)
	var permits []breaker.Permit
	var calls []int // running
	health := r.IntN(101)
	for step := range steps {
		title := fmt.Sprintf("%s, step %d, %+v", title, step, m.cfg)
		now := time.Since(began)
		switch k := r.IntN(100); {
		case k < 45: // a call begins
			m.advance(now)
			call, wait := m.acquire()
			p, err := b.Acquire(t.Context())
			if call < 0 {
				require.Error(t, err, title)
				got, ok := core.RetryAfter(err)
				require.Equal(t, wait >= 0, ok, title)
				require.Equal(t, max(0, wait), got, title)
				break
			}
			require.NoError(t, err, title)
			permits = append(permits, p)
			calls = append(calls, call)
		case k < 85: // one ends
			if len(calls) == 0 {
				break
			}
			i := r.IntN(len(calls))
			outcome, least := core.Success, time.Duration(0)
			switch {
			case r.IntN(20) == 0:
				outcome = core.Ignored
			case r.IntN(100) >= health:
				outcome, least = core.Failure, pick(r, 0, 0, 4*second)
			}
			m.done(now, calls[i], outcome, least)
			if p := &permits[i]; outcome == core.Failure {
				p.Failed(least)
			} else {
				p.Done(outcome)
			}
			permits[i].Done(core.Failure) // a second one does nothing
			permits, calls = slices.Delete(permits, i, i+1), slices.Delete(calls, i, i+1)
		case k < 97:
			time.Sleep(pick(r, 1, 500*time.Millisecond, second-1, second, 3*second))
		case k < 98:
			to := breaker.State(r.IntN(6))
			m.advance(now)
			if to != m.state {
				if to == breaker.Open {
					m.open(0)
				} else {
					m.enter(to)
				}
			}
			require.NoError(t, b.SetState(to), title)
		case k < 99:
			health = r.IntN(101)
			if r.IntN(2) == 0 {
				m.advance(now)
				m.enter(breaker.Closed)
				m.log = nil
				b.Reset()
			}
		default:
			m.advance(now)
			if m.state != breaker.Open {
				m.opened++
			}
			m.openFor = 2 * second
			m.enter(breaker.Open)
			require.NoError(t, b.OpenFor(2*second), title)
		}
		if r.IntN(4) == 0 { // looking on every step would leave nothing for the others to advance
			m.advance(time.Since(began))
			m.same(t, b.Snapshot(), title)
			require.EqualValues(t, m.late, b.Stats().Late, title)
		}
	}
}

func (m *model) same(t *testing.T, s breaker.Snapshot, title string) {
	t.Helper()
	window := m.window()
	require.Equal(t, m.state, s.State, title)
	require.Equal(t, []int{len(window), failedIn(window)}, []int{s.Calls, s.Failures}, title)
	require.Equal(t, m.opened, s.Opened, title)
	require.Equal(t, m.openFor, s.OpenFor, title)
	judged := window
	switch {
	case m.state == breaker.HalfOpen && !m.cfg.JudgeWithHistory:
		judged = m.ended
	case len(window) < m.cfg.MinCalls:
		judged = nil
	}
	require.InDelta(t, float64(failedIn(judged))/max(1, float64(len(judged))), s.FailureRate, 0, title)
	if m.state == breaker.HalfOpen {
		require.Equal(t, []int{len(m.running), len(m.ended), failedIn(m.ended)}, []int{s.TrialsRunning, s.TrialsEnded, s.TrialsFailed}, title)
	}
}
