// Package denycache refuses takes of a key without the store, as long as the store would certainly
// refuse them. So a client that ignores refusals costs the server very little:
//
//	cache, err := denycache.New(redis, denycache.Config{MaxKeys: 10_000})
//	...
//	limiter, err := ratelimit.New(ratelimit.Config{Name: "login", Store: cache})
//
// # Refusals
//
// After a refusal, a take of the same cost under the same limit is refused until RetryAfter has
// passed, for at most a second. The cache never grants permits. Every other operation goes to the
// store, also a take of 0 or of more than the limit. Remaining and the times are those of the
// refusal, counted down; takes and reservations since then are not included.
//
// A refund, a reset and a drain through this store apply at once. The cache can refuse for up to a
// second longer than the store in these cases:
//
//   - Another process refunds or resets the key.
//   - The server loses its data.
//   - A store refunds a take whose caller had left more than a second ago.
//
// # When the store is unavailable
//
// Keys that the cache refuses are refused until the second is over. For all others the error of the
// store is returned, and the limiter applies [ratelimit.Config].OnStoreError. To decide with a share
// of the limit meanwhile, wrap the cache in stores/share: share.New(cache, share.Config{}). The other
// order has no share.
//
// # Bounds
//
// A refusal from the cache takes less than a microsecond and allocates nothing. A key takes some 400
// bytes, or 900 after refusals of four different costs, the most that are remembered. If MaxKeys is
// reached, the oldest refusal is evicted. There is no goroutine. A store in memory needs no cache: a
// decision there is as fast.
package denycache
