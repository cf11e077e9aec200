package main

import (
	"context"
	"io"
	"log/slog"
	"strconv"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/escalating"
	"github.com/gresil/gresil/logs"
	"github.com/gresil/gresil/outbound/dispatch"
)

const (
	accounts = 4  // that the calls are for, in turn
	attempts = 20 // of a call of gresil; the controls have no limit
)

func account(n int) string { return "account-" + strconv.Itoa(n%accounts) }

// An algorithm makes calls, each until it is served or fails.
type algorithm struct {
	call  func(ctx context.Context, n int) error
	state func() string // for the progress
	stop  func()        // when no call is left
}

func newAlgorithm(ctx context.Context, cfg config, r *remote, stderr io.Writer) (algorithm, error) {
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
	return newDispatcher(context.WithoutCancel(ctx), cfg, r, stderr)
}

// newDispatcher returns the algorithm gresil. ctx does not end before stop.
func newDispatcher(ctx context.Context, cfg config, r *remote, stderr io.Writer) (algorithm, error) {
	registry := &core.Registry{}
	logged, stopLog := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- logs.Run(logged, registry, slog.New(slog.NewTextHandler(stderr, nil)), logs.Config{}) }()
	stop := func() {
		stopLog()
		if err := <-ended; err != nil { // the registry and the logger are not nil
			panic(err)
		}
	}
	own := dispatch.Config[string, struct{}]{
		Name: "vendor", Registry: registry, Capacity: cfg.capacity, MaxQueue: cfg.calls, Attempts: attempts, Classify: classify,
	}
	var err error
	if cfg.limit > 0 {
		own.Limiter, err = ratelimit.New(ratelimit.Config{Name: "vendor", Limit: spaced(cfg.limit, cfg.scale), MaxWait: -1})
		if err != nil {
			stop()
			return algorithm{}, err
		}
	}
	d, err := dispatch.New(own)
	if err != nil {
		stop()
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
			_ = d.Close(ctx) // no call is left
			stop()
		},
	}, nil
}

// late is how late a timer can be. No scale changes it.
const late = 200 * time.Microsecond

// spaced returns a limit whose calls have a distance. A bucket alone sends the calls that are late, as
// the process had no CPU for a moment, together with the next ones. A log prevents that. The bucket is
// a little faster then, so that late timers cost no calls.
func spaced(limit, scale float64) ratelimit.Limit {
	second := time.Duration(float64(time.Second) / scale)
	distance := time.Duration(float64(second) / limit)
	if limit < 1 {
		return ratelimit.TokenBucket(1, distance, 1)
	}
	return ratelimit.TokenBucket(1, distance-min(late, distance/6), 1).And(ratelimit.SlidingLog(min(int64(limit), 1<<16), second))
}
