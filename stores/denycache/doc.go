// Package denycache refuses takes of a key without asking the store again, for up to a second after a refusal. So a
// client that ignores refusals costs the server very little:
//
//	cache, err := denycache.New(redis, denycache.Config{MaxKeys: 10_000})
//	...
//	limiter, err := ratelimit.New(ratelimit.Config{Name: "login", Store: cache})
//
// # Refusals
//
// After a refusal, a take of the same cost under the same limit is refused until RetryAfter has passed, for at most a
// second. The cache never grants permits. Every other operation goes to the store, including a take of 0 or of more
// than the limit. Remaining is that of the store's refusal, and the times are counted down from it. Later takes and
// reservations are not included.
//
// A refund, a reset and a drain through this store apply at once. The cache can refuse for up to a
// second longer than the store in these cases:
//
//   - Another process refunds or resets the key.
//   - The server loses its data.
//   - A store refunds a take whose caller left more than a second ago.
//
// # When the store is unavailable
//
// Keys that the cache refuses stay refused for their second. For all others the error of the store is returned, and the
// limiter applies [ratelimit.Config].OnStoreError. To decide by a share of the limit meanwhile, wrap the cache in
// stores/share: share.New(cache, share.Config{}). In the other order, there is no share.
//
// # Bounds
//
// A refusal from the cache takes less than a microsecond and allocates nothing. A key takes some 400 bytes, or 1,000
// after refusals of four different costs, which is the most that is kept. If MaxKeys is reached, the oldest key is
// evicted. There is no goroutine. A store in memory needs no cache: its decisions are as fast.
package denycache
