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
// There can be more than one limit to a request: limits joined by And are for one
// key, a [Route] has its own in place of the others, a [Layer] is one more that the
// request has to fit in, as for its network or for everybody, and a second Server
// further in is one on top. Whatever refuses, nothing is taken of any.
//
// Before a limit is real, Shadow shows what it would do. With MaxWait requests wait
// for their turn instead of being refused. Allow and Block tell who is never limited,
// and who is never served.
//
// # Charging in the handler
//
// What a request costs may turn out later, as that a login has failed. A handler
// finds its [Charge] by [From] and takes, gives back, looks, or refuses as the
// limiter would have. With a Weight of 0 nothing is taken but by it. Where failures
// are what counts, take before the secret is looked at, and give back when it was
// right; an exhausted key is refused whatever the password, since else the answer
// would tell who guesses that a guess was right:
//
//	charge, ok := ratelimit.From(r.Context())
//	if !ok {
//		return errors.New("no limiter around the handler")
//	}
//	result, err := charge.TakeKey(r.Context(), "user:"+name, 1)
//	if err != nil {
//		return err
//	}
//	if !result.Allowed && charge.Reject(w, r, result) { // 429, with all that belongs to it
//		return nil
//	}
//	if !correct(name, password) {
//		w.WriteHeader(http.StatusUnauthorized) // and it stays charged
//		return nil
//	}
//	return charge.Refund(r.Context())
//
// [server.Reject] gives back what the request took, and so is not for a wrong password
// unless Unmarked.
//
// # A server's answer
//
// What passes has X-Rate-Limited: false. What is refused has X-Rate-Limited:
// true, status 429, Retry-After in whole seconds, which are enough, and problem
// details, or plain text if the client prefers it; a request that costs more than
// the limit can ever allow has 413 and no Retry-After. [HeaderStyle] adds the
// fields by which a client can slow down before that. They are there whatever the
// handler does: on streams, on a 304, on what a Recoverer further out writes after a
// panic, though not on connections that it takes over or upgrades with a 101. They are brought up to date
// right before the header goes out. What Block names has 403 and none of the fields.
//
// The handler gets a copy of the request, as from any middleware that uses
// WithContext. Its Pattern and MultipartForm are on the original too when it returns;
// a PathValue that a mux further in has set is not, and a trailer of the request that
// was not announced is on the original alone.
//
// # A client that is told to wait
//
// A [Client] learns from what comes back ([DefaultFeedback]): one response that asks to be left
// alone holds back every request with its key, those too that wait for their turn. When
// the time is over a single one goes out, and each that succeeds makes room for one
// more. Key says what the server counts by: a host, a vendor, an account. Without a Key,
// a host is held by a 429 or 503 only: a header of another response may be about a limit
// of one of its resources. The last look
// is right before the request goes to the transport: what waits there for a connection, as
// with MaxConnsPerHost, has been let go.
//
// # Guarantees
//
// A refused request reaches no handler and takes no permits. One that a plugin
// further in refuses, by [server.Reject], gives back what it took, before the client
// is told. An excluded request takes nothing and has none of the fields. A header of
// a client is never believed unless its peer is trusted. No body is read.
//
// An allowed request costs one allocation beside what the header map needs, of 576
// bytes, or 768 with Headers, in which is the copy of the request that the handler gets;
// and some more if its key or the name of its limit is long, with layers, with limits
// joined by And, with MaxWait, and where the handler asks for the charge. A refused one
// costs five, or six where its key is not just the IPv4 address of its peer.
//
// # Failure mode
//
// When the store fails, requests pass without a field of ours, or are answered
// with 503, or are held to the share of this process: see ServerConfig.OnStoreError. It is never the client's fault, so
// never a 4xx. A client that leaves while its request waits has 503 too. The store in memory does not fail. When Weight or Tier fails, the
// answer is 500, or what its [server.StatusError] says.
package ratelimit
