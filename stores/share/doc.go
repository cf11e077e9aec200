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
// In short: while the store is available, it makes each decision; that costs two more short locks. While it is
// unavailable for all instances, they together grant no more than the limit. While it is unavailable for some of them,
// less than twice the limit is granted. Afterwards the store is charged for the permits that were granted without it.
// Each limiter remembers what the store said about at most 65,536 keys, and keeps as many keys as a limiter without a
// Store. There is a goroutine only while there are permits to
// be charged; Close ends it.
//
// # Shares
//
// If the store fails, each process decides in its memory, with the limit divided by the number of instances. With three
// instances, a window of 100 is 33 for each, and a bucket has a third of the rate and of the burst. If the capacity of
// a limit is lower than the number of instances, the instances take turns with one permit each. In each period of a
// window, as many instances have a turn as the window has permits; with a bucket, one instance follows the other. Turns
// follow a clock that all instances share, and begin when the usage of the key has recovered. So while the store is
// unavailable, all instances together grant no more than the limit. With turns, this applies to each turn separately:
// where one turn ends and the next begins, a log, a sliding window or a bucket can grant the permits of both.
//
// A cost above the share of this process, but not above the limit, is refused with the RetryAfter after which the store
// is tried again. RetryAfter is negative only for a cost above the whole limit.
//
// Conditions and exceptions:
//
//   - If the store counts instances, as redisstore does, an instance is a process that uses the store with the same
//     prefix. For other stores, [Config].Instances is their number; the turn of an instance is then random, and two instances
//     can have the same.
//   - While a store that counts instances is unavailable, a process that starts does not know the others, and its share is the whole
//     limit: n such processes can grant n times the limit.
//   - While the store is available to some instances only, for example just after a failure, the others grant their
//     shares in addition: of n instances, up to (n-1)/n of the limit. So the total is less than twice the limit, if no process
//     starts meanwhile. A window grants them once, however often the store fails.
//   - A key starts with a share of the permits that were left after its last decision in this
//     process. A key that this process has not used starts with the whole share. Each limiter
//     remembers the last 65,536 keys with usage.
//   - Takes under way, and takes without a reply, might have been granted by the store: they are charged to the share.
//     So one process never grants more than the limit, even if it loses the store with many takes of one key under way.
//   - The known usage of sliding windows, logs and counters recovers all at once, at the latest possible moment. If
//     several limits apply to a key, a store might report only one of them with each decision; for the others, only the
//     usage of this process is known.
//
// # When the store is back
//
// The permits that were granted here and have not recovered are charged to the store, up to the limit: for a key before its next decision
// here, and for all other keys in the background, 32 at once. A failed charge is retried every two seconds, and by Close once more, for up
// to a second. If there are more than some 1,000 keys, each of these tries charges a part of them.
//
// Uncharged usage is lost if the process ends while the store is unavailable, and for keys beyond the 65,536. A
// refund of permits that were already charged has no effect on the store: they recover with time. With joined limits,
// usage that has recovered under the shorter limit is charged for the longer one, and the store might count it under
// both: then the shorter limit can refuse for one more period. While the store is unavailable, Reset clears the usage
// in this process, but not that in the store. Decisions made here use the clock of the process.
//
// After an error that says that the store is unavailable, or eight failures of a key in a row, nothing is sent for it for a second.
package share
