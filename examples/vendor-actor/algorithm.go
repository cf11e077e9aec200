package main

import (
	"context"
	"io"
	"log/slog"
	"math"
	"strconv"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/escalating"
	"github.com/gresil/gresil/logs"
	"github.com/gresil/gresil/outbound/gate"
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
			pause, limited := core.RetryAfter(err)
			if limited && pause <= 0 {
				pause = unknownPause
			}
			return pause, err
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
	return newGate(context.WithoutCancel(ctx), cfg, r, stderr)
}

// A session is a connection of an account. (The vendor needs none: that of an SDK would be here.)
type session struct{ account string }

// newGate returns the algorithm gresil. ctx does not end before stop.
func newGate(ctx context.Context, cfg config, r *remote, stderr io.Writer) (algorithm, error) {
	registry := &core.Registry{}
	own := gate.Config{Name: "vendor", Registry: registry, InFlight: cfg.capacity, MaxQueue: cfg.calls, MaxAttempts: attempts, Classify: classify}
	own.Limits = []gate.Limit{{Name: "vendor"}}
	if cfg.limit > 0 {
		own.Limits, own.Slack = []gate.Limit{limit(cfg.limit, cfg.scale)}, max(leastSlack, time.Duration(float64(slack)/cfg.scale))
	}
	g, err := gate.New(own)
	if err != nil {
		return algorithm{}, err
	}
	sessions, err := gate.NewPool(g, gate.PoolConfig[string, session]{
		Capacity: cfg.capacity,
		Dial:     func(_ context.Context, account string) (session, error) { return session{account}, nil },
	})
	if err != nil {
		return algorithm{}, err
	}
	r.client.Transport = g.Transport(r.client.Transport)
	logged, stopLog := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- logs.Run(logged, registry, slog.New(slog.NewTextHandler(stderr, nil)), logs.Config{}) }()
	return algorithm{
		call: func(ctx context.Context, n int) error {
			_, err := gate.Do(ctx, sessions, account(n), func(ctx context.Context, s session) (struct{}, error) {
				return struct{}{}, r.report(ctx, s.account, strconv.Itoa(n))
			})
			return err
		},
		state: func() string {
			for _, h := range g.Holds() {
				return ", paused for " + time.Until(h.Until).Round(100*time.Millisecond).String()
			}
			return ""
		},
		stop: func() {
			_ = g.Close(ctx) // no call is left
			stopLog()
			if err := <-ended; err != nil { // the registry and the logger are not nil
				panic(err)
			}
		},
	}, nil
}

const (
	slack      = 50 * time.Millisecond // of the vendor
	leastSlack = time.Millisecond      // of our own: so late can a timer be, whatever the scale
)

// limit returns a limit of calls in a second of the vendor.
func limit(calls, scale float64) gate.Limit {
	n := max(1, math.Floor(calls))
	return gate.Limit{Name: "vendor", N: int64(n), Per: max(time.Millisecond, time.Duration(n/calls/scale*float64(time.Second)))}
}
