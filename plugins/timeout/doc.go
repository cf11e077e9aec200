// Package timeout limits the time of HTTP requests: it is core/timeout for net/http.
//
//	total, err := timeout.New(timeout.Config{Name: "total", Limit: 20 * time.Second})
//	if err != nil {
//		return err
//	}
//	try, err := timeout.New(timeout.Config{Name: "try", Limit: 5 * time.Second})
//	if err != nil {
//		return err
//	}
//	httpClient := &http.Client{Transport: client.New(nil, retries,
//		timeout.NewClient(total, timeout.ClientOptions{}),
//		timeout.NewClient(try, timeout.ClientOptions{PerAttempt: true}))}
//
//	handling, err := timeout.New(timeout.Config{Limit: 10 * time.Second})
//	if err != nil {
//		return err
//	}
//	r.Use(timeout.NewServer(handling, timeout.ServerOptions{}).Handler)
//
// The limit, its changes and its counts belong to the timeout, not to the plugin. Several plugins can share one timeout.
//
// Do not use a total limit without a limit per attempt: otherwise an attempt that hangs leaves no time for a retry.
//
// # On the client
//
// The error is an [*Error], which the standard library treats as a timeout, and a breaker as a failure. If the caller's own context ends,
// the error is that of the context. A total limit includes reading the body: the error of a read after the limit is an *Error. The limit of
// an attempt ends with the headers of the response, and includes sending the request body. To limit only the wait after an upload, set
// ResponseHeaderTimeout of http.Transport.
//
// resp.Request is the caller's own request, unless an inner transport has made a copy; its context does not end with the body. An
// upgraded connection (101) is not cut.
//
// # On the server
//
// The handler gets a context with a deadline, whose cause is an *Error. If it returns late and has not begun a response, the request gets
// 503; a response that has begun continues. A handler that ignores its context is not cut off, unless Cut is set. With Cut, the response is
// buffered, as by http.TimeoutHandler, and the request is answered at the limit while the handler still runs. To protect a server from slow
// clients, use the timeouts of http.Server.
package timeout
