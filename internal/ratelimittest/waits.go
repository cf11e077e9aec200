package ratelimittest

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/eventtest"
	"github.com/gresil/gresil/internal/registry"
)

// A line is a limiter of one permit in each Unit, of which the first is taken. Its callers wait for the key "k".
type line struct {
	*suite
	*ratelimit.Limiter

	queued chan struct{}
}

type outcome struct {
	ratelimit.Result
	err error
}

func (s *suite) line(cfg ratelimit.Config) line {
	s.Helper()
	cfg.Name, cfg.Store, cfg.Limit, cfg.Registry = "line", s.store, ratelimit.TokenBucket(1, s.Unit, 1), &core.Registry{}
	cfg.MaxWait = cmp.Or(cfg.MaxWait, 10*s.Unit)
	limiter, err := ratelimit.New(cfg)
	s.ok(err)
	s.Cleanup(func() { _ = limiter.Close() })
	l := line{s, limiter, make(chan struct{})}
	eventtest.Source(cfg.Registry).Events(true, func(_ context.Context, e registry.Event) {
		if e.Text == "waiting for permits" {
			l.queued <- struct{}{}
		}
	})
	l.served(l.wait(context.Background()), 0)
	return l
}

// wait starts a wait.
func (l line) wait(ctx context.Context) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		r, err := l.Wait(ctx, "k", 1)
		done <- outcome{r, err}
	}()
	return done
}

// join starts a wait, and returns when it waits.
func (l line) join(ctx context.Context) <-chan outcome {
	l.Helper()
	done := l.wait(ctx)
	select {
	case <-l.queued:
	case got := <-done:
		l.Fatalf("Wait = %+v, want a wait", got)
	}
	return done
}

func (l line) served(w <-chan outcome, wait time.Duration) {
	l.Helper()
	got := <-w
	l.fatalIf(got.err != nil || !got.Allowed || got.Permits != 1, "Wait = %+v, want a permit", got)
	l.fatalIf(got.Wait > wait+l.Slack || got.Wait < wait-l.Slack, "Wait = %v, want %v (within %v)", got.Wait, wait, l.Slack)
}

// refuses checks that one more wait is refused, with the time until it could be served.
func (l line) refuses(retry time.Duration) {
	l.Helper()
	got := <-l.wait(context.Background())
	l.fatalIf(got.Allowed || !errors.Is(got.err, ratelimit.ErrLimited), "Wait = %+v, want a refusal", got)
	l.fatalIf(!near(got.RetryAfter, retry, l.Slack), "RetryAfter = %v, want %v", got.RetryAfter, retry)
}

func waitsInOrder(s *suite) {
	l := s.line(ratelimit.Config{MaxWait: 3 * s.Unit})
	var all []<-chan outcome
	for range 3 {
		all = append(all, l.join(context.Background()))
	}
	l.refuses(4 * s.Unit)
	for i, w := range all {
		l.served(w, time.Duration(i+1)*s.Unit)
	}
}

func canceledWait(s *suite) {
	l := s.line(ratelimit.Config{})
	first := l.join(context.Background())
	ctx, cancel := context.WithCancel(context.Background())
	second := l.join(ctx)
	cancel()
	got := <-second
	s.fatalIf(!errors.Is(got.err, context.Canceled), "a canceled wait = %+v", got)
	l.served(l.join(context.Background()), 2*s.Unit)
	l.served(first, s.Unit)
}

// queueServesAtOnce has a waiter that leaves, a reset, a change, a take that does not overtake, and a waiter too many.
func queueServesAtOnce(s *suite) {
	l := s.line(ratelimit.Config{MaxQueue: 3})
	ctx, cancel := context.WithCancel(context.Background())
	first, second, third := l.join(ctx), l.join(context.Background()), l.join(context.Background())
	l.refuses(4 * s.Unit)
	r, err := l.Take(context.Background(), "k", 1)
	l.fatalIf(err != nil || r.Allowed, "a take overtook the head: %+v, %v", r, err)
	cancel()
	<-first
	l.served(second, s.Unit)
	time.Sleep(s.Unit / 8) // the third has reserved its time
	s.ok(l.Reset(context.Background(), "k"))
	l.served(third, s.Unit+s.Unit/8)
	last := l.join(context.Background())
	SetLimit(l, l.Limiter, ratelimit.TokenBucket(10, s.Unit, 1)) // the waiters come under the new limit at once
	got := <-last
	s.fatalIf(got.err != nil || got.Wait >= s.Unit, "after a raise of the limit Wait = %+v", got)
}
