// Package timeout limits the time of HTTP exchanges, on both sides: it is
// core/timeout for net/http.
//
//	total, err := timeout.NewTotal(timeout.Config{Limit: 30 * time.Second})     // all attempts and the waits between them
//	if err != nil {
//		return err
//	}
//	attempt, err := timeout.NewAttempt(timeout.Config{Limit: 5 * time.Second})  // each attempt, as far as its headers
//	if err != nil {
//		return err
//	}
//	httpClient := &http.Client{Transport: client.New(nil, total, retries, attempt)}
//
//	handlers, err := timeout.NewServer(timeout.ServerConfig{Limit: 10 * time.Second})
//	if err != nil {
//		return err
//	}
//	srv := &http.Server{Handler: handlers.Handler(r)} // around the whole router, not in chi's Use
//
//	ctx = attempt.Override(ctx, timeout.Off) // this request, this plugin
//
// SetConfig of both replaces the settings while they are in use.
//
// Do not use a total limit in place of one per attempt: an attempt that hangs
// then leaves no time for a retry. For a server that must not be held up by slow
// clients there are the timeouts of http.Server, which know the connection.
//
// # On the client
//
// A request that is over its limit fails with an [*Error], which is a timeout in
// every way that the standard library asks ([context.DeadlineExceeded], Timeout
// methods), while the end of the caller's own context is reported as what it is.
// If an outer limit ends an attempt, a breaker counts a failure only if the attempt had
// at least half of its own limit: see [client.Classify].
// The total limit holds until the body is read or closed, unless HeadersOnly. The
// limit of an attempt holds until its headers are there, unless CutBody: a body
// that takes long is then no reason to break it off. It includes the time of the upload: a
// request body that takes longer to send than Limit is cut off. For such uploads set a
// negative Limit and ResponseHeader, which limits the time from the end of the request to
// the headers of the response, also for a single request by Override. For a response body
// that stalls there is BodyIdle, best set for the attempt: it limits each single read, so that a download or
// stream which goes on may last. The retries are over by then; the error is the
// reader's, and an outer breaker counts it where it judges bodies. An upgraded
// connection (101) is never cut, and its body stays an io.Writer. Where the caller's
// context ends sooner than the limit, no timer is started for that. The request of a
// response (resp.Request) is the caller's own, and its context lives on when the body has
// ended: further pages may be requested with it. Each hop of a redirect is an exchange of its own: http.Client follows redirects outside of its
// Transport.
//
// # On the server
//
// The handler runs in a goroutine of its own, so that it can be answered for at
// the limit, whatever it does: 503, or what Status says, with problem details.
// Its context ends with the [*Error] as cause, and what it writes after that gets
// [http.ErrHandlerTimeout]. So nothing is written twice, and a handler that minds
// neither is left alone until it ends, counted in Stats as abandoned.
//
// Put it around the whole router, and around a pipeline too that has it. In chi's
// Use and With it is not safe: chi lends each request a routing context from a
// pool, and takes it back when ServeHTTP returns, which is at the limit, while a
// handler that does not mind its context still has it. That handler then reads the
// URL parameters of another request. The same goes for any middleware further out
// that takes back what it put into the context or the request. Around the router
// there is nothing of the kind: the router runs in the handler's goroutine, and
// takes nothing back before the handler ends. For a limit per route, put one around
// the handler itself where nothing is taken from chi, or use Override.
//
// What the handler writes is held back until the response begins: when the
// handler returns, flushes, takes over the connection, or has written more than
// MaxBuffer. Until then the limit can still turn it into a 503. From then on the
// limit is lifted and everything is passed on: a stream, a download or an upgraded
// connection may last. With CutBody the limit holds on; what has begun then cannot
// become a 503, so the connection is broken off, for the client to see that the
// response is not whole. http.TimeoutHandler, in comparison, holds back everything,
// however large, cannot stream, and lets an answer wait for a handler that is
// reading a slow upload.
//
// The handler gets a request of its own, with Header and URL copied. What it, or a
// router, sets there is not seen further out: Pattern is empty there. The writer
// has Flush and Hijack where the one below has, itself or by Unwrap. It has no
// ReadFrom, so a file is not sent by the kernel, and no Push, nor an Unwrap.
//
// A panic of the handler, [http.ErrAbortHandler] too, goes on in the goroutine
// that serves the request. The stack there, which net/http logs, is not that of the
// handler: take it from [ServerConfig].Panicked, or put a Recoverer further in.
// After the limit nobody serves it any more: it is then
// told to [ServerConfig].Late, and counted.
//
// # Failure mode
//
// A handler or transport that does not mind its context costs a goroutine until it
// ends: watch Abandoned. No goroutine is left by those that do. Any number of
// requests may use a plugin at once.
package timeout
