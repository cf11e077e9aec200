package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/examples/internal/demo"
	"github.com/gresil/gresil/plugins/breaker"
	"github.com/gresil/gresil/plugins/retry"
	"github.com/gresil/gresil/plugins/timeout"
)

func showRateLimit(ctx context.Context, s *stage) {
	key := "demo-" + rand.Text()
	first := s.get(ctx, s, "/hello", key)
	s.add("GET /hello", first.String(), "RateLimit: "+first.header.Get("RateLimit"))
	allowed, last := 0, first
	for last.status == http.StatusOK && allowed < 1000 {
		allowed++
		last = s.get(ctx, s, "/hello", key)
	}
	s.add(fmt.Sprintf("GET /hello × %d", allowed), "200 each", "within RateLimit-Policy: "+first.header.Get("RateLimit-Policy"))
	s.add("GET /hello", last.String(), fmt.Sprintf("%d are used up, Retry-After: %s, X-Rate-Limited: %s",
		allowed, last.header.Get("Retry-After"), last.header.Get("X-Rate-Limited")))
	if !s.expect("status of the first request", first.status, 200) || !s.expect("status above the limit", last.status, 429) {
		return
	}
	s.show("GET /hello, another key", s.get(ctx, s, "/hello", key+"-other"), 200, "each key has a window of its own")
	health := s.get(ctx, s, "/health", key)
	s.show("GET /health", health, 200, "excluded from the limit")
	s.expect("X-Rate-Limited", last.header.Get("X-Rate-Limited"), "true")
	s.expect("X-Rate-Limited of /health", health.header.Get("X-Rate-Limited"), "")
	after, err := strconv.Atoi(last.header.Get("Retry-After"))
	s.expect("error of Retry-After", err, nil)
	if after > 60 {
		s.add("(no wait)", "", fmt.Sprintf("a minute at most: %ds is too long for a demo", after))
		return
	}
	_ = demo.Sleep(ctx, time.Duration(after)*time.Second)
	s.show(fmt.Sprintf("GET /hello, %ds later", after), s.get(ctx, s, "/hello", key), 200, "Retry-After was the truth")
}

func newRetry(attempts int, onRetry func(context.Context, retry.Retry)) *retry.Policy {
	return core.Must(retry.New(retry.Config{
		MaxAttempts: attempts, Backoff: backoff.Constant{Delay: 50 * time.Millisecond}, OnRetry: onRetry,
	}))
}

func showRetry(ctx context.Context, s *stage) {
	policy := newRetry(4, func(_ context.Context, r retry.Retry) {
		got := fmt.Sprint(r.Err)
		if resp, ok := r.Result.(*http.Response); ok {
			got = resp.Status
		}
		s.add(fmt.Sprintf("  attempt %d", r.Attempt-1), got, fmt.Sprintf("retry in %v", r.Wait))
	})
	c := client.New(s, retry.NewClient(policy, retry.ClientOptions{}))
	got := s.get(ctx, c, "/flaky?fail=2&id="+rand.Text())
	s.add("GET /flaky?fail=2", got.String(), fmt.Sprintf("%d requests went out", s.sent.Load()))
	s.show("GET /flaky?fail=9", s.get(ctx, c, "/flaky?fail=9&id="+rand.Text()), 503, "after 4 attempts the last response is returned")
	s.expect("body", got.body, `{"attempts":3}`)
	s.expect("requests that went out", s.sent.Load(), int64(3+4))
}

// newBreakers is a breaker that opens at two failures of four, for half a second.
func (s *stage) newBreakers() *breaker.Client {
	return breaker.NewClient(core.Must(breaker.NewGroup(breaker.Config{
		Window: 4, Trials: 1, OpenDelay: backoff.Constant{Delay: 500 * time.Millisecond},
		OnStateChange: func(_ context.Context, c breaker.StateChange) {
			s.add("  breaker", fmt.Sprintf("%v → %v", c.From, c.To), c.Reason)
		},
	})), breaker.ClientOptions{})
}

