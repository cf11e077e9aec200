// Package share decides with a share of the limit while a store is unavailable, so that a failure of
// the store neither lifts a limit nor refuses all calls. It wraps any store; limiters with
// [ratelimit.Local] use it:
//
//	redis, err := redisstore.New(client, redisstore.Config{})
//	...
//	store, err := share.New(redis, share.Config{})
//	...
//	limiter, err := ratelimit.New(ratelimit.Config{Name: "api", Store: store, OnStoreError: ratelimit.Local})
//
// With a deny cache, wrap the cache: share.New(cache, share.Config{}). A store is closed by the Close
// of the outermost one.
//
// In short: while the store is available, it makes each decision, which takes two short locks more. While it is
// unavailable for all instances, they grant together no more than the limit. While it is unavailable
// for some, less than twice the limit is granted. Afterwards the store is charged for the permits that
// were granted without it. The state takes memory for at most 65,536 keys of each limiter. There is
// no goroutine except while there are permits to be charged; Close ends it.
//
// # Shares
//
// If the store fails, each process decides in its memory, with the limit divided by the number of
// instances. With three instances, a window of 100 is 33 for each, and a bucket has a third of the
// rate and of the burst. If a limit has fewer permits at once than there are instances, the instances
// take turns with one permit each: in a period of a window as many instances as it has permits, and
// those of a bucket one after the other. Turns are counted on a clock that all instances have in
// common, and begin when the usage of the key has recovered. So while the store is unavailable, all
// instances together grant no more than the limit. With turns, this applies to each turn: around the
// border of two turns, a log, a sliding window or a bucket can grant the permits of both.
//
// A cost above the share of this process, but not above the limit, is refused with a RetryAfter after
// which the store is tried again. RetryAfter is Never only for a cost above the whole limit.
//
// Conditions and exceptions:
//
//   - An instance is a process that uses the table of the limiter, in a store that counts them, as
//     redisstore does. For other stores, [Config].Instances is the number; the turn of an instance
//     is then drawn by lot, and two can have the same.
//   - While the store is available to some instances and not to others, for example just after a
//     failure, the others add their shares: of n instances up to (n-1)/n of the limit more, always
//     less than twice the limit. A window grants that once, however often the store fails.
//   - A key starts with a share of the permits that were left after its last decision in this
//     process. A key that this process has not used starts with the whole share. Each limiter
//     remembers the last 65,536 keys with usage.
//   - Takes under way, and takes without a reply, might have been granted by the store: they are
//     charged to the share. So one process never grants more than the limit, also if it loses the
//     store with many takes of one key under way.
//   - Sliding windows, logs and counters recover their known usage all at once, at the latest
//     moment possible. Of several limits on one key, a store might report only one with each
//     decision; then the usage of this process counts for the others.
//
// # When the store is back
//
// The permits that were granted here and have not recovered are charged to the store, up to the limit:
// for a key before its next decision here, and for all others in the background, 32 at a time. A
// failed charge is retried every two seconds, and by Close once more, for up to a second. The
// uncharged usage is lost if the process ends while the store is unavailable, and for keys beyond
// those 65,536. A refund of permits that were already charged has no effect on the store: they recover
// with time. With joined limits, usage that has recovered under the shorter limit is charged to the
// longer one, and the store might count it under both: the shorter limit can then refuse for one more
// period. While the store is unavailable, Reset forgets the usage in this process, not the usage in
// the store. Times are then those of the process's clock.
//
// After an error that says so, or after eight failures in a row, nothing is sent
// for the key for a second.
package share
