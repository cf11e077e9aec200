// Package gresil is the root of a suite of resilience middleware for net/http. It
// holds no code; start with one of these:
//
//	plugins/ratelimit  limit a server, by key and route; limit a client
//	plugins/retry      repeat requests that failed, if that is safe
//	plugins/breaker    stop calling a service that is down; protect a handler
//	plugins/timeout    bound an exchange, an attempt, a handler
//	client             put several plugins around an http.RoundTripper
//	server             put several plugins around an http.Handler; keys, rejections
//	standard           all of these in one http.Client, with defaults that fit
//	outbound           keep to the limits of vendors: outbound/pace,
//	                   outbound/dispatch, outbound/jobs, outbound/batch
//	metrics            export all counters to Prometheus
//	logs               write events to log/slog
//	dash               a page of what waits and runs
//	stores/redisstore  limits common to all instances of a service;
//	                   stores/share and stores/denycache in front of it
//	core               the mechanisms, for any function: core/retry,
//	                   core/breaker, core/ratelimit, core/timeout, core/backoff,
//	                   core/cooldown, core/bulkhead
//
// # Limit a chi server
//
//	r := chi.NewRouter()
//	r.Use(ratelimit.PerIP(ratelimit.PerMinute(1000)))
//
// # Make a client that survives
//
//	policy, err := retry.New(retry.Config{MaxAttempts: 4})
//	if err != nil {
//		return err
//	}
//	retries := retry.NewClient(policy, retry.ClientOptions{})
//	breakers := breaker.NewClient(nil, breaker.ClientOptions{}) // one for each host
//	httpClient := &http.Client{Transport: client.New(nil, breakers, retries)}
//
// # Change it for one request
//
//	ctx = policy.Override(ctx, func(c *retry.Config) { c.MaxAttempts = 1 })
//	ctx = breakers.Override(ctx, func(o *breaker.ClientOptions) { o.Disabled = true })
package gresil
