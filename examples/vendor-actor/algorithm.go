package main

import (
	"context"
	"log/slog"
	"strconv"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/escalating"
	"github.com/gresil/gresil/logs"
	"github.com/gresil/gresil/outbound/dispatch"
)

// accounts is how many accounts the calls are for, in turn.
const accounts = 4

func account(n int) string { return "account-" + strconv.Itoa(n%accounts) }

// An algorithm makes calls, each until it is served or fails.
type algorithm struct {
	call  func(ctx context.Context, n int) error
	state func() string // for the progress
	stop  func()        // when no call is left
}

func newAlgorithm(ctx context.Context, cfg config, r *remote, stderr *screen) (algorithm, error) {
	attempt := func(n int) escalating.Attempt {
		return func(ctx context.Context) (time.Duration, error) {
			err := r.report(ctx, account(n), strconv.Itoa(n))
			limit, limited := classify(err)
			if limited && limit.RetryAfter <= 0 {
				limit.RetryAfter = unknownPause
			}
			return limit.RetryAfter, err
		}
	}
	none := algorithm{state: func() string { return "" }, stop: func() {}}
	switch cfg.algorithm {
	case "naive":
		none.call = func(ctx context.Context, n int) error { return escalating.Naive(ctx, attempt(n)) }
		return none, nil
	case "article":
		actor := escalating.NewArticle(cfg.capacity)
		go actor.Run(ctx)
		none.call = func(ctx context.Context, n int) error { return actor.Do(ctx, attempt(n)) }
		return none, nil
	}
	return newDispatcher(cfg, r, stderr)
}

func newDispatcher(cfg config, r *remote, stderr *screen) (algorithm, error) {
	registry := &core.Registry{}
	adapter, err := logs.New(registry, slog.New(slog.NewTextHandler(stderr, nil)), logs.Config{})
	if err != nil {
		return algorithm{}, err
	}
	own := dispatch.Config[string, struct{}]{
		Name: "vendor", Registry: registry, Capacity: cfg.capacity, MaxQueue: cfg.calls, Classify: classify,
	}
	if cfg.limit > 0 {
		period := time.Duration(float64(time.Second) / (cfg.limit * cfg.scale))
		own.Limiter, err = ratelimit.New(ratelimit.Config{Name: "vendor", Limit: ratelimit.TokenBucket(1, period, 1), MaxWait: -1})
		if err != nil {
			return algorithm{}, err
		}
	}
	d, err := dispatch.New(own)
	if err != nil {
		return algorithm{}, err
	}
	return algorithm{
		call: func(ctx context.Context, n int) error {
			_, err := dispatch.Do(ctx, d, account(n), func(ctx context.Context, _ struct{}) (struct{}, error) {
				return struct{}{}, r.report(ctx, account(n), strconv.Itoa(n))
			})
			return err
		},
		state: func() string {
			for _, h := range d.Snapshot().Held {
				return ", paused for " + time.Until(h.Until).Round(100*time.Millisecond).String()
			}
			return ""
		},
		stop: func() {
			_ = d.Close(context.Background()) // no call is left
			_ = adapter.Close()               // always nil
		},
	}, nil
}
