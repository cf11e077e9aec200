// Package server has what a resilience plugin for net/http servers stands on,
// and puts plugins around a handler in an order that is safe whatever the order
// they are given in. It holds no mechanism itself.
//
// A plugin is one object with a name, a [Phase] and a method Handler that wraps
// a handler. It works alone, in chi's Use and With or around any [http.Handler].
// One that holds a timeout goes around the whole router instead, as in
// http.Server{Handler: pipeline.Handler(r)}: at the limit it returns while the
// handler may still run, and chi then lends the routing context of that handler
// to the next request.
// [New] is for two or more of them:
//
//	limits, err := ratelimit.NewServer(ratelimit.ServerConfig{Limit: ratelimit.PerMinute(1000)})
//	if err != nil {
//		return err
//	}
//	pipeline, err := server.New(accessLog, limits)
//	if err != nil {
//		return err
//	}
//	r := chi.NewRouter()
//	r.Use(pipeline.Handler)
//
// [Pipeline.Check] tells where an override of a phase turned two plugins around.
//
// For a plugin of your own there is [Record], which sees status and bytes and
// takes nothing away from the writer; the keys ([ByClientIP], [ByHeader],
// [ByUser], [ByRoute], [ByFunc], put together with [Keys] and [FirstOf]), which
// tell one caller from another; [KeyIn] and [ClientIP.In], which tell those of a
// list from all others; and [Reject], which answers a request that is not served,
// and tells the plugins further out that it was not.
//
// When not to use it: for logging, compression, authentication or CORS, plain
// middleware is enough; it needs no phase.
//
// # Guarantees
//
// Everything but a [Recorder], which belongs to one request, may be used by many
// goroutines at once. A key of an IPv4 or IPv6 RemoteAddr is made without
// allocation, and no two different tuples of parts have the same composed key. No
// header of a client is believed unless its peer is trusted. Nothing here reads a
// request body, starts a goroutine or logs.
//
// # Failure mode
//
// A request whose key cannot be found has none, and the plugin decides; so it is
// with one for which there is no IP, as that of a unix socket: no key is better
// than one that all of them share. A forwarding header that makes no sense counts
// for nothing: the client is then the peer itself, so it is limited too much rather
// than too little. A handler that began to answer is never interrupted by [Reject].
package server
