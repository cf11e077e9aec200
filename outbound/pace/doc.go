// Package pace paces calls, so that a vendor with a rate such as 500 calls a second never
// counts more, in any interval of a second on its own clock.
//
// A limiter holds a rate at the moment of its decision. The vendor counts arrivals: calls
// that are admitted at an even rate are late by different times, so they arrive together, and
// a window of the limiter is never that of the vendor. A [Pacer] reserves an exact slot for
// each call, and its permit has a shelf life:
//
//	vendor, err := pace.New(pace.Config{
//		Name:  "telephony",
//		Rates: []pace.Rate{{Calls: 500, Per: time.Second}},
//		Store: store, // of stores/redisstore: all processes share the rate
//		Fair:  campaign, // func(context.Context) string
//	})
//	if err != nil {
//		return err
//	}
//	httpClient := &http.Client{Transport: client.New(nil, vendor, retries)} // a client.Plugin
//
//	_, err = vendor.Wait(ctx, account, 1) // or without HTTP: make the call at once afterwards
//
// [Pacer.Wait] returns when the call may be made, [Do] makes it, and [Pacer.Transport] does so
// for requests. [Pacer.Reserve] returns a permit for a later time at once, for a scheduler.
//
// For a rate that the vendor does not enforce so strictly, core/ratelimit is enough, and makes
// better use of the rate.
//
// # Why no window has more
//
// Let n be the Calls of a rate in each Per, and T = ceil((Per + Slack + Skew) / n) the spacing of
// the slots. A call arrives at its slot s at the earliest, and at s + Slack + Skew at the latest.
//
//  1. Take any n+1 calls in the order of their slots: the last slot is at least n·T ≥ Per + Slack
//     + Skew after the first.
//  2. So the call with the last slot arrives at least n·T - (Slack + Skew) ≥ Per after the call
//     with the first one.
//  3. Both are not in one half-open window of length Per, wherever it begins: it has n calls at
//     most.
//
// "At the earliest" may be later by a constant, such as the time to the vendor. With a Burst of b,
// the slots of any interval of length d are at most b + d/T, so T = ceil((Per + Slack + Skew) /
// (n-b+1)) gives the same; a call of cost c ≤ b counts as c calls with one slot. With several
// rates each slot is that of a call under all of them. The price is the part that Slack and Skew
// are of the period: 5 % of 500 calls a second, nothing that matters of 10 calls a minute.
//
// # Modes
//
// [Rolling] is the above, and fits every vendor. [SlidingLog] has the same promise, by a log over
// Per + Slack + Skew, and allows n calls at once after a pause; it keeps the time of each call.
// [FixedWindow] is for a vendor that counts in whole seconds or minutes of its clock: up to n calls
// at the start of each, and twice as many around a border. Its permits begin Skew after their
// window, and end Slack and Skew before its end; the clocks of the vendor, of the store and of this
// process must agree within Skew.
//
// # Guarantees
//
//   - Times are those of the store. A wait begins after its reply, so that no call is early; the
//     shelf life begins before the request, so that no call is late. Clocks of processes do not
//     matter, except for FixedWindow.
//   - A permit that is stale is given up, and another slot is reserved. With Transport, the check is
//     when the request has its connection, so a slow dial does not send a stale one.
//   - Calls that wait are in the memory of their process. They get their turn in the order of arrival,
//     or in turn over the sub-keys of Config.Fair. A process reserves about 25 ms ahead, or one
//     slot, and less if others share the key; so a campaign with 10,000 waiting calls delays
//     another one by that time.
//   - A canceled call passes its slot on to the next one, or leaves it for a call that comes while it
//     is fresh. Its slot is not refunded, since a later one may be in use.
//   - Several rates are one decision: a call takes its permit of all or of none.
//   - Changed rates apply at once: a call that waits for its slot reserves another one. A change grants
//     nothing, as in core/ratelimit: an interval of Per in which rates change has at most the calls of
//     the highest of them. A change of Burst can add as many calls as the Bursts differ.
//   - It starts no goroutine. In memory, a permit whose slot is now takes less than twice the time of a
//     take, and allocates nothing. Over a store it is one operation.
//   - Memory is bounded by MaxQueue, by the keys with calls or slots ahead, and by the store.
//
// # Failure mode
//
// If the store fails, calls are rejected with [ErrStore], or pass, or are decided with a share
// of the rate: Config.OnStoreError. If it loses its state, a process that sees slots earlier than
// those it has waits until they are over; other processes may not notice. This costs at most the calls
// of the slots that were reserved, some 30 ms, which the Slack covers. Replies that take longer than
// Slack are an error, as each permit would be stale.
//
// The promise is that of the shelf life at the last check. A process that stands still after the
// check, by the operating system or the garbage collector, or a network that delays one call by more
// than the rest of Slack and Skew, sends it late. A call that was sent and fails has used its permit.
package pace
