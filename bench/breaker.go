package bench

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/eapache/go-resiliency/breaker"
	failsafe "github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	aegis "github.com/go-kratos/aegis/circuitbreaker/sre"
	"github.com/sony/gobreaker/v2"

	"github.com/gresil/gresil/core"
	gresil "github.com/gresil/gresil/core/breaker"
)

var errFailed = errors.New("the call has failed")

// A condition is the state of the breakers in a row.
type condition uint8

const (
	closed  condition = iota
	failing           // every second call fails, and the breaker stays closed
	open
)

const (
	noWindow    = "no window: it counts errors in a row"
	never       = "counts without a window, since it was made"
	byChance    = "refuses some of the calls, by chance"
	windowCalls = 100
	windowTime  = 10 * time.Second
)

func breakerRows(Sizes) []Row {
	var rows []Row
	for _, c := range []struct {
		name string
		condition
	}{{"closed", closed}, {"failing, stays closed", failing}} {
		rows = append(rows, serialAndParallel(Row{Name: "breaker: count window, " + c.name, Subjects: breakers(c.condition, false)})...)
		rows = append(rows, serialAndParallel(Row{Name: "breaker: time window, " + c.name, Subjects: breakers(c.condition, true)})...)
	}
	rows = append(rows, serialAndParallel(Row{Name: "breaker: open", Subjects: breakers(open, false)})...)
	rows = append(rows, serialAndParallel(Row{Name: "breaker: time window, open", Subjects: breakers(open, true)})...)
	return append(rows,
		Row{Name: "breaker: count window, closed, around a function", Subjects: aroundFunctions()},
		Row{Name: "breaker: count window and slow calls, closed", Subjects: []Subject{
			ours("breaker.Acquire", func() Work { return acquire(gresil.Config{SlowCall: time.Minute}, closed) }), clocks(2),
		}},
	)
}

// breakers admit a call and record its outcome.
func breakers(c condition, byTime bool) []Subject {
	cfg := gresil.Config{Failures: -1, FailureRate: 0.9, Window: windowCalls}
	safe := circuitbreaker.NewBuilder[any]().WithDelay(time.Hour)
	safe = safe.WithFailureThresholdRatio(90, windowCalls)
	gob := gobreaker.Settings{Timeout: time.Hour, ReadyToTrip: rateReached}
	if byTime {
		cfg = gresil.Config{Failures: -1, FailureRate: 0.9, WindowTime: windowTime}
		safe = circuitbreaker.NewBuilder[any]().WithDelay(time.Hour).WithFailureRateThreshold(0.9, windowCalls, windowTime)
		gob.Interval, gob.BucketPeriod = windowTime, windowTime/10
	}
	two := peer("gobreaker, two steps", func() Work { return twoSteps(gob, c) })
	if !byTime && c != open {
		two.Note = never
	}
	all := []Subject{
		ours("breaker.Acquire", func() Work { return acquire(cfg, c) }),
		peer("failsafe-go permit", func() Work { return failsafePermits(safe.Build(), c) }),
		two,
		unlike("eapache", noWindow, func() Work { return eapache(c) }),
	}
	switch {
	case c == open:
		return append(all, unlike("aegis SRE", byChance, func() Work { return aegisOpen() }), floorOf("atomic load", func() Work {
			var state atomic.Uint32
			state.Store(2)
			return work(func(string) bool { return state.Load() == 2 })
		}))
	case byTime:
		return append(all, peer("aegis SRE", func() Work { return aegisClosed(c) }), clocks(1))
	}
	return append(all, floorOf("atomic add", func() Work {
		var calls atomic.Int64
		return work(func(string) bool { return calls.Add(1) > 0 })
	}))
}

func rateReached(c gobreaker.Counts) bool {
	return c.Requests >= windowCalls && float64(c.TotalFailures) >= 0.9*float64(c.Requests)
}

// clocks reads the clock n times and counts.
func clocks(n int) Subject {
	return floorOf("clock and atomic add", func() Work {
		base := time.Now()
		var calls atomic.Int64
		return work(func(string) bool {
			for range n {
				if time.Since(base) < 0 {
					return false
				}
			}
			return calls.Add(1) > 0
		})
	})
}

// fails reports, for each call in turn, whether it fails.
func (c condition) fails() func() bool {
	calls := new(own)
	return func() bool { calls.n++; return c == failing && calls.n&1 == 0 }
}

