// Package redisstore keeps the state of limiters in Redis, so that a limit holds for all
// instances of a service together:
//
//	client := redis.NewClient(&redis.Options{Addr: "redis:6379"})
//	store, err := redisstore.New(client, redisstore.Config{})
//	...
//	limiter, err := ratelimit.New(ratelimit.Config{Name: "api", Limit: ratelimit.PerMinute(1000), Store: store})
//
// Nothing else changes: a decision has the same result as in memory, to the microsecond.
// Limiters of one name and one Prefix share their keys, in whatever process they are. Where one
// process is enough, a store in memory is a thousand times faster and never away.
//
// # What it promises
//
// A decision is one script on one key, and the limit is never passed, by how many instances
// ever. Time is that of the server, so the clocks of the instances do not matter. Arithmetic is
// in whole numbers, and a rate as 3 per second does not drift. Several limits that are joined
// are taken all or none.
//
// A key is one value, which expires when it owes nothing any more; a key at rest takes no
// memory. A bucket or a fixed window takes some 100 to 150 bytes of the server, each step of a
// sliding window or a log 32 more. A log is written whole with each take: use it for limits of
// some hundreds. A refusal writes nothing. Give the server a maxmemory-policy of noeviction or
// volatile-ttl, which drops first what owes least; allkeys-* forgets debts, which
// [Config].Warn tells.
//
// Bytes that are given back depend on replication: after a failover what had not reached the
// replica is forgotten. A clock of the server that goes back neither frees a key nor blocks it.
//
// # Where it differs from memory
//
//   - A period, or a segment of one, is a whole number of microseconds, and there is no
//     [ratelimit.Limit].Custom: else making the limiter is a [*core.ConfigError].
//   - A bucket so large and of such odd numbers that a microsecond cannot be counted exactly
//     refills in steps, as a billion and seven a day in one each 100ms.
//   - A bucket that is read under another rate is rounded up to a microsecond.
//   - A reservation that is given back gives back its permits. In memory it gives back what it
//     skipped too: the rest of a window that it was too large for.
//   - [ratelimit.Limiter.SetLimit] holds for the process that calls it.
//   - A key that has counts under limits of two kinds at once takes two round trips.
//
// # When the server is away
//
// A decision fails after [Config].Timeout at the latest, and after several failures in a row
// at once ([ErrAway]) while one call at a time tries whether the server is back. The limiter
// says what happens then: see [ratelimit.Config].OnStoreError. A take is never sent twice: one
// whose reply was lost may have been counted.
//
// # Modes
//
// [Strict] is one round trip for a decision. [Coalesced] makes the same decisions with less
// work: what comes while a request is under way goes out together in the next.
//
// # Servers
//
// Redis from 7.0 on, alone or as a Cluster, by the client that is given; behind Sentinel and
// with Valkey it has not been tested. It needs the commands EVALSHA, EVAL and INFO, and the scripts GET, SET, DEL, PTTL and
// TIME.
package redisstore
