package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gresil/gresil/examples/internal/program"
)

// show runs the whole: Redis, the vendor, the workers, and the vendor's view of their calls.
func show(ctx context.Context, cfg config, stderr *program.Screen) (s summary) {
	s = newSummary(cfg)
	running, end := context.WithCancelCause(ctx)
	defer end(nil)
	var children program.Children
	defer children.Stop()
	if cfg.algorithm == "naive" {
		cfg.redis = ""
	}
	if err := children.StartServers(ctx, cfg.needsRedis(), &cfg.redis, &cfg.vendor); err != nil {
		return s.fail(err)
	}
	children.Watch(running, end)
	fmt.Fprintf(stderr, "vendor: %s\n", cfg.vendor)
	cpu := newCPU(cfg.redis)
	defer cpu.close()
	before, err := cpu.used(ctx)
	if err != nil {
		return s.fail(err)
	}
	dealer := newDealer(cfg)
	c := &crew{dealer: dealer, stderr: stderr, events: make(chan event, 1024), order: order{
		Run: s.Run, Vendor: cfg.vendor, Redis: cfg.redis, Algorithm: cfg.algorithm, Engine: cfg.engine, Campaigns: cfg.campaigns, CPS: cfg.cps,
		Sockets: dealer.sockets,
	}}
	stop, err := c.feeder(running, end)
	if err != nil {
		return s.fail(err)
	}
	defer stop()
	err = c.work(running, progress{stderr})
	stderr.Draw("")
	s = s.count(c)
	switch {
	case ctx.Err() != nil:
		s.note = "interrupted"
	case err != nil:
		return s.fail(err)
	}
	late := context.WithoutCancel(ctx)
	if after, err := cpu.used(late); err == nil && s.Elapsed > 0 {
		s.RedisCPU = 100 * (after - before).Seconds() / s.Elapsed
	}
	s.figures, err = program.Judge[figures](late, cfg.vendor)
	s.Judged = s.figures != nil
	return s.fail(err)
}

// A cpu reads the CPU time of a Redis, if there is one.
type cpu struct{ client *redis.Client }

func newCPU(addr string) cpu {
	if addr == "" {
		return cpu{}
	}
	return cpu{redis.NewClient(&redis.Options{Addr: addr, DialerRetries: 1})}
}

func (c cpu) close() {
	if c.client != nil {
		_ = c.client.Close() // nothing is sent
	}
}

func (c cpu) used(ctx context.Context) (time.Duration, error) {
	if c.client == nil {
		return 0, nil
	}
	info, err := c.client.Info(ctx, "cpu").Result()
	if err != nil {
		return 0, fmt.Errorf("redis at %s: %w", c.client.Options().Addr, err)
	}
	var sum float64
	for line := range strings.Lines(info) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_sys" || name == "used_cpu_user" {
			var x float64
			if _, err := fmt.Sscan(text, &x); err != nil {
				return 0, err
			}
			sum += x
		}
	}
	return time.Duration(sum * float64(time.Second)), nil
}
