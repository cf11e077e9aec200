// Package ratelimit limits requests: those that a server takes, and those that a
// client sends. What decides is core/ratelimit; this package binds it to
// net/http.
//
//	limits, err := ratelimit.NewServer(ratelimit.ServerConfig{
//		Name:  "api",
//		Limit: ratelimit.PerMinute(1000),   // for each client IP
//		Routes: []ratelimit.Route{          // instead of the above
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
//	r.With(login.Handler).Post("/login", signIn) // additional
//
// When not to use it: to bound the number of requests that are served at once, since a
// permit recovers with time, not when a request ends; and against floods that saturate the
// network before they reach the program.
//
// A request can have more than one limit. Limits joined by And are for one key. A [Route]
// has a limit instead of the general one. A [Layer] is an additional limit, as for the
// network of the client or for all clients. A second, inner Server is an additional limit
// for some handlers. If any of them refuses, nothing is taken of the others.
//
// Shadow shows the effect of a limit before it is enforced. With MaxWait requests wait for
// their turn instead of being refused. Allow selects requests without a limit, and Block
// requests that are never served.
//
// A [Server] can be reconfigured while it is in use ([Server.SetConfig]), and switched off
// for one request ([Server.Override]); so can a [Client].
//
// # Charging in the handler
//
// The cost of a request can be known later, as when a login has failed. A handler finds its
// [Charge] by [ChargeOf], and takes, refunds, reads, or refuses as the limiter does. With a
// Weight of 0 only the handler takes permits. To limit failures, take before checking the
// secret and refund on success. An exhausted key is refused whatever the password;
// otherwise the response would show an attacker that a guess was right:
//
//	charge, ok := ratelimit.ChargeOf(w)
//	if !ok {
//		return errors.New("no limiter around the handler")
//	}
//	result, err := charge.TakeKey(r.Context(), "user:"+name, 1)
//	if err != nil {
//		return err
//	}
//	if !result.Allowed && charge.Reject(w, r, result) { // 429, with its fields
//		return nil
//	}
//	if !correct(name, password) {
//		w.WriteHeader(http.StatusUnauthorized) // and it stays charged
//		return nil
//	}
//	return charge.Refund(r.Context())
//
// [server.Reject] refunds the request unless it has an Err that is no [core.ErrRejected], so a
// wrong password needs one.
//
// # Responses of a server
//
// Allowed requests have X-Rate-Limited: false. Refused requests have X-Rate-Limited: true,
// status 429, Retry-After in whole seconds, which are enough, and problem details, or plain
// text if the client prefers it. The body does not have the wait. A request that costs more
// than the limit ever allows has 413 and no Retry-After. [HeaderStyle] adds the fields from
// which a client learns its limit in advance. They are present whatever the handler does:
// on streams, on a 304, and on the response of an outer Recoverer after a panic; but not on
// connections that the handler takes over or upgrades with a 101. They are updated right
// before the header is sent. A request that Block selects, or that has no key, has 403 and none of the fields.
//
// The handler gets the request itself. It gets a copy, as from any middleware that uses
// WithContext, with ChargeInContext, and if the Server wraps more than one handler: an inner
// handler of the same Server then finds the outer one even below a middleware that hides
// writers. Pattern and MultipartForm of the copy are set on the original when the handler
// returns; a PathValue that an inner mux has set is not, and the original alone has a
// trailer that was not announced.
//
// # Clients that a server asks to wait
//
// A [Client] reads responses ([DefaultFeedback]): one response that asks for a pause holds
// back every request with its key, including those that wait for their turn. After the hold
// a single request is sent, and each success makes room for one more. Key is the scope of
// the server's limit: a host, a vendor, an account. Without a Key, only a 429, a 503, or a status
// from 400 on with a Retry-After holds a
// host: a field of another response might be about a limit of one of its resources. The last
// check is right before the request goes to the transport: a request that waits there for a
// connection, as with MaxConnsPerHost, has passed it.
//
// # Guarantees
//
// A refused request reaches no handler and takes no permits. A request that an inner plugin
// refuses, by [server.Reject], is refunded before the response is sent. An excluded request
// takes nothing and has none of the fields. No header of a client is read unless its peer is
// trusted. No body is read, except that of a refused request, as [server.Reject] does.
//
// A [Client] closes the body of a request exactly once, also if the transport panics; so one that
// is neither in memory nor guarded by an outer plugin is sent in a wrapper, without sendfile.
//
// An allowed request costs one allocation in addition to those of the header map: 208 bytes,
// 320 with the fields of one limit, and 416 with more. It costs more if its key is composed, if
// the name of its limit is long, with layers, with joined limits, with MaxWait, and if the handler
// looks up the charge. A refused request costs three allocations, of at most 256 bytes
// together.
//
// # Failure mode
//
// If the store fails, requests pass without fields, or get 503, or this process decides with
// its share of the limit: see ServerConfig.OnStoreError. The status is never a 4xx, since the
// client is not at fault. A client that leaves while its request waits gets 503 too. The store
// in memory does not fail. If Weight or Tier fails, the response is 500, or that of its
// [server.Rejection].
package ratelimit
