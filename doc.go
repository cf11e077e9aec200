// Package gresil is the root of a suite of resilience middleware for net/http. It holds no code. Most programs begin with one of these:
//
//	plugins/ratelimit   limit the requests that a server accepts
//	plugins/retry       send requests again that failed, if that is safe
//	plugins/breaker     stop calling a host, or a handler, that keeps failing
//	plugins/timeout     limit the time of an exchange, an attempt, a handler
//	standard            a complete client, a complete server
//	client              several plugins around an http.RoundTripper
//	server              several plugins around an http.Handler; keys, rejections, routes
//
// The mechanisms work for any function:
//
//	core                outcomes, errors, a registry, pipelines
//	core/ratelimit      permits in a period, by key
//	core/bulkhead       calls in flight, by key
//	core/retry          another attempt
//	core/breaker        no calls to something that keeps failing
//	core/timeout        a time limit for each call
//	core/backoff        delays that grow
//
// Calls to vendors that limit their callers:
//
//	outbound/gate       one gate for all calls to a vendor: limits, pauses, calls in flight
//	outbound/jobs       calls that survive a restart, if their engine is one of outbound/jobs/asynqjobs
//	outbound/batch      calls with many records each, with the same engines
//
// Where state is kept, and what an operator sees:
//
//	stores/redisstore   limits and gates that all processes share
//	stores/share        a share of the limit while a store is unavailable
//	stores/denycache    refusals without asking the store
//	metrics             Prometheus
//	logs                log/slog
//	dash                a page of what waits and runs
//
// # Limit a chi server
//
//	r := chi.NewRouter()
//	r.Use(ratelimit.PerIP(ratelimit.PerMinute(100)))
//
// # Make a client with timeouts, retries and breakers
//
//	c, err := standard.NewClient(standard.ClientConfig{Name: "search"})
//	if err != nil {
//		return err
//	}
//	resp, err := c.Get("https://api.example.com/orders")
//
// # Change it for one request
//
//	ctx = c.Retry.Override(ctx, func(cfg *retry.Config) { cfg.MaxAttempts = 1 })
package gresil
