// Package ratelimit limits the requests that a server accepts. It is core/ratelimit for net/http, and forwards the
// names of core/ratelimit that a server needs.
//
//	r := chi.NewRouter()
//	r.Use(ratelimit.PerIP(ratelimit.PerMinute(100)))
//
// A [Server] applies a limiter to requests, with keys, routes, layers and tiers:
//
//	limits, err := ratelimit.New(ratelimit.Config{Name: "api", Limit: ratelimit.PerMinute(1000),
//		Limits: map[string]ratelimit.Limit{"export": ratelimit.TokenBucket(10, time.Second, 20)}})
//	byUser, err := ratelimit.NewServer(limits, ratelimit.ServerOptions{Key: server.Header("X-API-Key"),
//		Routes: []ratelimit.Route{{Pattern: "POST /export", Limit: "export", Weight: pages}}})
//	r.Use(byUser.Handler)
//
// # Responses
//
// A refused request gets the status 429, Retry-After in whole seconds, and problem details. A request that costs more than the limit can
// ever grant gets 413, a request without a key or on the block list 403. X-Rate-Limited is true if a limit refuses the request, and false
// if it passes. If the store fails, Config.OnStoreError decides: the request passes without fields, gets 503, or is decided by this
// process.
//
// If several limits apply to a request, X-RateLimit-* describe the one that refuses, or that has the fewest permits left. RateLimit and
// RateLimit-Policy list all of them, or only the one that refuses. Of limits joined by And, RateLimit has only the one that decides. The
// fields are set before the handler runs, and do not change afterwards.
//
// # Which limits apply to a request
//
// A request takes permits for its key from one limit: that of its route, that of its tier, or Config.Limit. Then it takes permits from each
// layer. If one of them refuses, those taken before are refunded, and the limits after it are not asked.
//
// A second Server further in, as in r.With, is an additional limit: it takes permits after the first one. If it refuses, the first one does
// not refund its permits. If a request passes the same Server twice, it takes permits twice. Servers of one limiter share the permits of
// equal keys, so give each kind of key its own limiter.
//
// # Charging in the handler
//
// To limit failures, such as wrong passwords, take a permit before the secret is checked, and refund it on success:
//
//	take, ok := logins.Respond(w, r, name, 1)
//	if !ok {
//		return // 429 was sent
//	}
//	if !correct(name, password) {
//		http.Error(w, "wrong name or password", http.StatusUnauthorized)
//		return
//	}
//	_ = limits.Refund(r.Context(), take)
//
// # When not to use it
//
// It does not bound how many requests are served at once, and does not protect against floods that saturate the network. For a client of a
// server that limits its callers, use outbound/gate.
package ratelimit
