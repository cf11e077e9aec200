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

// A model is a breaker that keeps every call, and computes all of it anew in fractions of integers.
type model struct {
	failures, num, den, minCalls, window, trials int
	tenth, slowCall                              time.Duration

	now, since, latest time.Duration
	state              breaker.State
	generation         int
	log, ended         []modelCall // since the window was emptied; trials
	admitted           int
}

type modelCall struct {
	failed, slow bool
	at           time.Duration
	generation   int
	began        time.Duration
	permit       breaker.Permit
}

const modelDelay, modelHalfOpen = 7 * time.Second, 11 * time.Second

func (m *model) enter(s breaker.State) {
	if m.state, m.since = s, m.now; s == breaker.Closed || s == breaker.MetricsOnly {
		m.log = nil
	}
	m.generation++
	m.ended, m.admitted = nil, 0
}

func (m *model) advance() {
	if m.state == breaker.HalfOpen && m.admitted > len(m.ended) && m.now-m.latest >= modelHalfOpen {
		m.enter(breaker.Open)
	}
	if m.state == breaker.Open && m.now-m.since >= modelDelay {
		m.enter(breaker.HalfOpen)
	}
}

func (m *model) in() (all []modelCall) {
	for _, c := range m.log {
		if m.tenth == 0 || c.at/m.tenth > m.now/m.tenth-10 {
			all = append(all, c)
		}
	}
	if m.tenth == 0 {
		all = all[max(0, len(all)-m.window):]
	}
	return all
}

// reached reports whether a rate is reached by calls, with more that fail.
func (m *model) reached(calls []modelCall, more, all int) bool {
	failed, slow := more, more
	for _, c := range calls {
		if c.failed {
			failed++
		}
		if c.slow {
			slow++
		}
	}
	return all > 0 && (failed*m.den >= m.num*all || m.slowCall > 0 && slow == all)
}

func (m *model) end(c modelCall, o core.Outcome) {
	m.advance()
	if c.generation != m.generation || m.state == breaker.Disabled {
		return
	}
	if o == core.Ignored {
		m.admitted--
		return
	}
	c.failed, c.slow, c.at = o == core.Failure, m.slowCall > 0 && m.now-c.began > m.slowCall, m.now
	if m.state == breaker.HalfOpen {
		m.ended = append(m.ended, c)
		if more := m.trials - len(m.ended); m.reached(m.ended, 0, m.trials) {
			m.enter(breaker.Open)
		} else if !m.reached(m.ended, more, m.trials) {
			m.enter(breaker.Closed)
		}
		return
	}
	m.log = append(m.log, c)
	row := 0
	for i := len(m.log) - 1; i >= 0 && m.log[i].failed; i-- {
		row++
	}
	if w := m.in(); m.state == breaker.Closed && (row >= m.failures || len(w) >= m.minCalls && m.reached(w, 0, len(w))) {
		m.enter(breaker.Open)
	}
}

func TestModel(t *testing.T) {
	t.Parallel()
	for round := range 60 {
		seed := rand.Uint64()
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, uint64(round))) //nolint:gosec // a test
			m := &model{failures: 2 + r.IntN(6), num: 1 + r.IntN(9), den: 10, window: 1 + r.IntN(90), trials: 1 + r.IntN(7)}
			m.minCalls = 1 + r.IntN(m.window)
			cfg := breaker.Config{
				Failures: m.failures, FailureRate: float64(m.num) / float64(m.den), Window: m.window, MinCalls: m.minCalls, Trials: m.trials,
				OpenDelay: backoff.Constant{Delay: modelDelay}, MaxHalfOpen: modelHalfOpen,
			}
			if r.IntN(2) == 0 {
				cfg.Window, cfg.WindowTime, m.tenth = 0, 20*time.Second, 2*time.Second
			}
			if r.IntN(2) == 0 {
				cfg.SlowCall, m.slowCall = 3*time.Second, 3*time.Second
			}
			fails := r.IntN(10)
			b, start := newBreaker(t, cfg), time.Now()
			var running []modelCall
			for step := range 400 {
				m.now = time.Since(start)
				where := fmt.Sprintf("seed %d, round %d, step %d: %+v", seed, round, step, cfg)
				switch r.IntN(20) {
				case 0:
					s := breaker.State(r.IntN(6))
					m.advance()
					if s != m.state || s == breaker.Closed {
						m.enter(s)
					}
					require.NoError(t, b.SetState(s))
				case 1, 2, 3:
					time.Sleep(rand.N(4 * time.Second))
				case 4, 5, 6, 7, 8, 9, 10:
					p, err := b.Acquire(t.Context())
					m.advance()
					want := m.state == breaker.Closed || m.state > breaker.ForcedOpen || m.state == breaker.HalfOpen && m.admitted < m.trials
					require.Equal(t, want, err == nil, where)
					if m.state == breaker.HalfOpen && want {
						m.admitted++
						m.latest = m.now
					}
					if err == nil && m.state != breaker.Disabled {
						running = append(running, modelCall{permit: p, generation: m.generation, began: m.now})
					}
				default:
					if len(running) > 0 {
						i, o := r.IntN(len(running)), core.Success
						if n := r.IntN(10); n < fails {
							o = core.Failure
						} else if n == 9 {
							o = core.Ignored
						}
						c := running[i]
						running = slices.Delete(running, i, i+1)
						c.permit.Done(o)
						m.end(c, o)
					}
				}
				if r.IntN(3) == 0 {
					m.now = time.Since(start)
					m.advance()
					require.Equal(t, m.state, b.State(), where)
				}
				if m.state == breaker.Closed && r.IntN(3) == 0 {
					m.now = time.Since(start)
					require.Equal(t, len(m.in()), b.Stats().Calls, where)
				}
			}
		})
	}
}
