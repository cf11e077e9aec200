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

func showRateLimit(ctx context.Context, target string, t *table) error {
	network, closeIdle := newNetwork()
	defer closeIdle()
	c := &http.Client{Transport: network}
	key := "demo-" + rand.Text()
	first := send(ctx, c, http.MethodGet, target+"/hello", key)
	t.add("GET /hello", first.String(), "RateLimit: "+first.header.Get("RateLimit"))
	if err := expect("status of the first request", first.status, http.StatusOK); err != nil {
		return err
	}
	allowed, last := 1, first
	for range 1000 {
		if last = send(ctx, c, http.MethodGet, target+"/hello", key); last.status != http.StatusOK {
			break
		}
		allowed++
	}
	t.add(fmt.Sprintf("GET /hello × %d", allowed-1), "200 each", "within RateLimit-Policy: "+first.header.Get("RateLimit-Policy"))
	if last.status == http.StatusOK {
		return fmt.Errorf("%d requests were allowed: no limit was found", allowed)
	}
	after, err := strconv.Atoi(last.header.Get("Retry-After"))
	t.add("GET /hello", last.String(), fmt.Sprintf("%d are used up, Retry-After: %s, X-Rate-Limited: %s",
		allowed, last.header.Get("Retry-After"), last.header.Get("X-Rate-Limited")))
	other := send(ctx, c, http.MethodGet, target+"/hello", key+"-other")
	t.add("GET /hello, another key", other.String(), "each key has a window of its own")
	health := send(ctx, c, http.MethodGet, target+"/health", key)
	t.add("GET /health", health.String(), "excluded from the limit")
	if err := errors.Join(err,
		expect("status above the limit", last.status, http.StatusTooManyRequests),
		expect("X-Rate-Limited", last.header.Get("X-Rate-Limited"), "true"),
		expect("status of another key", other.status, http.StatusOK),
		expect("status of /health", health.status, http.StatusOK),
		expect("X-Rate-Limited of /health", health.header.Get("X-Rate-Limited"), ""),
	); err != nil {
		return err
	}
	if after > 60 {
		t.add("(no wait)", "", fmt.Sprintf("a minute at most: %ds is too long for a demo", after))
		return nil
	}
	if err := demo.Sleep(ctx, time.Duration(after)*time.Second); err != nil {
		return err
	}
	again := send(ctx, c, http.MethodGet, target+"/hello", key)
	t.add(fmt.Sprintf("GET /hello, %ds later", after), again.String(), "Retry-After was the truth")
	return expect("status after Retry-After", again.status, http.StatusOK)
}

func showRetry(ctx context.Context, target string, t *table) error {
	policy, err := retry.New(retry.Config{MaxAttempts: 4, Backoff: backoff.Constant{Delay: 50 * time.Millisecond}, OnRetry: func(_ context.Context, r retry.Retry) {
		got := fmt.Sprint(r.Err)
		if resp, ok := r.Result.(*http.Response); ok {
			got = resp.Status
		}
		t.add(fmt.Sprintf("  attempt %d", r.Attempt-1), got, fmt.Sprintf("retry in %v", r.Wait))
	}})
	if err != nil {
		return err
	}
	network, closeIdle := newNetwork()
	defer closeIdle()
	c := &http.Client{Transport: client.New(network, retry.NewClient(policy, retry.ClientOptions{}))}
	got := send(ctx, c, http.MethodGet, target+"/flaky?fail=2&id="+rand.Text())
	t.add("GET /flaky?fail=2", got.String(), fmt.Sprintf("%d requests went out", network.n.Load()))
	exhausted := send(ctx, c, http.MethodGet, target+"/flaky?fail=9&id="+rand.Text())
	t.add("GET /flaky?fail=9", exhausted.String(), "after 4 attempts the last response is returned")
	return errors.Join(
		expect("body", got.body, `{"attempts":3}`),
		expect("status when all attempts fail", exhausted.status, http.StatusServiceUnavailable),
		expect("requests that went out", network.n.Load(), 3+4),
	)
}

// newBreakers is a breaker that opens at two failures of four, for half a second.
func newBreakers(t *table) (*breaker.Client, error) {
	group, err := breaker.NewGroup(breaker.Config{
		Window: 4, Trials: 1, OpenDelay: backoff.Constant{Delay: 500 * time.Millisecond},
		OnStateChange: func(_ context.Context, s breaker.StateChange) {
			t.add("  breaker", fmt.Sprintf("%v → %v", s.From, s.To), s.Reason)
		},
	})
	return breaker.NewClient(group, breaker.ClientOptions{}), err
}

