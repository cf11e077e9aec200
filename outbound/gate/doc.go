// Package gate makes calls to a vendor within its limits.
//
// All calls to the vendor pass one [Gate]. It lets each call wait until it may be sent, spaces calls so that a known
// limit is never exceeded, and stops all of them while the vendor asks for a pause:
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
// A call is sent when all of these conditions are met at once: there is no hold on any of its keys, it is its turn
// after a hold, there is a place in flight (Config.InFlight), every limit has a slot for it, and there is a connection
// if it uses a [Pool]. While it waits for one of them, it occupies nothing that another call could use. The last check
// is made when the call has its connection, right before it is sent: if a hold has begun meanwhile, the call is not
// sent, and waits at the front again. That uses no attempt.
//
// # Holds
//
// If the vendor refuses a call because of a limit, a hold begins: no call with one of its keys is sent until the longest pause that any
// answer asked for is over. Then one call is sent, the probe, and after its success 2, 4, 8 and so on. If the probe has no answer after 10
// seconds, another one is sent. The refused call is sent again, up to Config.MaxAttempts times in all. With InFlight, a hold that affects
// all present calls halves the number of calls that can be in flight, which grows again while calls succeed. A [Signal] can also say that
// too many calls are in flight, that waiting does not help, or how much is left of a limit (see [Headers]).
//
// # Why no period has more than N calls
//
// Let n be the N of a limit in each Per, and T = ceil((Per + Slack) / n) the spacing of the slots. A call arrives at its slot s at the
// earliest, and at s + Slack at the latest. Of any n+1 calls in the order of their slots, the last slot is at least n·T ≥ Per + Slack after
// the first, so the last call arrives at least Per after the first one: the two are never in the same period, wherever it begins on the
// vendor's clock. With a Burst of b, any interval of length d has at most b + d/T slots, so the same holds for T = ceil((Per + Slack) /
// (n-b+1)).
//
// # Costs that are known afterwards
//
// A call takes an estimate before it is sent. [Gate.Settle] or Config.Actual reports the real cost: what was taken in excess is given back,
// and what is missing is charged to the calls that follow. Then no period has more than N units of what its calls have really cost, apart
// from what they have cost above their estimates.
//
// Let E be the end of the usage, when it has recovered. For each slot, at s, E is at least s + T·(the units of that slot and of all slots
// given after it). Right after a slot was given, E is at most s + b·T. So an interval of length d has at most b + d/T units. A settlement for
// less lowers E only as far as the first condition stays true for the slots that were given after the settled one. Burst bounds what can be
// kept: if one of these slots found all of Burst free, nothing is given back.
//
// # Guarantees
//
// A Gate is safe for concurrent use, and starts no goroutine without a Store; one timer serves all calls that wait. Calls that need slots
// of a key are sent in the order of arrival; permits of Reserve come first, and background calls ([Background]) last. A call that needs
// slots of several keys can be passed by calls that need one of them. At most 65,536 keys are held; a hold of one more key holds the whole
// vendor. At most 65,536 keys without calls and holds are counted: above that, those with the least usage are evicted, and their usage is
// charged to new keys.
//
// # Several processes
//
// With Config.Store, all processes share slots, holds, turns and places in flight; after a hold, only one of them sends a probe. One
// request to the Store asks for all calls that wait; calls that arrive meanwhile are part of the next request. If a call has its connection
// more than 50 ms after the answer of the Store, the Store is asked again right before the call is sent. Places and turns are leased for 10
// seconds, so those of a killed process become free. A hold is sent to the Store before anything else; if it cannot be sent, calls of other
// keys do not wait for it. If another process ends a hold early, this process knows it within 3 seconds if calls wait, and otherwise with
// its next call.
//
// While the Store is unavailable, a process uses its share of the limits for 10 seconds: N and InFlight divided by the number of processes
// that were seen lately. After that, calls wait for the Store, unless Config.AllowOnStoreError is set. A process that has made no call for 10
// seconds has no share: its first call waits. A gate with a Store has one goroutine from its first call until Close, and one for each
// pending request for permits.
//
// # When not to use it
//
// If the server fails but does not limit calls, use plugins/retry and plugins/breaker. If calls must survive the
// process, use outbound/jobs or outbound/batch.
//
// # Failure mode
//
// A gate knows of a hold when the answer arrives: calls already on their way arrive during the pause. If the vendor punishes these too, its
// limit must not be exceeded at all: set Limits, and a small InFlight. Keep InFlight within the streams that an HTTP/2 vendor permits, and
// do not set StrictMaxConcurrentRequests: a wait for a stream comes after the last check.
//
// Set Config.MaxWait, or give each call a deadline: otherwise a call waits as long as the vendor asks, even for a day.
// A function that ignores its context, and a [Permit] that is never ended, keep their places in flight.
package gate
