package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gresil/gresil/examples/internal/demo"
)

// report makes all calls, and returns the vendor's view of them.
func (c config) report(ctx context.Context, f demo.Flags, screen *demo.Screen) *demo.Report {
	if c.Flags = f; f.Algorithm == demo.Control {
		c.Redis, c.Engine = "", "memory"
	}
	t := newTask(c, screen)
	r := &demo.Report{Algorithm: c.Algorithm}
	r.Flags("engine", c.Engine, "campaigns", c.Campaigns, "calls", c.Calls, "workers", c.Workers, "cps", c.CPS, "kill", c.Kill,
		"run", t.Run, "ideal_seconds", c.ideal(), "slack_ms", demo.Milliseconds(slack), "skew_ms", demo.Milliseconds(slack/2))
	var cpu time.Duration
	r.Load(ctx, &t.Flags, screen, t.Serve(c.needsRedis()), func(ctx context.Context, end context.CancelCauseFunc) (err error) {
		before, err := cpuTime(ctx, t.Redis)
		if err != nil {
			return err
		}
		stop, err := t.feeder(ctx, end)
		if err != nil {
			return err
		}
		defer stop()
		if err := t.crew.Work(ctx); err != nil {
			return err
		}
		after, err := cpuTime(ctx, t.Redis)
		cpu = after - before
		return err
	})
	stall := max(demo.Milliseconds(t.crew.Stall), r.Figures.Num("stall_ms"))
	elapsed, worst, best := t.times()
	passed := 0
	for _, n := range t.passed {
		passed += n
	}
	served := float64(max(1, t.served))
	left := c.total() - t.served - t.failed
	r.Set("served", t.served, "Calls that the vendor has answered with 204.")
	r.Set("failed", t.failed, "Calls that were given up.")
	r.Set("lost", left, "Calls that were neither served nor given up.")
	r.Set("deaths", t.crew.Deaths, "Processes that have ended on the way, and were replaced.")
	r.Set("in_flight", t.keys(), "The calls that they had in flight: these can have arrived twice.")
	r.Arrivals("second", c.CPS)
	r.Set("elapsed_seconds", elapsed, fmt.Sprintf("From the start to the last answer; at the limit, it takes %v.", c.ideal()))
	r.Set("worst_half", worst, "At half of the time, the campaign with the fewest calls had made this part of them.")
	r.Set("best_half", best, "The campaign with the most calls had made this part.")
	r.Set("checks_per_call", demo.Round(float64(passed)/served), "The gate let attempts pass this many times for a call.")
	r.Set("stale", max(0, passed-t.started), "Attempts that had passed, and were held back right before they were sent.")
	r.Set("runs_per_call", demo.Round(float64(t.runs)/served), "A handler ran this many times for a call.")
	r.Set("retried", t.retried, "Handlers that ran since one had failed.")
	r.Set("redis_cpu_percent", demo.Round(100*cpu.Seconds()/max(elapsed, 1e-9)), "Redis used this part of a processor.")
	r.Set("stall_ms", stall, fmt.Sprintf("A process or a call was late by this much at most; %v are allowed for.", demo.Milliseconds(slack/2)))
	r.Set("void", &r.Void, "")
	r.Problem(left > 0 || t.failed > 0, "%d of %d calls were not served", c.total()-t.served, c.total())
	r.Problem(t.crew.First != "", "%d failed, the first: %s", t.failed, t.crew.First)
	late := stall > demo.Milliseconds(slack/2) && elapsed > c.ideal()-1 // no stall makes a run faster than the limit
	most, fixed := r.Figures.Num("most_sliding"), r.Figures.Num("most_fixed")
	r.Broken(fixed > float64(c.CPS), late, "%v calls in a second of the clock, the limit is %d", fixed, c.CPS)
	r.Broken(most > float64(c.CPS), late, "%v calls in a second, the limit is %d", most, c.CPS)
	return r
}

// cpuTime returns the CPU time of a Redis, if there is one.
func cpuTime(ctx context.Context, addr string) (sum time.Duration, err error) {
	if addr == "" {
		return 0, nil
	}
	client := redis.NewClient(&redis.Options{Addr: addr, DialerRetries: 1})
	defer func() { _ = client.Close() }() // nothing is sent
	info, err := client.Info(ctx, "cpu").Result()
	if err != nil {
		return 0, fmt.Errorf("redis at %s: %w", addr, err)
	}
	for line := range strings.Lines(info) {
		var seconds float64
		name, text, _ := strings.Cut(line, ":")
		if n, _ := fmt.Sscan(text, &seconds); n == 1 && (name == "used_cpu_sys" || name == "used_cpu_user") {
			sum += time.Duration(seconds * float64(time.Second))
		}
	}
	return sum, nil
}
