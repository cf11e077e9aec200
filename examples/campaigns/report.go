package main

import (
	"context"
	"time"

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
		"run", t.Run, "ideal_seconds", c.ideal().Seconds(), "slack_ms", demo.Milliseconds(slack), "skew_ms", demo.Milliseconds(skew))
	r.Load(ctx, &t.Flags, screen, c.needsRedis(), t.work)
	worst, best := t.halves()
	served, left := float64(max(1, t.served)), c.total()-t.served-t.failed
	r.Set("served", t.served, "Calls that the vendor has answered with 204.")
	r.Set("failed", t.failed, "Calls that were given up.")
	r.Set("lost", left, "Calls that were neither served nor given up.")
	r.Set("in_flight", t.inFlight, "Calls of processes that have ended on the way: these can have arrived twice.")
	r.Arrivals("second", c.CPS)
	excused := t.workers.Report(r, c.ideal(), time.Second, skew)
	r.Set("worst_half", worst, "When half of all calls were served, the campaign with the fewest had made this part of its own.")
	r.Set("best_half", best, "The campaign with the most had made this part.")
	r.Set("checks_per_call", demo.Round(float64(t.passed)/served), "The gate let attempts pass this many times for a call.")
	r.Set("stale", max(0, t.passed-t.attempts), "Attempts that had passed, and were held back right before they were sent.")
	r.Set("runs_per_call", demo.Round(float64(t.runs)/served), "A handler ran this many times for a call.")
	r.Set("retried", t.retried, "Handlers that ran since one had failed.")
	r.Set("redis_cpu_percent", demo.Round(t.percent), "Redis used this part of a processor.")
	r.Problem(left > 0 || t.failed > 0, "%d of %d calls were not served", c.total()-t.served, c.total())
	r.Problem(t.workers.Error != "", "%d failed, the first: %s", t.failed, t.workers.Error)
	most := r.Figures.Num("most_sliding")
	r.Broken(most > float64(c.CPS), excused, "%v calls in a second, the limit is %d", most, c.CPS)
	return r
}
