package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gresil/gresil/examples/internal/demo"
)

// A task has the state of all calls.
type task struct {
	config
	workers *demo.Workers

	sent     map[int]*demo.Process // calls on their way, and who has sent them
	inFlight []string              // the names of calls that were sent when their worker ended
	ended    []bool                // by number
	half     []int                 // by campaign: the served calls, until half of all were
	gates    map[*demo.Process]int // attempts that the gate of a worker let pass
	passed   int                   // by all of them
	attempts int                   // that were sent
	served   int
	failed   int
	runs     int     // of handlers
	retried  int     // of these, not the first attempt
	percent  float64 // of a processor, that Redis used
}

func newTask(c config, screen *demo.Screen) *task {
	c.Run = demo.NewRun()
	t := &task{
		config: c, sent: map[int]*demo.Process{}, inFlight: []string{}, ended: make([]bool, c.total()),
		half: make([]int, c.Campaigns), gates: map[*demo.Process]int{},
	}
	t.workers = &demo.Workers{Task: t, Name: "worker", Number: c.Workers, Kill: c.Kill, Screen: screen}
	return t
}

// Order returns what all workers are told.
func (t *task) Order(*demo.Process) any { return t.config }

// Input returns the calls of a worker that have not ended. Each worker has its part of each campaign.
func (t *task) Input(p *demo.Process) any {
	numbers := []int{}
	for n, ended := range t.ended {
		if !ended && n/t.Campaigns%t.Workers == p.Place {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

// Line is a step of a call, or a count of a worker.
func (t *task) Line(p *demo.Process, word string, n int, rest string) {
	switch word {
	case "passed":
		t.passed += n - t.gates[p]
		t.gates[p] = n
	case "run":
		t.runs++
		if rest != "1" {
			t.retried++
		}
		delete(t.sent, n)
	case "sent":
		t.sent[n] = p
		t.attempts++
	case "done", "failed":
		delete(t.sent, n)
		t.end(n, word == "done", rest)
	}
}

// end notes the end of a call. Only the first one counts: a worker can be killed before the engine has noted the end.
func (t *task) end(n int, served bool, why string) {
	again := t.ended[n]
	t.ended[n] = true
	switch {
	case again:
	case served:
		if t.served++; 2*t.served <= t.total() {
			t.half[n%t.Campaigns]++
		}
	default:
		t.failed++
		t.workers.Note(why)
	}
}

// Ended notes the calls of a worker that were on their way.
func (t *task) Ended(p *demo.Process) bool {
	for n, from := range t.sent {
		if from == p {
			t.inFlight = append(t.inFlight, t.key(n))
			delete(t.sent, n)
		}
	}
	return true
}

// Progress counts the calls.
func (t *task) Progress() (done, total int, text string) {
	done, total = t.served+t.failed, t.total()
	return done, total, fmt.Sprintf("%d of %d served, %d failed", t.served, total, t.failed)
}

// halves returns the parts that were served when half of all calls were, of the campaigns with the smallest and the largest.
func (t *task) halves() (worst, best float64) {
	part := func(n int) float64 { return demo.Round(float64(n) / float64(t.Calls)) }
	return part(slices.Min(t.half)), part(slices.Max(t.half))
}

// work makes the calls, and measures what Redis needs. No job is left there.
func (t *task) work(ctx context.Context) error {
	if t.Redis == "" {
		return t.workers.Work(ctx)
	}
	connections := redis.NewClient(&redis.Options{Addr: t.Redis, DialerRetries: 1})
	defer func() { _ = connections.Close() }() // nothing is sent
	before, err := cpuSeconds(ctx, connections)
	if err != nil {
		return fmt.Errorf("redis at %s: %w", t.Redis, err)
	}
	if t.Engine == "asynq" {
		defer t.forget(context.WithoutCancel(ctx), connections)
	}
	if err := t.workers.Work(ctx); err != nil {
		return err
	}
	after, err := cpuSeconds(ctx, connections)
	t.percent = 100 * (after - before) / time.Since(t.workers.Start).Seconds()
	return err
}

func cpuSeconds(ctx context.Context, c *redis.Client) (sum float64, err error) {
	info, err := c.InfoMap(ctx, "cpu").Result()
	for _, name := range []string{"used_cpu_sys", "used_cpu_user"} {
		seconds, _ := strconv.ParseFloat(info["CPU"][name], 64) // 0 of a server that does not say it
		sum += seconds
	}
	return sum, err
}

const forgetTime = 10 * time.Second // to remove the queue

// forget removes all keys of the queue. asynq itself would keep its counts, and also all jobs if a worker that was killed
// has one.
func (t *task) forget(ctx context.Context, c *redis.Client) {
	ctx, cancel := context.WithTimeout(ctx, forgetTime)
	defer cancel()
	for keys := c.Scan(ctx, 0, "asynq:{"+t.queue()+"}:*", 1000).Iterator(); keys.Next(ctx); {
		_ = c.Unlink(ctx, keys.Val()) // Redis can be gone
	}
	_ = c.SRem(ctx, "asynq:queues", t.queue())
}
