// Package dispatch makes the calls to a vendor that punishes haste.
//
// Some APIs answer an overrun with a pause, and double it with each call that arrives
// during the pause. A client that repeats each call after its own wait is then blocked for
// hours. A [Dispatcher] makes all calls of a process to one vendor, and lets each attempt
// pass one gate:
//
//	ads, err := dispatch.New(dispatch.Config[string, *ads.Client]{
//		Name:     "ads",
//		Capacity: 8,
//		Dial:     dial, // by key: a service, an account
//		Close:    closeClient,
//	})
//	if err != nil {
//		return err
//	}
//	report, err := dispatch.Do(ctx, ads, account, func(ctx context.Context, c *ads.Client) (*Report, error) {
//		return c.Report(ctx, account)
//	})
//
// If the vendor refuses an attempt because of a limit, all calls pause until the longest
// pause that any answer asked for is over. Then one call is sent, the probe, and after its
// success 2, 4, 8 and so on. The refused call is repeated, as often as Config.Attempts
// permits; every other error is returned unchanged. The number of attempts in flight is
// halved by each trip, and grows slowly while calls succeed. With Config.Limiter, calls are
// spaced in advance, so that a known limit is not reached.
//
// [Do] makes one call, [Stream] iterates over the rows of pages, and [RoundTripper] is for
// an http.Client. With Config.Registry, packages metrics and logs export the dispatcher.
// Config.Classify says which errors mean a limit: [Classify], the default,
// knows HTTP, gRPC and Google Ads.
//
// Use one Dispatcher for all that the vendor counts together. For a server that only says
// "later", the client of plugins/ratelimit is enough. It is not a durable queue: calls live
// in the memory of their process.
//
// # Connections
//
// A connection belongs to a key. Config.Capacity is the number of connections over all
// keys: a call takes an idle one of its key, otherwise dials if there is room, otherwise
// closes the connection of another key that was idle for the longest time, and dials;
// otherwise it waits. Waiting calls are served in the order of their arrival. A call keeps
// its connection while it is repeated, except in a cooldown of its account, and a stream
// keeps it until its end.
//
// # Guarantees
//
//   - A Dispatcher is safe for concurrent use. It starts no goroutine except one for each
//     Dial, and one that reads the body of a refusal; a timer closes idle connections.
//     Functions run in the goroutines of their callers.
//   - During a cooldown no attempt of its scope is sent: the end is an absolute time, which
//     only moves to later, and it is read after each wait and right before the sending.
//     Repeated calls, pages and calls that waited pass the same gate.
//   - After a cooldown, however long no call came, one attempt is sent, and no other one
//     before it was answered, or before a minute is over. An error of the network is no
//     answer: another attempt follows, alone too. An answer to an attempt from before a
//     cooldown that has ended holds no other call, but its own call waits as told.
//   - A call never waits for a connection while it has the right to be the probe, so calls
//     that wait for that right can hold all connections without a deadlock.
//   - Each accepted call completes exactly once, also after a panic, [runtime.Goexit], the
//     end of its context, or Close. Each connection is closed exactly once.
//   - The end of a call's context is not an error of the vendor.
//   - A call without contention costs 3 allocations.
//   - Memory is bounded by Capacity and MaxQueue, and by 65,536 accounts that are held:
//     with one more, the hold that ends first is forgotten. That of the vendor never is.
//
// # Failure mode
//
// Attempts that are in flight when the vendor trips arrive during its pause; a vendor that
// counts these is only safe below its limit: use Config.Limiter and a low Capacity. Other
// processes are not known: each has its own cooldown. A function that ignores its context
// keeps its connection, and Close does not wait for it. A Dial that ignores its context
// keeps its goroutine until it returns, and its place for DialTimeout at most.
package dispatch
