package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

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
	err := children.StartServers(ctx, cfg.needsRedis(), &cfg.redis, &cfg.vendor, "-scale", fmt.Sprint(cfg.scale),
		"-max-records", strconv.Itoa(cfg.maxRecords), "-calls-per-minute", strconv.Itoa(cfg.callsPerMinute))
	if err != nil {
		return s.fail(err)
	}
	children.Watch(running, end)
	fmt.Fprintf(stderr, "vendor: %s\n", cfg.vendor)
	c := &crew{stderr: stderr, events: make(chan event, 1024), keys: map[string]struct{}{}, order: order{
		Run: s.Run, Vendor: cfg.vendor, Redis: cfg.redis, Algorithm: cfg.algorithm, Options: cfg.options, Records: cfg.records,
		MaxRecords: cfg.maxRecords, CallsPerMinute: cfg.callsPerMinute, Scale: cfg.scale, Workers: cfg.processes,
	}}
	err = c.work(running, progress{stderr})
	stderr.Draw("")
	s = s.count(c)
	switch {
	case ctx.Err() != nil:
		s.note = "interrupted"
	case errors.Is(err, errStalled):
		s.note = err.Error()
	case err != nil:
		return s.fail(err)
	}
	s.figures, err = program.Judge[figures](context.WithoutCancel(ctx), cfg.vendor)
	s.Judged = s.figures != nil
	return s.fail(err)
}
