// Package ratelimit limits how many permits each key takes in a time: requests of
// a client, calls to a vendor, bytes of an upload.
//
//	limiter, err := ratelimit.New(ratelimit.Config{
//		Name:  "api",
//		Limit: ratelimit.TokenBucket(10, time.Second, 20), // the zero Limit: a fixed window, 1000 a minute
//	})
//	if err != nil {
//		return err
//	}
//	r, err := limiter.Take(ctx, clientIP, 1)
//	if err == nil && !r.Allowed {
//		return tryAgainIn(r.RetryAfter)
//	}
//
// Do not use it to bound how many calls run at once: a permit comes back with
// time, not when a call ends.
//
// # Choosing a limit and a method
//
// Windows, buckets and logs promise different things and cost different amounts:
// see the constructors, from [FixedWindow] to [SlidingLog], and docs/guide in the repository.
// [Limit.And] joins several for one key, [Chain] several limiters.
//
// [Limiter.Take] decides at once, and its Result has the values of a client's response.
// [Limiter.Wait] waits in the queue of the key, and refuses at once if the permits cannot come
// in time. [Limiter.Reserve] grants permits for a later moment. [Limiter.TakeAtMost] takes a
// part. [Limiter.Refund] gives back the permits of a take, [Limiter.Drain] takes all available
// permits, [Limiter.Peek] takes none. [Limiter.WithLimit] applies another limit to the same
// keys, for tiers; [Limiter.SetLimit] changes the limit of all keys, and [Limiter.SetKeyLimit]
// that of one key.
//
// # Guarantees
//
// Each operation on a key is one atomic step, also under several limits. A refusal
// changes nothing. A cost above the capacity is never allowed ([Never]). Arithmetic is
// in whole numbers: 3 per second are 259,200 a day, and waiting exactly RetryAfter is
// enough. Time that goes backwards, a refund after its window and a change of limit
// mint no permits.
//
// In memory a key costs 16 bytes of a table that is 2/5 to 7/8 full and holds no pointers; the
// key itself is not kept, only a hash with a seed of the process. A key under a sliding limit,
// under several limits, or under a limit that was changed has some 100 bytes beside that, and a
// list for each sliding limit. The number of keys is bounded by [Config.MaxKeys], and the
// usage of an evicted key is kept. A recovered key is removed within two minutes, if there is a
// call a minute. A take from a window or a bucket allocates nothing.
//
// # When the store fails
//
// A failing store is not a refusal: by [Config.OnStoreError], calls pass, return an
// error that matches [ErrStore], or are decided with the share of this process. The store in memory does not
// fail.
package ratelimit
