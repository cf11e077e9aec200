// Package denycache refuses takes of a key without the store, as long as the store would certainly
// refuse them:
//
//	store, err := denycache.New(redis, denycache.Config{MaxKeys: 10_000})
//
// After a refusal, a take of the same cost under the same limit is refused until RetryAfter has
// passed, for at most a second. So a client that ignores refusals costs the server very little. The
// cache never grants permits. Every other operation goes to the store, also a take of 0 or of more
// than the limit.
//
// A refund, a reset and a drain through this store apply at once. If another process refunds or
// resets a key, if the server loses its data, or if a store refunds a take whose caller had left
// more than a second ago, the cache can refuse for up to a second longer. Remaining and the times
// are those of the refusal, counted down; takes and reservations since then are not included.
//
// To decide with a share of the limit while the store is unavailable, wrap the cache in
// stores/share: share.New(cache, share.Config{}). The other order has no share.
//
// A refusal from the cache takes less than a microsecond and allocates nothing. A key takes some 400
// bytes, or 900 after refusals of four different costs, the most that are remembered. If MaxKeys is
// reached, the oldest refusal is evicted. In memory a cache is of no use: a decision there is as
// fast.
package denycache
