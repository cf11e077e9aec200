// Package server puts plugins around a handler of net/http, in a safe order whatever the order of the arguments. It also has what plugins
// share: keys of clients, rejections, and routes.
//
//	limits, err := ratelimit.NewServer(nil, ratelimit.ServerOptions{})
//	if err != nil {
//		return err
//	}
//	pipeline, err := server.New(accessLog, limits, server.Route("POST /export", exports))
//	if err != nil {
//		return err
//	}
//	r := chi.NewRouter()
//	r.Use(pipeline.Handler)
//
// A plugin works without a pipeline too: its method Handler is a middleware. A plugin of your own has two methods. [Middleware] makes a
// plugin of ordinary middleware.
//
// A timeout with Cut goes around the whole router instead, as in http.Server{Handler: pipeline.Handler(r)}: at the limit it returns while
// the handler may still run, and inside of chi, the next request would get the routing context that this handler still uses.
//
// Middleware whose order does not matter, such as compression or CORS, needs no pipeline.
//
// Everything here can be used from several goroutines at once. Nothing starts a goroutine or logs. Only [Reject] reads the body of a
// request, to discard it.
package server