func acquire(cfg gresil.Config, c condition) Work {
	b := must(gresil.New(cfg))
	ctx := context.Background()
	if c == open {
		must(0, b.OpenFor(time.Hour))
		return work(func(string) bool {
			_, err := b.Acquire(ctx)
			return errors.Is(err, gresil.ErrOpen)
		})
	}
	return Work{New: func() Op {
		fails := c.fails()
		return func(string) bool {
			p, err := b.Acquire(ctx)
			if err != nil {
				return false
			}
			if fails() {
				p.Done(core.Failure)
			} else {
				p.Done(core.Success)
			}
			return true
		}
	}}
}

func failsafePermits(b circuitbreaker.CircuitBreaker[any], c condition) Work {
	if c == open {
		b.Open()
		return work(func(string) bool { return !b.TryAcquirePermit() })
	}
	return Work{New: func() Op {
		fails := c.fails()
		return func(string) bool {
			if !b.TryAcquirePermit() {
				return false
			}
			if fails() {
				b.RecordFailure()
			} else {
				b.RecordSuccess()
			}
			return true
		}
	}}
}

func twoSteps(s gobreaker.Settings, c condition) Work {
	b := gobreaker.NewTwoStepCircuitBreaker[any](s)
	if c == open {
		for b.State() != gobreaker.StateOpen {
			done, err := b.Allow()
			must(0, err)
			done(errFailed)
		}
		return work(func(string) bool {
			_, err := b.Allow()
			return errors.Is(err, gobreaker.ErrOpenState)
		})
	}
	return Work{New: func() Op {
		fails := c.fails()
		return func(string) bool {
			done, err := b.Allow()
			if err != nil {
				return false
			}
			if fails() {
				done(errFailed)
			} else {
				done(nil)
			}
			return true
		}
	}}
}

func eapache(c condition) Work {
	succeed, fail := func() error { return nil }, func() error { return errFailed }
	if c == open {
		b := breaker.New(1, 1, time.Hour)
		_ = b.Run(fail)
		return work(func(string) bool { return errors.Is(b.Run(succeed), breaker.ErrBreakerOpen) })
	}
	b := breaker.New(1<<60, 1, time.Hour)
	return Work{New: func() Op {
		fails := c.fails()
		return func(string) bool {
			if fails() {
				return errors.Is(b.Run(fail), errFailed)
			}
			return b.Run(succeed) == nil
		}
	}}
}

func aegisClosed(c condition) Work {
	b := aegis.NewBreaker(aegis.WithSuccess(0.1), aegis.WithWindow(windowTime))
	return Work{New: func() Op {
		fails := c.fails()
		return func(string) bool {
			if b.Allow() != nil {
				return false
			}
			if fails() {
				b.MarkFailed()
			} else {
				b.MarkSuccess()
			}
			return true
		}
	}}
}

// aegisOpen has seen failures alone, and refuses nearly all.
func aegisOpen() Work {
	b := aegis.NewBreaker(aegis.WithWindow(time.Hour))
	for range 1 << 16 {
		b.MarkFailed()
	}
	return Work{New: func() Op {
		calls, refused := new(own), new(own)
		return func(string) bool {
			calls.n++
			if b.Allow() != nil {
				refused.n++
			}
			return refused.n >= calls.n*9/10
		}
	}}
}

// answer is the function that is protected.
//
//go:noinline
func answer(n int) (int, error) { return n, nil }

func aroundFunctions() []Subject {
	ctx := context.Background()
	run := func(f func(n int) (int, error)) Work {
		return Work{New: func() Op {
			n := 0
			return func(string) bool {
				n++
				got, err := f(n)
				return err == nil && got == n
			}
		}}
	}
	return []Subject{
		ours("breaker.Do", func() Work {
			b := must(gresil.New(gresil.Config{}))
			return run(func(n int) (int, error) {
				return gresil.Do(ctx, b, func(context.Context) (int, error) { return answer(n) })
			})
		}),
		peer("failsafe-go executor", func() Work {
			e := failsafe.With(circuitbreaker.NewBuilder[int]().WithFailureThresholdRatio(50, windowCalls).Build())
			return run(func(n int) (int, error) { return e.Get(func() (int, error) { return answer(n) }) })
		}),
		unlike("gobreaker", never, func() Work {
			b := gobreaker.NewCircuitBreaker[int](gobreaker.Settings{ReadyToTrip: rateReached})
			return run(func(n int) (int, error) { return b.Execute(func() (int, error) { return answer(n) }) })
		}),
		unlike("eapache", noWindow, func() Work {
			b := breaker.New(50, 1, time.Hour)
			return run(func(n int) (got int, err error) {
				err = b.Run(func() error { got, err = answer(n); return err })
				return got, err
			})
		}),
		floorOf("the call", func() Work { return run(answer) }),
	}
}
