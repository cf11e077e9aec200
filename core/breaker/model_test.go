package breaker_test

import (
	"cmp"
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
	slow     [2]int
	trials   int

	now          time.Duration
	state        breaker.State
	generation   int
	opening      int // the generation of the last opening
	since, until time.Duration
	openFor      time.Duration
	opened       int
	log          []modelCall // ended, since the window was last emptied
	running      []int       // trials, the oldest first
	began        map[int]time.Duration
	ended        []modelCall // trials
	calls        []modelCall
	late         int
	told         [2]bool // MetricsOnly: of which rates
	exceeded     int
}

type modelCall struct {
	at         time.Duration
	failed     bool
	slow       bool
	began      time.Duration
	timed      bool
	generation int
	state      breaker.State // it was admitted in
}

// reached tells which rates are.
func (m *model) reached(failed, slow, all int) [2]bool {
	return [2]bool{
		all > 0 && failed*m.den >= m.num*all,
		all > 0 && m.cfg.SlowCall > 0 && slow*m.slow[1] >= m.slow[0]*all,
	}
}

// bad reports whether half-open ends open after these calls.
func (m *model) bad(all []modelCall) bool {
	if m.cfg.TrialRule == breaker.AllMustSucceed {
		return failedIn(all) > 0 || m.cfg.SlowCall > 0 && slowIn(all) > 0
	}
	return m.reached(failedIn(all), slowIn(all), len(all)) != [2]bool{}
}

// exceeds tells which thresholds the window reaches.
func (m *model) exceeds(window []modelCall) (reached [2]bool) {
	if len(window) >= m.cfg.MinCalls {
		reached = m.reached(failedIn(window), slowIn(window), len(window))
	}
	if m.cfg.Failures > 0 {
		reached[0] = failedIn(window) >= m.cfg.Failures
	}
	return reached
}

func count(all []modelCall, f func(modelCall) bool) (n int) {
	for _, c := range all {
		if f(c) {
			n++
		}
	}
	return n
}

func failedIn(all []modelCall) int { return count(all, func(c modelCall) bool { return c.failed }) }
func slowIn(all []modelCall) int   { return count(all, func(c modelCall) bool { return c.slow }) }

func (m *model) window() (all []modelCall) {
	for _, c := range m.log {
		if tenth := m.cfg.WindowTime / 10; tenth == 0 || c.at/tenth > m.now/tenth-10 {
			all = append(all, c)
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
	if s == breaker.Open || s == breaker.ForcedOpen {
		m.opening = m.generation
	}
	switch s {
	case breaker.Open:
		m.until = m.now + m.openFor
	case breaker.HalfOpen:
		if m.opened == 0 {
			m.opened = 1
		}
	case breaker.Closed, breaker.ForcedOpen, breaker.Disabled, breaker.MetricsOnly:
		m.opened, m.openFor = 0, 0
		m.told = [2]bool{}
		if (s == breaker.Closed || s == breaker.MetricsOnly) && !m.cfg.JudgeWithHistory {
			m.log = nil
		}
	}
}

func (m *model) open(least time.Duration) {
	m.opened++
	m.openFor = max(least, m.cfg.OpenDelay.Next(m.opened, m.openFor))
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
				if len(m.running) == 0 {
					return -1, cmp.Or(m.openFor, breaker.DefaultOpenTime)
				}
				return -1, min(cmp.Or(m.openFor, breaker.DefaultOpenTime), m.began[m.running[0]]+m.cfg.TrialTimeout-m.now)
			}
			m.running = m.running[1:]
		}
		m.running = append(m.running, call)
		m.began[call] = m.now
	case breaker.Closed, breaker.Disabled, breaker.MetricsOnly:
	}
	m.calls = append(m.calls, modelCall{
		generation: m.generation, state: m.state, began: m.now, timed: m.cfg.SlowCall > 0 || m.state == breaker.HalfOpen,
	})
	return call, 0
}

func (m *model) ban(trip time.Duration) {
	m.opened++
	m.openFor = trip
	m.enter(breaker.Open)
}

// tooLate is the end of a call that does not count. It may trip, if nothing opened since it began.
func (m *model) tooLate(call int, trip time.Duration) {
	m.late++
	switch {
	case trip == 0 || m.calls[call].generation < m.opening:
	case m.state == breaker.Closed && m.exceeds(m.window()) != [2]bool{}, m.state == breaker.HalfOpen:
		m.open(trip)
	case m.state == breaker.Closed:
		m.ban(trip)
	}
}