func showBreaker(ctx context.Context, target string, t *table) error {
	breakers, err := newBreakers(t)
	if err != nil {
		return err
	}
	network, closeIdle := newNetwork()
	defer closeIdle()
	c := &http.Client{Transport: client.New(network, breakers)}
	control := &http.Client{Transport: network.RoundTripper} // not through the breaker
	defer send(context.WithoutCancel(ctx), control, http.MethodPost, target+"/unstable/up")
	if down := send(ctx, control, http.MethodPost, target+"/unstable/down"); down.status != http.StatusNoContent {
		return fmt.Errorf("the server could not be taken down: %v", down)
	}
	t.add("POST /unstable/down", "204", "the server is down from here on")
	for range 4 {
		got := send(ctx, c, http.MethodGet, target+"/unstable")
		t.add("GET /unstable", got.String(), "counts as a failure")
		if err := expect("status while down", got.status, http.StatusInternalServerError); err != nil {
			return err
		}
	}
	reached := network.n.Load()
	rejected := send(ctx, c, http.MethodGet, target+"/unstable")
	left, _ := core.RetryAfter(rejected.err)
	t.add("GET /unstable", rejected.String(),
		fmt.Sprintf("rejected: no request reached the server; %v left", left.Round(10*time.Millisecond)))
	if up := send(ctx, control, http.MethodPost, target+"/unstable/up"); up.status != http.StatusNoContent {
		return fmt.Errorf("the server could not be brought up: %v", up)
	}
	t.add("POST /unstable/up", "204", "the server is up again")
	if err := errors.Join(
		expect("rejection", errors.Is(rejected.err, core.ErrRejected), true),
		expect("requests that reached the server", network.n.Load(), reached),
		demo.Sleep(ctx, left),
	); err != nil {
		return err
	}
	trial := send(ctx, c, http.MethodGet, target+"/unstable")
	t.add("GET /unstable", trial.String(), "one trial is let through, and closes the breaker")
	after := send(ctx, c, http.MethodGet, target+"/unstable")
	t.add("GET /unstable", after.String(), "as before")
	return errors.Join(
		expect("status of the trial", trial.status, http.StatusOK),
		expect("status after it", after.status, http.StatusOK),
	)
}

func showTimeout(ctx context.Context, target string, t *table) error {
	limit, err := timeout.New(timeout.Config{Limit: 200 * time.Millisecond})
	if err != nil {
		return err
	}
	policy, err := retry.New(retry.Config{MaxAttempts: 2, Backoff: backoff.Constant{Delay: 50 * time.Millisecond}})
	if err != nil {
		return err
	}
	network, closeIdle := newNetwork()
	defer closeIdle()
	attempts := timeout.NewClient(limit, timeout.ClientOptions{PerAttempt: true})
	c := &http.Client{Transport: client.New(network, attempts, retry.NewClient(policy, retry.ClientOptions{}))}
	start := time.Now()
	slow := send(ctx, c, http.MethodGet, target+"/slow?d=10s")
	took := time.Since(start)
	t.add("GET /slow?d=10s", slow.String(),
		fmt.Sprintf("%d attempts of 200ms each, %v in all", network.n.Load(), took.Round(10*time.Millisecond)))
	quick := send(ctx, c, http.MethodGet, target+"/slow?d=10ms")
	t.add("GET /slow?d=10ms", quick.String(), "in time")
	return errors.Join(
		expect("timeout", errors.Is(slow.err, context.DeadlineExceeded), true),
		expect("given up before the server answers", took < 5*time.Second, true),
		expect("requests that went out", network.n.Load(), 3),
		expect("status in time", quick.status, http.StatusOK),
	)
}

func showOverride(ctx context.Context, target string, t *table) error {
	policy, err := retry.New(retry.Config{MaxAttempts: 3, Backoff: backoff.Constant{Delay: 50 * time.Millisecond}})
	if err != nil {
		return err
	}
	breakers, err := newBreakers(t)
	if err != nil {
		return err
	}
	network, closeIdle := newNetwork()
	defer closeIdle()
	retries := retry.NewClient(policy, retry.ClientOptions{})
	c := &http.Client{Transport: client.New(network, breakers, retries)}
	url := target + "/flaky?fail=1&id=" + rand.Text()
	once := policy.Override(ctx, func(c *retry.Config) { c.MaxAttempts = 1 })
	first := send(once, c, http.MethodGet, url)
	t.add("GET /flaky?fail=1, MaxAttempts 1", first.String(), "this request is not retried")
	sent := network.n.Load()
	second := send(ctx, c, http.MethodGet, target+"/flaky?fail=1&id="+rand.Text())
	t.add("GET /flaky?fail=1", second.String(), fmt.Sprintf("others are: %d requests", network.n.Load()-sent))

	host := breakers.Override(ctx, func(o *breaker.ClientOptions) {
		o.Key = func(*http.Request) (string, bool) { return "billing", true }
	})
	host = retries.Override(host, func(c *retry.ClientOptions) { c.Disabled = true })
	for range 4 {
		send(host, c, http.MethodGet, target+"/flaky?fail=1000&id=billing-"+rand.Text())
	}
	open := send(host, c, http.MethodGet, target+"/health")
	t.add("GET /health, breaker \"billing\"", open.String(), "the calls that share this breaker have failed")
	passed := send(breakers.Override(host, func(o *breaker.ClientOptions) { o.Disabled = true }), c, http.MethodGet, target+"/health")
	t.add("GET /health, breaker disabled", passed.String(), "this request does not ask it")
	return errors.Join(
		expect("status with one attempt", first.status, http.StatusServiceUnavailable),
		expect("requests with one attempt", sent, 1),
		expect("status with retries", second.status, http.StatusOK),
		expect("rejection by the open breaker", errors.Is(open.err, core.ErrRejected), true),
		expect("status past the breaker", passed.status, http.StatusOK),
	)
}
