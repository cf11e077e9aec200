package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gresil/gresil/examples/internal/program"
)

// show runs the whole: the vendor, the load, and the vendor's view of it.
func show(ctx context.Context, cfg config, stderr *program.Screen) (s summary) {
	s = newSummary(cfg)
	running, end := context.WithCancelCause(ctx)
	defer end(nil)
	var children program.Children
	defer children.Stop()
	if err := children.StartServers(ctx, false, nil, &cfg.vendor, "-scale", fmt.Sprint(cfg.scale)); err != nil {
		return s.fail(err)
	}
	children.Watch(running, end)
	fmt.Fprintf(stderr, "vendor: %s\n", cfg.vendor)
	r := newRemote(cfg, end)
	defer r.client.CloseIdleConnections()
	a, err := newAlgorithm(running, cfg, r, stderr)
	if err != nil {
		return s.fail(err)
	}
	l := &load{cfg: cfg, start: time.Now()}
	if cfg.algorithm != "gresil" {
		go l.watch(running, end)
	}
	stop := follow(stderr, l, r, a)
	l.offer(running, a.call)
	stop()
	a.stop()
	s.Served, s.Failed, s.first = l.served.Load(), l.failed.Load(), l.first
	switch cause := context.Cause(running); {
	case ctx.Err() != nil:
		s.note = "interrupted"
	case errors.Is(cause, errStalled):
		s.note = cause.Error()
	case cause != nil:
		return s.fail(cause)
	}
	s.figures, err = program.Judge[figures](context.WithoutCancel(ctx), cfg.vendor)
	s.Judged = s.figures != nil
	return s.fail(err)
}
