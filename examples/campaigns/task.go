package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gresil/gresil/examples/internal/demo"
	"github.com/gresil/gresil/outbound/jobs"
)

// A task has all calls, and gives their numbers to the workers. Campaigns take turns. With the engine asynq, workers take
// them from Redis instead.
type task struct {
	order
	crew *demo.Crew

	next     int                           // the first number that no worker had
	returned []int                         // numbers of workers that have ended
	hands    map[*demo.Member]map[int]bool // the numbers that a worker has, and whether it has sent the call
	inFlight []int                         // numbers that were sent when their worker ended
	done     map[int]struct{}
	ends     []end
	feed     func()               // called once, when all workers are ready
	passed   map[*demo.Member]int // by the gate
	started  int
	served   int
	failed   int
	runs     int // of handlers
	retried  int // of these, not the first attempt
}

// An end is the time at which a call was served, since the start.
type end struct {
	at       time.Duration
	campaign int
}

const mostAhead = 5000 // numbers that a worker has: they fit in a pipe

func newTask(c config, screen *demo.Screen) *task {
	t := &task{
		hands: map[*demo.Member]map[int]bool{}, done: map[int]struct{}{}, feed: func() {}, passed: map[*demo.Member]int{},
		order: order{c, demo.NewRun(), min(mostAhead, max(100, 2*c.CPS/c.Workers))},
	}
	t.crew = &demo.Crew{Task: t, Word: "worker", Size: c.Workers, Kill: c.Kill, Screen: screen}
	return t
}

// Order returns what all workers are told.
func (t *task) Order(*demo.Member) any { return t.order }

// Feed returns the first numbers of a worker.
func (t *task) Feed(m *demo.Member) string {
	t.feed()
	t.feed = func() {}
	t.hands[m] = map[int]bool{}
	return t.deal(m)
}

// deal returns the numbers for which a worker has room, a line for each.
func (t *task) deal(m *demo.Member) string {
	var lines strings.Builder
	for hand := t.hands[m]; len(hand) < t.Ahead && t.Engine != "asynq"; {
		var n int
		switch {
		case len(t.returned) > 0:
			n, t.returned = t.returned[0], t.returned[1:]
		case t.next < t.total():
			n = t.next
			t.next++
		default:
			return lines.String()
		}
		hand[n] = false
		fmt.Fprintln(&lines, n)
	}
	return lines.String()
}

// Hear is a step of a call, or a count of a worker.
func (t *task) Hear(m *demo.Member, word string, n int, rest string) {
	hand := t.hands[m]
	switch word {
	case "passed":
		t.passed[m] = n
	case "run":
		t.runs++
		if rest != "1" {
			t.retried++
		}
		hand[n] = false
	case "started":
		hand[n] = true
		t.started++
	case "done", "failed":
		delete(hand, n)
		t.ended(n, word == "done", rest)
		t.crew.Send(m, t.deal(m))
	}
}

// ended notes the end of a call. Only the first one counts: a worker can be killed before the engine has noted the end.
func (t *task) ended(n int, served bool, why string) {
	_, twice := t.done[n]
	t.done[n] = struct{}{}
	switch {
	case !served:
		t.crew.Wrong(why)
		if !twice {
			t.failed++
		}
	case !twice:
		t.served++
		t.ends = append(t.ends, end{time.Since(t.crew.Start), n % t.Campaigns})
		fallthrough
	default:
		t.crew.Right()
	}
}

// Fold takes back the calls of a worker that has ended.
func (t *task) Fold(m *demo.Member) bool {
	for _, n := range slices.Sorted(maps.Keys(t.hands[m])) {
		if t.hands[m][n] {
			t.inFlight = append(t.inFlight, n)
		}
		if t.Engine != "asynq" { // which runs the job again
			t.returned = append(t.returned, n)
		}
	}
	delete(t.hands, m)
	return true
}

// Progress counts the calls.
func (t *task) Progress() (done, total int, text string) {
	done, total = t.served+t.failed, t.total()
	return done, total, fmt.Sprintf("%d of %d served, %d failed", t.served, total, t.failed)
}

// keys returns the names of the calls that were in flight.
func (t *task) keys() []string {
	keys := []string{} // in JSON, not null
	for _, n := range t.inFlight {
		keys = append(keys, t.key(n))
	}
	return keys
}

// times returns how long the calls took, in seconds, and the parts that were served at half of the time, of the campaigns
// with the smallest and the largest.
func (t *task) times() (elapsed, worst, best float64) {
	served := make([]int, t.Campaigns)
	if len(t.ends) > 0 {
		last := t.ends[len(t.ends)-1].at
		elapsed = demo.Round(last.Seconds())
		for _, e := range t.ends {
			if e.at <= last/2 {
				served[e.campaign]++
			}
		}
	}
	part := func(n int) float64 { return demo.Round(float64(n) / float64(t.Calls)) }
	return elapsed, part(slices.Min(served)), part(slices.Max(served))
}

// feeder sets feed, which feeds the campaigns to the engine asynq. stop ends it, and removes the queue.
func (t *task) feeder(ctx context.Context, fail context.CancelCauseFunc) (stop func(), err error) {
	engine, client, err := t.newEngine()
	if engine == nil || err != nil {
		return func() {}, err
	}
	runner, err := jobs.New(jobs.Config{Engine: engine})
	if err != nil {
		return nil, err
	}
	var feeding sync.WaitGroup
	t.feed = func() {
		for campaign := range t.Campaigns {
			feeding.Go(func() {
				_, _, err := runner.Feed(ctx, func(yield func(jobs.Job) bool) {
					for n := campaign; n < t.total(); n += t.Campaigns {
						if !yield(t.job(n)) {
							return
						}
					}
				})
				if err != nil && !errors.Is(err, jobs.ErrClosed) && ctx.Err() == nil {
					fail(err)
				}
			})
		}
	}
	return func() {
		_ = runner.Close(ctx) // nothing runs
		feeding.Wait()
		t.forget(context.WithoutCancel(ctx), client)
		_ = client.Close()
	}, nil
}
