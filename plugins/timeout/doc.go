// Package timeout limits the time of HTTP exchanges, on both sides: it is
// core/timeout for net/http.
//
//	total, err := timeout.NewTotal(timeout.Config{Limit: 30 * time.Second})     // all attempts and the waits between them
//	if err != nil {
//		return err
//	}
//	attempt, err := timeout.NewAttempt(timeout.Config{Limit: 5 * time.Second})  // each attempt, until its headers arrive
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
//	// without the limit, for this request and this plugin:
//	ctx = attempt.Override(ctx, func(c *timeout.Config) { c.Disabled = true })
//
// SetConfig of both replaces the settings while they are in use. In a [core.Registry]
// the plugins have the kind "timeout", and [core.Lookup] finds them by their types.
//
// Do not use a total limit without a limit per attempt: an attempt that hangs
// then leaves no time for a retry. To protect a server from slow clients, use the
// timeouts of http.Server, which apply to the connection.
//
// # On the client
//
// A request over its limit fails with an [*Error], which the standard library treats as a
// timeout ([context.DeadlineExceeded], Timeout methods). If the caller's own context
// ends, the error is that of the context. A breaker counts a failure for
// either: see [client.Classify].
//
// The total limit lasts until the body is read or closed, unless HeadersOnly is set. The
// limit of an attempt lasts until its headers arrive, unless CutBody is set: a body may
// take longer. It includes the upload, so a request body that takes longer to send than
// Limit is cut off. For such uploads set a negative Limit and ResponseHeader, which
// limits the time from the end of the request to the headers of the response, also for a
// single request by Override. BodyIdle, best set for the attempt, is for a response body
// that stalls: it limits each single read, so that a long download or stream can go on.
// The retries are over by then; the reader gets the error, and an outer breaker counts it
// if it judges bodies. An upgraded connection (101) is never cut, and its body stays an
// io.Writer. If the caller's context ends before the limit, no timer is started for it.
//
// The request of a response (resp.Request) is the caller's own, and its context lives on
// after the body: further pages can be requested with it. Each hop of a redirect is an
// exchange of its own, since http.Client follows redirects outside of its Transport. A
// request body is closed exactly once, also by a transport that panics; so one that is
// neither in memory nor guarded by an outer plugin is sent in a wrapper, without sendfile.
//
// # On the server
//
// The handler runs in a goroutine of its own. At the limit the request is answered,
// whatever the handler does: with 503 and problem details, or by OnRejected. The handler's
// context ends with the [*Error] as cause, and its later writes return
// [http.ErrHandlerTimeout], so nothing is written twice. A handler that ignores both runs
// until it ends, and Stats counts it as abandoned.
//
// Put it around the whole router, and around a pipeline too that contains it. In chi's
// Use and With it is not safe: chi lends each request a routing context from a pool, and
// reuses it once ServeHTTP returns, which is at the limit, while a handler that ignores
// its context still uses it. That handler then reads the URL parameters of another
// request. The same applies to any outer middleware that reuses values that it put into
// the context or the request. Around the router this cannot happen: the router runs in
// the handler's goroutine. For a limit per route, put one around the handler itself if it
// takes nothing from chi, or use Override.
//
// The response is buffered until it begins: when the handler returns, flushes, hijacks
// the connection, or has written more than MaxBuffer. Until then the limit can still
// turn it into a 503. From then on the limit is lifted, and everything is passed on: a
// stream, a download or an upgraded connection can last. With CutBody the limit stays. A
// response that has begun cannot become a 503, so the connection is closed: the client
// can see that the response is not complete. http.TimeoutHandler, in comparison, buffers
// everything, however large, cannot stream, and delays its answer while a handler reads a
// slow upload.
//
// The handler gets a request of its own, with Header and URL copied. Changes by the
// handler or a router are not visible to outer middleware: Pattern is empty there. The
// writer has Flush and Hijack if the one below has them, itself or by Unwrap. It has no
// ReadFrom, so the kernel does not send files, no Push and no Unwrap.
//
// A panic of the handler, [http.ErrAbortHandler] included, continues in the goroutine
// of the request. The stack there, which net/http logs, is not that of the
// handler: take it from [ServerConfig].Panicked, or use an inner Recoverer. A panic after
// the limit is counted and passed to [ServerConfig].Late.
//
// # Failure mode
//
// A handler or transport that ignores its context costs a goroutine until it ends: watch
// Abandoned. Others leave none. Any number of requests may use a plugin at once.
package timeout
