// Package server is the base of resilience plugins for net/http servers. It wraps a
// handler with plugins in a safe order, whatever the order of the arguments. It has no
// mechanism itself.
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
// [Pipeline.Check] reports the plugins whose order an override of a phase reversed.
//
// A plugin of your own can use a [Recorder], which observes status and bytes and keeps the
// methods of the writer; [Value], by which a handler finds a value that a plugin attached
// to the request, without a copy of the request; the keys ([ByClientIP], [ByHeader],
// [ByUser], [ByRoute], [ByFunc], combined by [Keys] and [FirstOf]), which identify
// clients; [KeyIn] and [ClientIP.In] for lists of clients; and [Reject], which answers a
// request that is not served and marks it for the outer plugins.
//
// When not to use it: for logging, compression, authentication or CORS, plain
// middleware is enough; it needs no phase.
//
// # Guarantees
//
// Everything but a [Recorder], which belongs to one request, may be used by many
// goroutines at once. A key of an IPv4 or IPv6 RemoteAddr is made without
// allocation, and no two different tuples of parts have the same composed key. No
// header is read unless the peer is trusted. Only [Reject] reads a
// request body, to discard it. Nothing here starts a goroutine or logs.
//
// # Failure mode
//
// A request without an address, as over a unix socket, has no key, and the plugin decides:
// no key is better than one that all such requests share. A forwarding header that cannot
// be used is ignored: the client is then the peer itself, which can limit too much, never
// too little. [Reject] never interrupts a response that has begun.
package server