func (m *model) done(now time.Duration, call int, o core.Outcome, least, trip time.Duration) {
	admitted := m.calls[call].state
	if admitted == breaker.Disabled {
		return // not even the time is looked at
	}
	m.advance(now)
	if m.calls[call].generation != m.generation {
		m.tooLate(call, trip)
		return
	}
	if m.state == breaker.HalfOpen {
		i := slices.Index(m.running, call)
		if i >= 0 {
			m.running = slices.Delete(m.running, i, i+1)
		}
		if i < 0 || m.now >= m.began[call]+m.cfg.TrialTimeout {
			m.tooLate(call, trip)
			return
		}
	}
	if o == core.Ignored {
		return
	}
	slow := m.calls[call].timed && m.cfg.SlowCall > 0 && m.now-m.calls[call].began > m.cfg.SlowCall
	ended := modelCall{at: m.now, failed: o == core.Failure, slow: slow}
	if m.state == breaker.HalfOpen {
		m.ended = append(m.ended, ended)
	}
	if m.state != breaker.HalfOpen || m.cfg.JudgeWithHistory {
		m.log = append(m.log, ended)
	}
	window := m.window()
	switch {
	case m.state == breaker.MetricsOnly:
		for i, reached := range m.exceeds(window) {
			if reached && !m.told[i] {
				m.told[i] = true
				m.exceeded++
			}
		}
	case m.state == breaker.Closed && m.exceeds(window) != [2]bool{}:
		m.open(max(least, trip))
	case m.state == breaker.HalfOpen && trip > 0:
		m.open(trip)
	case trip > 0:
		m.ban(trip)
	case m.state == breaker.HalfOpen:
		mayOpen, mayClose := false, false
		left := m.trials - len(m.ended)
		if left > 0 && m.cfg.JudgeWithHistory && m.cfg.WindowTime > 0 {
			return
		}
		for i := range (left + 1) * (left + 1) {
			if m.bad(m.judged(left, i/(left+1), i%(left+1))) {
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

// judged is what half-open is judged by when so many more trials have ended.
func (m *model) judged(more, failed, slow int) []modelCall {
	ended, window := slices.Clone(m.ended), m.window()
	for i := range more {
		last := modelCall{at: m.now, failed: i < failed, slow: i < slow}
		ended, window = append(ended, last), append(window, last)
	}
	if m.cfg.WindowTime == 0 {
		window = window[max(0, len(window)-m.cfg.Window):]
	}
	if m.cfg.JudgeWithHistory && len(window) >= m.cfg.MinCalls {
		return window
	}
	return ended
}

// setConfig changes everything but the kind of window.
func (m *model) setConfig(r *rand.Rand) breaker.Config {
	window := m.window()
	if m.cfg.WindowTime == 0 {
		m.log = window
		m.cfg.Window = 1 + r.IntN(100)%(1+r.IntN(100))
		m.cfg.MinCalls = 1 + r.IntN(m.cfg.Window)
		m.log = m.window() // which is lost when it grows
	} else {
		m.cfg.MinCalls = 1 + r.IntN(20)
	}
	m.pickRates(r)
	if m.cfg.SlowCall == 0 {
		for _, all := range [][]modelCall{m.log, m.ended} {
			for i := range all {
				all[i].slow = false
			}
		}
	}
	m.cfg.MaxHalfOpen = pick(r, 0, 0, 5*second)
	m.cfg.TrialTimeout = time.Duration(1+r.IntN(10)) * second
	m.cfg.JudgeWithHistory = r.IntN(3) == 0
	m.pickRules(r)
	if r.IntN(2) == 0 {
		m.cfg.Trials = 1 + r.IntN(5)
	}
	if m.trials != m.cfg.Trials {
		m.trials = m.cfg.Trials
		if m.state == breaker.HalfOpen {
			m.generation++
			m.running, m.ended, m.began = nil, nil, map[int]time.Duration{}
		}
	}
	return m.cfg
}

func (m *model) pickRates(r *rand.Rand) {
	rates := [][2]int{{1, 2}, {3, 10}, {7, 100}, {29, 100}, {1, 1}, {1, 3}}
	failure, slow := pick(r, rates...), pick(r, rates...)
	m.num, m.den, m.slow = failure[0], failure[1], slow
	m.cfg.FailureRate = float64(failure[0]) / float64(failure[1])
	m.cfg.SlowCall, m.cfg.SlowRate = pick(r, 0, second/2, second, 5*second), 0
	if m.cfg.SlowCall > 0 {
		m.cfg.SlowRate = float64(slow[0]) / float64(slow[1])
	}
}

// pickRules replaces some of the settings by the alternatives to rates.
func (m *model) pickRules(r *rand.Rand) {
	m.cfg.Failures, m.cfg.TrialRule = 0, breaker.ByRate
	if r.IntN(3) == 0 {
		m.cfg.Failures, m.cfg.FailureRate = 1+r.IntN(cmp.Or(m.cfg.Window, 20)), 0
		m.num, m.den = 1, 2 // of the trials
		m.cfg.JudgeWithHistory = false
		if m.cfg.SlowCall == 0 {
			m.cfg.MinCalls = 0
		}
	}
	if !m.cfg.JudgeWithHistory && r.IntN(3) == 0 {
		m.cfg.TrialRule = breaker.AllMustSucceed
	}
}

func TestModel(t *testing.T) {
	t.Parallel()
	checkModel(t, 60)
}

func checkModel(t *testing.T, sequences uint64) {
	t.Helper()
	const steps = 400
	seed := rand.Uint64()
	for n := range sequences {
		synctest.Test(t, func(t *testing.T) {
			compare(t, rand.New(rand.NewPCG(seed, n)), steps, fmt.Sprintf("seed %d/%d", seed, n))
		})
	}
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

func compare(t *testing.T, r *rand.Rand, steps int, title string) {
	t.Helper()
	m := &model{trials: 1 + r.IntN(5), began: map[int]time.Duration{}}
	m.cfg = breaker.Config{
		Window:           1 + r.IntN(100)%(1+r.IntN(100)),
		Trials:           m.trials,
		TrialTimeout:     time.Duration(1+r.IntN(10)) * second,
		MaxHalfOpen:      pick(r, 0, 0, 5*second),
		OpenDelay:        pick[backoff.Strategy](r, backoff.Linear{Delay: second, Jitter: -1}, backoff.Exponential{Delay: second, Max: 9 * second, Jitter: -1}, backoff.Constant{}, backoff.Constant{Delay: 3 * second}),
		JudgeWithHistory: r.IntN(3) == 0,
	}
	m.pickRates(r)
	m.cfg.MinCalls = 1 + r.IntN(m.cfg.Window)
	if r.IntN(3) == 0 {
		m.cfg.Window, m.cfg.WindowTime = 0, time.Duration(1+r.IntN(20))*second
	}
	m.pickRules(r)
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
			outcome, least, trip := core.Success, time.Duration(0), time.Duration(0)
			switch {
			case r.IntN(20) == 0:
				outcome = core.Ignored
			case r.IntN(100) >= health:
				outcome, least = core.Failure, pick(r, 0, 0, 4*second)
				if trip = pick(r, 0, 0, 0, 0, 0, 0, 2*second); trip > 0 {
					least = 0
				}
			}
			m.done(now, calls[i], outcome, least, trip)
			switch p := &permits[i]; {
			case trip > 0:
				p.Trip(trip)
			case outcome == core.Failure:
				p.Failed(least)
			default:
				p.Done(outcome)
			}
			permits[i].Done(core.Failure) // a second one does nothing
			permits, calls = slices.Delete(permits, i, i+1), slices.Delete(calls, i, i+1)
		case k < 87:
			m.advance(now)
			require.NoError(t, b.SetConfig(m.setConfig(r)), title)
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
			require.EqualValues(t, m.exceeded, b.Stats().Exceeded, title)
		}
	}
}

func (m *model) same(t *testing.T, s breaker.Snapshot, title string) {
	t.Helper()
	window := m.window()
	require.Equal(t, m.state, s.State, title)
	require.Equal(t, []int{len(window), failedIn(window), slowIn(window)}, []int{s.Calls, s.Failures, s.Slow}, title)
	require.Equal(t, count(window, func(c modelCall) bool { return c.failed && c.slow }), s.SlowFailures, title)
	require.Equal(t, m.opened, s.Opened, title)
	require.Equal(t, m.openFor, s.OpenFor, title)
	judged := window
	switch {
	case m.state == breaker.HalfOpen && (!m.cfg.JudgeWithHistory || len(window) < m.cfg.MinCalls):
		judged = m.ended
	case len(window) < m.cfg.MinCalls:
		judged = nil
	}
	require.Equal(t, len(judged) > 0, s.RatesKnown, title)
	require.InDelta(t, float64(failedIn(judged))/max(1, float64(len(judged))), s.FailureRate, 0, title)
	require.InDelta(t, float64(slowIn(judged))/max(1, float64(len(judged))), s.SlowRate, 0, title)
	if m.state == breaker.HalfOpen {
		require.Equal(t, []int{len(m.running), len(m.ended), failedIn(m.ended)}, []int{s.TrialsRunning, s.TrialsEnded, s.TrialsFailed}, title)
	}
}
