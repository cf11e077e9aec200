// Package ratelimit limits requests: those that a server takes, and those that a
// client sends. What decides is core/ratelimit; this package binds it to
// net/http.
//
//	limits, err := ratelimit.NewServer(ratelimit.ServerConfig{
//		Name:  "api",
//		Limit: ratelimit.PerMinute(1000),   // for each client IP
//		Routes: []ratelimit.Route{          // in place of the above
//			{Pattern: "POST /export", Limit: ratelimit.TokenBucket(10, time.Second, 20)},
//		},
//		Headers: ratelimit.HeaderDraft10,
//	})
//	if err != nil {
//		return err
//	}
//	r := chi.NewRouter()
//	r.Use(limits.Handler)
//
//	login, err := limits.With(func(c *ratelimit.ServerConfig) { c.Name, c.Limit = "login", ratelimit.PerMinute(5) })
//	if err != nil {
//		return err
//	}
//	r.With(login.Handler).Post("/login", signIn) // on top
//
// When not to use it: to bound how many requests are served at once, since a
// permit comes back with time, not when a request ends; and against floods that
// fill the line before they reach the program.
//
// # A server's answer
//
// What passes has X-Rate-Limited: false. What is refused has X-Rate-Limited:
// true, status 429, Retry-After in whole seconds, which are enough, and problem
// details, or plain text if the client prefers it; a request that costs more than
// the limit can ever allow has 413 and no Retry-After. [HeaderStyle] adds the
// fields by which a client can slow down before that.
//
// # Guarantees
//
// A refused request reaches no handler and takes no permits. One that a plugin
// further in refuses, by [server.Reject], gives back what it took; the RateLimit
// field that was sent with it does not know of that yet. An excluded request takes
// nothing and has none of the fields. A header of a client is never believed
// unless its peer is trusted. No body is read. An allowed request costs one
// allocation beside what the header map needs; two or three if its key or the name
// of its limit is long, or it has a tier.
//
// # Failure mode
//
// When the store fails, requests pass without a field of ours, or are answered
// with 503: see ServerConfig.OnStoreError. It is never the client's fault, so
// never a 4xx. The store in memory does not fail. When Weight or Tier fails, the
// answer is 500, or what its [server.StatusError] says.
package ratelimit