func showBreaker(ctx context.Context, s *stage) {
	c := client.New(s, s.newBreakers())
	down := s.send(ctx, s, http.MethodPost, "/unstable/down") // not through the breaker
	defer s.send(context.WithoutCancel(ctx), s, http.MethodPost, "/unstable/up")
	s.add("POST /unstable/down", down.String(), "the server is down from here on")
	for range 4 {
		if !s.show("GET /unstable", s.get(ctx, c, "/unstable"), 500, "counts as a failure") {
			return
		}
	}
	reached := s.sent.Load()
	rejected := s.get(ctx, c, "/unstable")
	left, _ := core.RetryAfter(rejected.err)
	s.add("GET /unstable", rejected.String(),
		fmt.Sprintf("rejected: no request reached the server; %v left", left.Round(10*time.Millisecond)))
	s.expect("rejection", errors.Is(rejected.err, core.ErrRejected), true)
	s.expect("requests that reached the server", s.sent.Load(), reached)
	up := s.send(ctx, s, http.MethodPost, "/unstable/up")
	s.add("POST /unstable/up", up.String(), "the server is up again")
	_ = demo.Sleep(ctx, left)
	s.show("GET /unstable", s.get(ctx, c, "/unstable"), 200, "one trial is let through, and closes the breaker")
	s.show("GET /unstable", s.get(ctx, c, "/unstable"), 200, "as before")
}

func showTimeout(ctx context.Context, s *stage) {
	limit := core.Must(timeout.New(timeout.Config{Limit: 200 * time.Millisecond}))
	attempts := timeout.NewClient(limit, timeout.ClientOptions{PerAttempt: true})
	c := client.New(s, attempts, retry.NewClient(newRetry(2, nil), retry.ClientOptions{}))
	start := time.Now()
	slow := s.get(ctx, c, "/slow?d=10s")
	took := time.Since(start)
	s.add("GET /slow?d=10s", slow.String(),
		fmt.Sprintf("%d attempts of 200ms each, %v in all", s.sent.Load(), took.Round(10*time.Millisecond)))
	s.show("GET /slow?d=10ms", s.get(ctx, c, "/slow?d=10ms"), 200, "in time")
	s.expect("timeout", errors.Is(slow.err, context.DeadlineExceeded), true)
	s.expect("given up before the server answers", took < 5*time.Second, true)
	s.expect("requests that went out", s.sent.Load(), int64(3))
}

func showOverride(ctx context.Context, s *stage) {
	policy, breakers := newRetry(3, nil), s.newBreakers()
	retries := retry.NewClient(policy, retry.ClientOptions{})
	c := client.New(s, breakers, retries)
	once := policy.Override(ctx, func(c *retry.Config) { c.MaxAttempts = 1 })
	s.show("GET /flaky?fail=1, MaxAttempts 1", s.get(once, c, "/flaky?fail=1&id="+rand.Text()), 503, "this request is not retried")
	s.expect("requests with one attempt", s.sent.Load(), int64(1))
	second := s.get(ctx, c, "/flaky?fail=1&id="+rand.Text())
	s.show("GET /flaky?fail=1", second, 200, fmt.Sprintf("others are: %d requests", s.sent.Load()-1))

	billing := breakers.Override(ctx, func(o *breaker.ClientOptions) {
		o.Key = func(*http.Request) (string, bool) { return "billing", true }
	})
	billing = retries.Override(billing, func(o *retry.ClientOptions) { o.Disabled = true })
	for range 4 {
		s.get(billing, c, "/flaky?fail=1000&id=billing-"+rand.Text())
	}
	open := s.get(billing, c, "/health")
	s.add("GET /health, breaker \"billing\"", open.String(), "the calls that share this breaker have failed")
	s.expect("rejection by the open breaker", errors.Is(open.err, core.ErrRejected), true)
	past := breakers.Override(billing, func(o *breaker.ClientOptions) { o.Disabled = true })
	s.show("GET /health, breaker disabled", s.get(past, c, "/health"), 200, "this request does not ask it")
}
