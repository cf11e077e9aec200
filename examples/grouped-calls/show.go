package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gresil/gresil/examples/internal/program"
)

// show runs the whole: Redis, the vendor, the workers, and the vendor's view of their calls.
func show(ctx context.Context, cfg config, stderr *program.Screen) (s summary) {
	s = newSummary(cfg)
	running, end := context.WithCancelCause(ctx)
	defer end(nil)
	var children program.Children
	defer children.Stop()
	if err := startServers(ctx, &cfg, &children); err != nil {
		return s.fail(err)
	}
	children.Watch(running, end)
	fmt.Fprintf(stderr, "vendor: %s\n", cfg.vendor)
	c := &crew{stderr: stderr, events: make(chan event, 1024), keys: map[string]struct{}{}, order: order{
		Run: s.Run, Vendor: cfg.vendor, Redis: cfg.redis, Algorithm: cfg.algorithm, Options: cfg.options, Records: cfg.records,
		MaxRecords: cfg.maxRecords, CallsPerMinute: cfg.callsPerMinute, Scale: cfg.scale, Workers: cfg.processes,
	}}
	err := c.work(running, progress{stderr})
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
	s.figures, err = judge(context.WithoutCancel(ctx), cfg.vendor)
	s.Judged = s.figures != nil
	return s.fail(err)
}

const judgeTime = time.Minute

// judge reads the figures of a vendor. They are nil if it has none.
func judge(ctx context.Context, vendor string) (*figures, error) {
	ctx, cancel := context.WithTimeout(ctx, judgeTime)
	defer cancel()
	return program.Judge[figures](ctx, vendor)
}

// startServers starts the Redis and the vendor that are not given, if they are needed.
func startServers(ctx context.Context, cfg *config, children *program.Children) (err error) {
	switch {
	case cfg.algorithm == "naive":
		cfg.redis = ""
	case cfg.redis == "" && cfg.needsRedis():
		if cfg.redis, err = children.StartRedis(ctx); err != nil {
			return err
		}
	}
	if cfg.vendor == "" {
		cfg.vendor, err = children.Start(ctx, "the vendor", "child", "-addr", "127.0.0.1:0", "-scale", fmt.Sprint(cfg.scale),
			"-max-records", strconv.Itoa(cfg.maxRecords), "-calls-per-minute", strconv.Itoa(cfg.callsPerMinute))
	}
	return err
}

// newRun returns a name that no other run has.
func newRun() string { return strings.ToLower(rand.Text()[:8]) }
