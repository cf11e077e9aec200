// Package redisstore keeps the state of limiters, and of the gates of outbound/gate, in Redis, so that a limit applies to
// all instances of a service together:
//
//	client := redis.NewClient(&redis.Options{Addr: "redis:6379"})
//	store, err := redisstore.New(client, redisstore.Config{})
//	...
//	limiter, err := ratelimit.New(ratelimit.Config{Name: "api", Limit: ratelimit.PerMinute(1000), Store: store})
//
// A decision is one script on one key, over the connections of the client, by the server's clock. It takes one round trip, up to two in
// [Coalesced], and mostly none for the busiest keys in [Lease]; never longer than [Config].Timeout. The limit is never exceeded while the
// server keeps its data, but for what Lease takes in advance. If the server fails, the limiter applies [ratelimit.Config].OnStoreError.
//
// A decision has the same result as in memory, to the microsecond, except in Lease. Limiters with the same name and the same Prefix
// share their keys, in every process. If there is only one process, keep the limits in memory: that is a thousand times
// faster, and never unavailable.
//
// # Guarantees
//
// While the server keeps its data, the limit is never exceeded, with any number of instances. Times are those of the server's clock, so the
// clocks of the instances do not matter. Arithmetic is in whole numbers: a rate such as 3 per second does not drift. Permits are taken from
// all joined limits, or from none.
//
// A key is one value, which expires when its usage has recovered, or somewhat later, as the expiry is set in advance for later takes,
// which is less work for the server: after up to twice as long and a second for a bucket, and a quarter longer and a second for other
// limits that are taken from more than once; refunds and other limits do not shorten it. A bucket or a fixed window takes some 200 bytes
// of the server's memory, of which MEMORY USAGE reports 120; the rest is in the server's tables. Each step of a sliding window or a log
// takes 32 more. A log is rewritten with each take: use it only for limits of a few hundred. A refusal writes nothing. Set the
// maxmemory-policy of the server to noeviction, or to volatile-ttl, which evicts those first that expire first. Any other policy evicts
// keys with usage, and [Store.Check] reports it.
//
// A server that starts empty has lost all usage. A replica that becomes the primary lacks the usage that was not
// replicated. Each time, a key can be granted its capacity once more, and no more than that. If the server's clock goes back, no key
// recovers early, and usage lasts no longer than charged, except to the end of an aligned window. If the clock goes forward, usage recovers
// early, up to the capacity.
//
// # Differences from memory
//
//   - A period, or a segment of one, is a whole number of microseconds. Otherwise making the
//     limiter returns a [*core.ConfigError].
//   - A bucket that is too large for exact counting in microseconds is refilled in steps, for example every 100ms for a
//     billion and seven permits a day.
//   - The refund of a reservation gives back its permits. In memory it also gives back the permits that the reservation
//     skipped: the rest of a window that was too small for it.
//   - A changed limit applies in the process that changed it. While processes have limits that differ in size, they admit at most what the
//     higher one allows; if they differ in kind, at most the sum of both.
//   - A key that was counted under another limit needs the script for all algorithms. So does one with reservations ahead, unless its
//     limit is a bucket, or one fixed window alone. The first operation on such a key can take two round trips. Later ones take one,
//     except for a few each second, or more if there are hundreds of such keys.
//   - If another program wrote the value of a key, operations on that key return an error until the value is deleted.
//     This applies to every value that does not have the form of a limit, such as a text of several words.
//
// # When the server is unavailable
//
// A decision fails after [Config].Timeout at the latest. After several failures in a row, decisions fail at once
// ([ErrUnavailable]), while one call at a time is sent to find out whether the server is available again. The limiter
// then applies [ratelimit.Config].OnStoreError. A take whose reply is lost might have been counted, and is not sent
// again: a failure can cost permits, but never grants more. In a Cluster, one server can be unavailable while decisions
// on the keys of the others continue: set cluster-require-full-coverage to no.
//
// After a failover behind one address, such as that of a proxy or a Service, the connections of the client still lead
// to the demoted server. If a server refuses a decision because it is not the primary (READONLY, NOREPLICAS, LOADING,
// MASTERDOWN), nothing was decided. Then the store closes the idle connections of the client, and sends the decision
// again at once, over a new connection, within Timeout. If Timeout is too short for that, decisions work again within a
// second; if the address is switched later, within a second after that. The connections of a [redis.ClusterClient] stay
// open.
//
// By default, the client tries five times to connect, 100ms apart. A refused connection counts as a failure after
// Timeout, or at once if the client's DialerRetries is 1.
//
// To decide by a share of the limit meanwhile, wrap the store in share.New of stores/share. Then the store counts the instances that use
// the server with the same Prefix, from the first decision of a limiter with [ratelimit.Local], or from the first permits taken in advance
// in [Lease], until [Store.Close]; decisions do not wait
// for that. So services that share a server each need a Prefix of their own. An instance sends a heartbeat every two seconds, and more
// often in its first two seconds; an instance without a heartbeat for ten seconds is not counted. A higher count applies at once, a lower
// one only after ten seconds in which every count was lower, so shares can take up to 25 seconds to grow after an instance was lost.
// Other instances can miss one that joined less than two seconds ago. An instance that has never reached the server uses the whole limit.
//
// If clients ignore refusals, wrap the store in denycache.New of stores/denycache, which refuses their takes without
// asking the server, and put share.New around both.
//
// # Gates
//
// The store can also be the Store of a gate: gate.Config{Name: "ads", Store: store}. Gates with the same name and the same Prefix share
// their limits, holds, turns and places in flight. Package gate says what that means, and what happens while the server is unavailable. The
// state of a vendor is one value, plus one for each key of a limit that is in use; in a Cluster all of them are on one server. An operation
// is one script, in all modes. Its time limit is [Config].Timeout, but at least a second.
//
// # Modes
//
// [Strict] takes one round trip for a decision. [Coalesced] makes the same decisions with less work: decisions that arrive while a request
// is under way are sent together in the next, so a decision takes up to two round trips. One script decides about all keys of a batch that
// have the same limit.
//
// [Lease] is for keys that are taken from more often than the server should be asked: a limit for a whole service, or for a tenant with
// much traffic. A process takes permits of such a key in advance, and the server is asked once for up to [Config].MaxLease takes. The
// permits are charged before they are used, so the total is never above the limit. Only the moment shifts: in any window, p processes can
// exceed the limit by up to p × MaxLease permits, and by a quarter of it at most, if they know of each other (see below); Stats says how
// many. Other operations than takes ask the server. A reservation does not use permits that were taken in advance. After a Reset, other
// processes can still use or give back what they have taken before. The refund of a take from a bucket can give back nothing after the
// process has given back the rest of its permits.
//
// docs/benchmarks.md has figures, and docs/guide/limits-in-redis.md says which mode is for which load.
//
// # Distance
//
// A decision takes one round trip, so the store works at any distance, as long as [Config].Timeout is longer than the
// round trip. The rest of Timeout is for jitter: set at least twice the round trip.
//
//   - The same host or zone, up to 5 ms: the default of 50 ms fits.
//   - A neighbor region, 10 to 25 ms: the default fits; 100 ms leaves room for a lost packet.
//   - Another continent, 80 ms: 200 ms or more. Every call waits that long while the server is
//     unavailable, until [ErrUnavailable].
//
// [Store.Check] measures the round trip, and returns an error if Timeout is too short for it.
//
// The client makes a connection when a decision needs one. That takes five round trips, with TLS two more: if Timeout is shorter, the
// decision fails, and OnStoreError decides. Connections are then made in the background, as many as there are decisions that need one, and
// later decisions use them. So a distant server is used from about a second after the start, and some decisions fail while the number of
// concurrent callers grows. In Strict, a connection serves one decision at a time: at a round trip of 20 ms, the client's PoolSize must be
// 20 for 1,000 decisions a second. If all connections of the client are in use, the error says so, and matches [redis.ErrPoolTimeout].
//
// The client closes connections that are idle for longer than its ConnMaxIdleTime, 30 minutes by default, those older
// than its ConnMaxLifetime, and idle ones beyond its MaxIdleConns. A decision can fail after Timeout for each connection that a load
// balancer cut, or that must be made to a distant server again. For a distant server set
// ConnMaxIdleTime to -1, and leave ConnMaxLifetime and MaxIdleConns at 0.
//
// In Coalesced, decisions on one key keep the order of the calls if the round trip is less than a third of Timeout. To
// a more distant server, a batch is sent without waiting for the reply to the previous one, at most eight batches in a
// Timeout, each on a connection of its own. Then the order is not kept.
//
// # Servers
//
// The store supports Redis from 7.0 on and Valkey 8: one server, Sentinel or a Cluster, depending on the client.
// Another Prefix renames all keys, and a change of HashKeys the short, plain ones; these then start without usage. A
// restricted user needs these rules, where gresil is the Prefix:
//
//	ACL SETUSER limiter on >secret ~gresil:* +eval +evalsha +get +set +setrange +del +time +info +ping
//
// With stores/share, or in Lease, it also needs these, for counting the instances:
//
//	+zadd +zrange +zrem +zremrangebyscore +pexpire
//
// With a Cluster, it also needs these:
//
//	+cluster|slots +asking
//
// Only [Store.Check] needs INFO. PING is optional.
package redisstore
