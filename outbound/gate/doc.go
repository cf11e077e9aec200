// Package gate makes the calls to a vendor that limits them.
//
// A [Gate] is the one gate for everything that is sent there. It waits until a call may be sent, spaces calls so that
// a known limit is never reached, and stops all of them while the vendor asks for a pause:
//
//	ads, err := gate.New(gate.Config{
//		Name:     "ads",
//		InFlight: 8,
//		Limits:   []gate.Limit{{N: 90, Per: time.Second}},
//	})
//	if err != nil {
//		return err
//	}
//	httpClient := &http.Client{Transport: ads.Transport(nil)} // for your own calls, or under any SDK
//
// Make one Gate for all calls that the vendor counts together, and give it to everything that sends: its Transport to
// an http.Client, the Gate itself to [Do]. Calls that are not HTTP use [Gate.Do], or [Gate.Wait] and its permit.
//
// # What a call waits for
//
// A call is sent when everything is there at once: no hold on any of its keys, its turn after a hold, a place in flight
// (Config.InFlight), a slot of every limit, and a connection if it uses a [Pool]. It keeps nothing while it waits for
// something else. The last check is made when the connection is there, right before the call is sent: a call that a hold
// has overtaken while it was connecting is not sent, and waits at the front again. That uses no attempt.
//
// # Holds
//
// If the vendor refuses a call because of a limit, a hold begins: no call of its keys is sent until the longest pause
// that any answer asked for is over. Then one call is sent, the probe, and after its success 2, 4, 8 and so on. A probe
// without an answer is given up after 10 seconds, and another one follows. The refused call is sent again, up to
// Config.MaxAttempts times. With InFlight, a hold of all present calls halves the number of calls in flight, which grows
// again while calls succeed.
//
// # Why no period has more
//
// Let n be the N of a limit in each Per, and T = ceil((Per + Slack) / n) the spacing of the slots. A call arrives at its
// slot s at the earliest, and at s + Slack at the latest. Of any n+1 calls in the order of their slots, the last slot is at
// least n·T ≥ Per + Slack after the first, so the last call arrives at least Per after the first one: both are not in one
// period, wherever that begins on the vendor's clock. With a Burst of b, any time d has at most b + d/T slots, so
// T = ceil((Per + Slack) / (n-b+1)) gives the same.
//
// # Guarantees
//
// A Gate is safe for concurrent use, and starts no goroutine without a Store; one timer serves all calls that wait. Calls of
// a key are sent in the order of their arrival. At most 65,536 keys are held, above which the whole vendor is. As many are kept that are only
// counted: then those with the fewest permits in use are forgotten, and their usage is charged to the keys that come anew.
//
// # Several processes
//
// With Config.Store, all processes share slots, holds, turns and places in flight, and send one probe together. The calls that
// wait ask the Store together, in one round trip; later ones wait for the next. If a call is connected more than 50 ms after
// its answer, the Store is asked a second time right before it is sent. Places and turns are leased for 10 seconds: a killed
// process gives its own back. A hold is sent to the Store before anything else; if it cannot be sent, calls of other keys do
// not wait for it. One that another process ends early is known within 3 seconds.
//
// While the Store is unavailable, a process uses its share of the limits for 10 seconds: N and InFlight divided by the number
// of processes that were seen lately. After that calls wait for the Store, unless Config.AllowOnStoreError is set. A gate with
// a Store has one goroutine from its first call until Close, and one for each question on its way.
//
// # When not to use it
//
// If the server only fails, use plugins/retry and plugins/breaker. If calls must survive the process, use outbound/jobs
// or outbound/batch.
//
// # Failure mode
//
// A hold is known when the answer is here: calls on their way arrive inside the pause. A vendor that punishes these is only
// safe below its limit: give its Limits and a small InFlight. Keep InFlight within the streams that an HTTP/2 vendor permits,
// and do not set StrictMaxConcurrentRequests: a wait for a stream comes after the last check.
//
// Set Config.MaxWait, or give each call a deadline: otherwise a call waits as long as the vendor asks, be it a day. A
// function that ignores its context, and a [Permit] that is never ended, keep their place.
package gate
