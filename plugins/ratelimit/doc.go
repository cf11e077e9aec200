// Package ratelimit limits the requests that a server takes. It is core/ratelimit for net/http, and forwards the names of
// core/ratelimit that such a program needs.
//
//	r := chi.NewRouter()
//	r.Use(ratelimit.PerIP(ratelimit.PerMinute(100)))
//
// A [Server] binds a limiter with keys, routes, layers and tiers:
//
//	limits, err := ratelimit.New(ratelimit.Config{Name: "api", Limit: ratelimit.PerMinute(1000),
//		Limits: map[string]ratelimit.Limit{"export": ratelimit.TokenBucket(10, time.Second, 20)}})
//	byUser, err := ratelimit.NewServer(limits, ratelimit.ServerOptions{Key: server.Header("X-API-Key"),
//		Routes: []ratelimit.Route{{Pattern: "POST /export", Limit: "export", Weight: pages}}})
//	r.Use(byUser.Handler)
//
// # Responses
//
// A refused request has the status 429, Retry-After in whole seconds, and problem details. One that costs more than the limit
// can ever grant has 413, one without a key or on the block list 403. X-Rate-Limited is true on a refusal and false otherwise.
// If the store fails, by Config.OnStoreError the request passes without fields, has 503, or this process decides.
//
// If a request is under several limits, X-RateLimit-* are about the one that refuses, or has the fewest permits left. RateLimit and
// RateLimit-Policy list all of them. The fields are set before the handler runs, and do not change afterwards.
//
// # Which limits a request is under
//
// A request takes permits of one limit of its key: that of its route, that of its tier, or Config.Limit. Then it takes permits of
// each layer. If one of them refuses, those before it are refunded. A second Server further in, as in r.With, is an additional
// limit: it takes permits after the first one, and the first one keeps its own. The same Server around itself takes twice.
//
// # Charging in the handler
//
// To limit failures, such as wrong passwords, take before the secret is checked, and refund on success:
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
// It does not bound how many requests are served at once, and does not protect from floods that saturate the network. A client of a
// server that limits uses outbound/gate.
package ratelimit
