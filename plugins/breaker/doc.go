// Package breaker stops requests to a host, or to a handler, that keeps failing. It binds
// core/breaker to net/http, and aliases the types of that package that it uses.
//
//	breakers, err := breaker.NewClient(breaker.ClientConfig{}) // one breaker per host
//	if err != nil {
//		return err
//	}
//	httpClient := &http.Client{Transport: client.New(nil, breakers)}
//	resp, err := httpClient.Get("https://api.example.com/users")
//	if errors.Is(err, breaker.ErrOpen) {
//		wait, _ := core.RetryAfter(err)
//		return fmt.Errorf("try again in %v", wait)
//	}
//
// A [Client] judges each exchange when its headers arrive: 5xx and network errors are
// failures. A request that its caller canceled is neither failure nor success, and neither
// are the caller's own faults ([client.Explain]): a request body that cannot be read, or
// so slowly that a time limit ends the exchange; a request that net/http refuses to send.
// So the uploads that a reverse proxy passes on do not open the breaker of its origin. An
// outer limit, as a total timeout or that of a handler, is a failure only if the attempt
// had at least half of its own limit: see [client.Classify]. Retries are outside of the
// breaker, which [client.New] ensures: each attempt is counted, and none is made to a host
// whose breaker is open. With JudgeBody, a success is counted when the body has ended, and
// a read that fails is a failure.
//
// With SlowCall, headers that take long count against a host as failures do. With a Trip of
// a client, a single response is enough: [TripOnRetryAfter] opens for every Retry-After. With
// TrialRule, all trials must succeed. [Client.Override] and [Server.Override] change the
// treatment of one request: no breaker, another key, or a further kind of failure.
// SetConfig of both replaces the settings while they are in use, and keeps the states.
//
// A [Server] stands in front of a handler and answers 503 with Retry-After while the
// handler keeps failing, which gives its own upstreams time to recover. It judges at the
// header too, so a stream that goes on for hours occupies no trial slot. A handler that an
// outer limit ends has failed only if at least half of that limit was left when its request
// arrived: see ServerConfig.Classify. A 5xx for a request whose body could not be read is not a
// failure, nor is a limit that strikes during a slow upload. An [http.MaxBytesReader] inside of the breaker hides its error: an oversize upload
// to a [net/http/httputil.ReverseProxy] is then a 502, which is a failure. Place
// [http.MaxBytesHandler] outside of the breaker, or answer 413 in the ErrorHandler:
//
//	proxy.ErrorHandler = func(w http.ResponseWriter, r *http.Request, err error) {
//		status := http.StatusBadGateway
//		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
//			status = http.StatusRequestEntityTooLarge
//		}
//		w.WriteHeader(status)
//	}
//
// The handler gets the request itself. It gets a copy, as from any middleware that uses
// WithContext, if the request has a body or the Server wraps more than one handler. Pattern
// and MultipartForm of the copy are set on the original when the handler returns.
//
// Use neither against too many callers: use a limiter. If the server answers with 5xx for
// a fault of the caller, return Ignored in Classify.
//
// # Guarantees
//
//   - Both may be used by any number of goroutines, and start none.
//   - A rejected request is not sent. A body is closed exactly once, also by a transport
//     that panics; so a body that is neither in memory nor guarded by an outer plugin is
//     sent in a wrapper, without sendfile.
//   - A transport or handler that panics returns its half-open slot, and the panic goes
//     on.
//   - A response is never changed, but for the body with JudgeBody, and no body is read
//     or held in memory.
//   - A request through a closed breaker costs no allocation of the Client's own, unless
//     its body needs a wrapper, or the default Key has to build the host: for an http URL
//     without a port, or a host with capital letters, that is one small string.
//   - The number of breakers is bounded, and one that is open is not dropped.
//
// When it fails: requests to a host that is up are rejected until its time to be
// open is over. OnStateChange, Stats and [Client.For] show why; [Client.Override] gets a
// single request past it, and Reset of the breaker that For(host) returns ends it.
package breaker
