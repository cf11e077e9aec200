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
// A decision is one script on one key, and the limit is never passed, however many instances
// there are, while the server keeps its data. Time is that of the server, so the clocks of the
// instances do not matter. Arithmetic is in whole numbers, and a rate as 3 per second does not
// drift. Several limits that are joined are taken all or none.
//
// A key is one value, which expires when it owes nothing any more; a key at rest takes no
// memory. A bucket or a fixed window takes some 200 bytes of the server with its tables, 120 of
// them by MEMORY USAGE; each step of a sliding window or a log 32 more. A log is written whole
// with each take: use it for limits of some hundreds. A refusal writes nothing. Give the server a
// maxmemory-policy of noeviction or volatile-ttl, which drops first what owes least; any other
// drops keys that still owe, and [Config].Warn tells of it.
//
// A server that starts empty forgets all, and a replica that becomes the primary forgets what had
// not reached it: a key can then be granted its capacity once more, and no more than that each time.
// A clock of the server that goes back neither frees a key nor has it owe for longer than it did
// when it was charged; one that goes forward repays a key, up to its capacity.
//
// # Where it differs from memory
//
//   - A period, or a segment of one, is a whole number of microseconds, and there is no
//     [ratelimit.Limit].Custom: else making the limiter is a [*core.ConfigError].
//   - A bucket so large and of such odd numbers that a microsecond cannot be counted exactly
//     refills in steps, as a billion and seven a day in one each 100ms.
//   - A reservation that is given back gives back its permits. In memory it gives back what it
//     skipped too: the rest of a window that it was too large for.
//   - [ratelimit.Limiter.SetLimit] holds for the process that calls it. While some processes have changed
//     the limit and others have not, a key has a count for both, and every take is charged to both. A key
//     that the other processes have used since then is carried over by its first operation under the new
//     limit, and so is a key whose own limit was cleared.
//   - A key has nothing to carry over if all its counts have recovered by its next operation.
//   - A key that has several counts, or whose limit was changed a short time ago, is decided by the script
//     for all algorithms; the first such operation can take two round trips.
//   - A key whose value another program wrote is an error, for that key alone, until it is deleted:
//     whatever does not have the form of a limit, also a text of several words.
//
// # When the server is away
//
// A decision fails after [Config].Timeout at the latest, and after several failures in a row
// at once ([ErrAway]) while one call at a time tries whether the server is back. The limiter
// says what happens then: see [ratelimit.Config].OnStoreError. A take is sent once: if its
// reply is lost it may have been counted, so a failure can cost permits and never grants more. Each server of a Cluster is away by itself, and
// decisions on the keys of the others go on: give them cluster-require-full-coverage no.
//
// A connection is made beside the decisions, one until the server has answered, and then as many as
// there are calls that wait for one. After a cut it is found again by the next call that is let through,
// at any distance below Timeout. The client tries five times to connect, 100ms apart. With 1 as DialerRetries in its options, a
// server that refuses connections is found to be away at once, else by Timeout.
//
// With [ratelimit.Local] each process then decides in its memory, with its share: the limit by the
// number of instances. A window of 100 is 33 for each of three, and a bucket has a third of the
// rate and of the burst. Where a window has fewer permits than there are instances, they take turns
// with one permit each, in periods counted on the clock of the server, after one in which nobody
// has any. So all together let through no more than the limit while the server is away; of turns,
// in each of those periods, so a log or a sliding window may see twice the limit where two meet.
// It holds as far as instances know of each other:
//
//   - An instance is a store with such a limiter, of whatever name. It is counted from the first decision
//     of one on, which does not wait for that, until [Store.Close]. It tells that it lives every two seconds; one that has not for ten is gone. What
//     counts is the number that was read last; it is lower only after ten seconds in which all that were
//     read are lower, so shares grow up to 25 seconds after an instance was lost. One that joined
//     less than two seconds before may be missed by the others; and one that has never reached the
//     server has the whole limit.
//   - While the server is away for some and there for others, as for the first that finds it back,
//     the others add their shares: of n instances up to (n-1)/n of the limit more, always less than
//     twice the limit. A window gives that once, however often the server comes and goes.
//   - A key begins with what its last decision in this process has told: of what was left then,
//     a share. A key that this process has not seen begins with the whole share. Of each limiter
//     the last 65,536 keys that owe something are known.
//   - Sliding windows, logs and counters get back what is known all at once, at the latest time that it
//     could be.
//
// After [ErrAway] at least a second passes before a decision is sent again. When the server is
// back, what was let through and time has not given back is charged to it, as far as the limit
// goes: for a key before its next decision here, and for all others in the background. What
// fails is tried again, and by Store.Close once more, for up to [Config].Timeout. A process that ends
// while the server is away takes its debts along, and so do keys beyond those 65,536. What is
// refunded after it was charged stays charged until its time; a Reset while the server is away
// forgets what is known here, and not what the server has. Times are then of the clock of the
// process. Store.Close ends the one goroutine of it.
//
// # Modes
//
// [Strict] is one round trip for a decision. [Coalesced] makes the same decisions with less
// work: what comes while a request is under way goes out together in the next, so a decision
// takes up to two round trips. Takes and checks of single buckets and fixed windows are decided together
// by one script, for 6 to 9 µs of the server's CPU each. Sliding windows, logs, counters and joined
// limits go out together too, but each is a script of its own: 30 to 45 µs, five times as
// much, and nearly as in Strict. That was measured with 64 callers and 10,000 keys on two cores,
// by go test -bench Decision.
//
// # Distance
//
// A decision takes one round trip, and so works at any that is shorter than [Config].Timeout. What
// passes is jitter: take at least twice the round trip.
//
//   - The same host or zone, up to 5 ms: the default of 50 ms fits.
//   - A neighbor region, 10 to 25 ms: the default fits; 100 ms leaves room for a lost packet.
//   - Another continent, 80 ms: 200 ms or more. Every call waits that long while the server is unavailable,
//     until [ErrAway].
//
// [Store.Check] measures the round trip, and returns an error if Timeout is too near to it. To make a
// connection takes five round trips, with TLS two more. They have [Config].DialTimeout for it, and are not
// part of any decision: until the first connection is ready, OnStoreError decides after Timeout, and the
// first call after that is decided by the server. Each connection serves one decision at a time in
// Strict: at a round trip of 20 ms the client's PoolSize must be 20 for 1,000 decisions a second. If all
// connections of the client are in use, the error says so, and matches [redis.ErrPoolTimeout].
//
// In Coalesced, decisions on one key keep the order of the calls if the round trip is less than a
// third of Timeout. To a server that is further away a batch goes out without the reply to the one
// before, eight times in a Timeout at most, each on a connection of its own; so they keep it as far as the
// network does.
//
// # Servers
//
// Redis from 7.0 on and Valkey 8, alone, behind Sentinel or as a Cluster, by the client that is
// given. With HashKeys or another Prefix the names of keys are others, so that every key starts
// afresh. A user of its own needs these rules, where gresil is the Prefix:
//
//	ACL SETUSER limiter on >secret ~gresil:* +eval +evalsha +get +set +del +time +info +ping
//
// With [ratelimit.Local] it needs these too:
//
//	+zadd +zrange +zrem +zremrangebyscore +pexpire
//
// And the client of a Cluster these:
//
//	+cluster|slots +asking
//
// Without INFO the server is not inspected, and [Store.Check] returns an error; decisions are made all the
// same. PING is not necessary.
package redisstore
