// Package redisstore keeps the state of limiters in Redis, so that a limit applies to all
// instances of a service together:
//
//	client := redis.NewClient(&redis.Options{Addr: "redis:6379"})
//	store, err := redisstore.New(client, redisstore.Config{})
//	...
//	limiter, err := ratelimit.New(ratelimit.Config{Name: "api", Limit: ratelimit.PerMinute(1000), Store: store})
//
// The same store shares the holds of cooldowns: see Cooldowns below.
//
// In short: a decision takes one round trip, or up to two in [Coalesced], and no longer than
// [Config].Timeout. The limit is never exceeded while the server keeps its data. If the server fails, the limiter applies
// [ratelimit.Config].OnStoreError.
//
// A decision has the same result as in memory, to the microsecond. Limiters with one name and one
// Prefix share their keys, in every process. If one process is enough, use a store in memory: it
// is a thousand times faster and never unavailable.
//
// # Guarantees
//
// A decision is one script on one key. While the server keeps its data, the limit is never
// exceeded, with any number of instances. Times are those of the server's clock, so the clocks of
// the instances do not matter. Arithmetic is in whole numbers: a rate such as 3 per second does
// not drift. Joined limits are taken all or none.
//
// A key is one value, which expires when its usage has recovered; a recovered key takes no memory.
// A bucket or a fixed window takes some 200 bytes of the server with its tables, 120 of them by
// MEMORY USAGE. Each step of a sliding window or a log takes 32 more. A log is written whole with
// each take: use it for limits of some hundreds. A refusal writes nothing. Set the
// maxmemory-policy of the server to noeviction, or to volatile-ttl, which evicts the keys with the
// least usage first. Any other policy evicts keys with usage, and [Config].Warn reports it.
//
// A server that starts empty has lost all usage. A replica that becomes the primary has lost the
// usage that was not replicated. A key can then be granted its capacity once more, and no more
// than that each time. If the server's clock goes back, no key recovers early, and no usage lasts
// longer than it did when it was charged. If the clock goes forward, usage recovers early, up to
// the capacity.
//
// # Differences from memory
//
//   - A period, or a segment of one, is a whole number of microseconds. Otherwise making the
//     limiter returns a [*core.ConfigError].
//   - A bucket that is too large for exact counting in microseconds refills in steps, for example
//     one each 100ms for a billion and seven permits a day.
//   - A refunded reservation gives back its permits. In memory it also gives back the permits that
//     it skipped: the rest of a window that was too small for it.
//   - A changed limit applies to the process that changed it. While processes have different limits, they admit at
//     most what these limits allow together.
//   - A key with joined limits, or one that was counted under another limit, is decided by the script for all
//     algorithms. The first such operation can take two round trips.
//   - If another program wrote the value of a key, operations on that key return an error until
//     the value is deleted. This applies to every value that does not have the form of a limit,
//     also a text of several words.
//
// # When the server is unavailable
//
// A decision fails after [Config].Timeout at the latest. After several failures in a row,
// decisions fail at once ([ErrUnavailable]), while one call at a time is sent to find out whether the
// server is available again. The limiter then applies [ratelimit.Config].OnStoreError. A take is sent
// once: if its reply is lost, it might have been counted, so a failure can cost permits and never grants more. Each
// server of a Cluster is unavailable separately, and decisions on the keys of the other servers
// continue: set cluster-require-full-coverage to no.
//
// After a failover behind one address, as that of a proxy or a Service, the connections of the client still
// lead to the demoted server. If a server refuses a decision because it is not the primary (READONLY,
// NOREPLICAS, LOADING, MASTERDOWN), nothing was decided: the store closes the idle connections of the
// client, and sends the decision again at once, over a new one, within Timeout. If that is too short to
// make a connection, or the address leads to the new primary only later, decisions continue within a
// second of it. The connections of a [redis.ClusterClient] stay open.
//
// Connections are made outside the decisions: one until the server has answered, and then as many
// as there are calls that wait for one. After a network failure, the next call that is let through
// finds the server again, at any distance below Timeout. The client tries five times to connect,
// 100ms apart. If DialerRetries in its options is 1, a refused connection counts as a failure at
// once, otherwise after Timeout.
//
// To decide with a share of the limit meanwhile, wrap the store in share.New of stores/share. For each
// limiter with [ratelimit.Local], the instances that use its table are then counted, from its first
// decision until [Store.Close]; the decision does not wait for that. An instance sends a beat every two
// seconds; one without a beat for ten seconds is not counted. The number that was read last applies. A
// lower number applies only after ten seconds of lower numbers, so shares grow up to 25 seconds after
// an instance was lost. The other instances can miss one that joined less than two seconds before. An
// instance that has never reached the server has the whole limit. Limiters of other names have no part
// in it.
//
// To refuse takes of clients that ignore refusals without the server, wrap the store in denycache.New of
// stores/denycache, and share.New around both.
//
// # Cooldowns
//
// A [Store] is a [cooldown.Store] too: cooldowns of one name share their holds, in every process.
//
//	gate, err := cooldown.New(cooldown.Config{Name: "vendor", Store: store})
//
// It is also the Store of outbound/dispatch, and the CooldownStore of the client of
// plugins/ratelimit. Of two holds of a key the one that ends later counts, by the server's clock;
// processes exchange the remaining time of a hold, so their clocks do not matter. A hold reaches the
// others by a message, in about the time of a round trip, and never ends earlier there. In addition
// holds are read once a second while there are calls. If the server does not allow a subscription,
// they are read ten times a second, which Warn reports. All cooldowns of a store use one more
// connection and one server: in a Cluster the one that has the slot of {cooldowns}.
//
// A call never waits for the server while holds are known. It waits, for Timeout at most, at the first
// use of a cooldown, and without messages at the first use after ten idle seconds. If the holds are
// not known then, the call is admitted, and calls do not wait again until the server is available.
// While the server is unavailable, each process keeps the holds that it knows and makes its own.
// StoreFailed and StoreRecovered of the hooks report it. When the server is available again, holds
// that are not over are sent again, also after the server has lost its data; processes learn of
// them within two seconds. Only a hold of a process that has ended is then lost for new ones. If the
// server's clock goes back, holds last longer, by as much, in processes that learn of them later; if it
// goes forward, they are sent again.
//
// Release of a cooldown ends the hold in all processes that are connected, within a second if
// not at once. Without messages, a process that has not read the release before the next hold of the
// key keeps the longer one, and sends it again if it is its own. After a hold each process sends a
// probe of its own. At most 65,536 holds of a name are shared: with one more, the hold that ends first
// is forgotten by the server. A hold takes some 100 bytes of the server and its key, and its set expires
// with the last hold. Keys are written whole, except with HashKeys: a process then knows the hold of a
// key that it has not used by its hash only, and finds it at the first use.
//
// Goroutines and the connection begin with the first use, and end with the last cooldown or with
// [Store.Close], which must not be called by a hook of a cooldown.
//
// # Modes
//
// [Strict] is one round trip for a decision. [Coalesced] makes the same decisions with less work:
// decisions that arrive while a request is under way are sent together in the next, so a decision
// takes up to two round trips. Takes and checks of single buckets and fixed windows are decided
// together by one script, for 6 to 9 µs of the server's CPU each. Sliding windows, logs, counters
// and joined limits are sent together too, but each is a script of its own: 30 to 45 µs, five
// times as much, and nearly as in Strict. That was measured with 64 callers and 10,000 keys on two
// cores, by go test -bench Decision.
//
// # Distance
//
// A decision takes one round trip, so every distance works whose round trip is shorter than
// [Config].Timeout. The rest of Timeout is for jitter: set at least twice the round trip.
//
//   - The same host or zone, up to 5 ms: the default of 50 ms fits.
//   - A neighbor region, 10 to 25 ms: the default fits; 100 ms leaves room for a lost packet.
//   - Another continent, 80 ms: 200 ms or more. Every call waits that long while the server is
//     unavailable, until [ErrUnavailable].
//
// [Store.Check] measures the round trip, and returns an error if Timeout is too near to it. Making
// a connection takes five round trips, with TLS two more. [Config].DialTimeout limits them, and
// they are not part of any decision: until the first connection is ready, OnStoreError decides
// after Timeout, and the first call after that is decided by the server. Each connection serves
// one decision at a time in Strict: at a round trip of 20 ms the client's PoolSize must be 20 for
// 1,000 decisions a second. If all connections of the client are in use, the error says so, and
// matches [redis.ErrPoolTimeout].
//
// The client closes connections that are idle for longer than its ConnMaxIdleTime, 30 minutes by default,
// those older than its ConnMaxLifetime, and idle ones beyond its MaxIdleConns. For each connection that is
// made again at a distance, or that a load balancer has cut, a decision can fail after Timeout. For a
// distant server set ConnMaxIdleTime to -1, and leave ConnMaxLifetime and MaxIdleConns at 0.
//
// In Coalesced, decisions on one key keep the order of the calls if the round trip is less than a
// third of Timeout. To a more distant server, a batch is sent without waiting for the reply to the
// one before, at most eight times in a Timeout, each on a connection of its own. The order is then
// that of the network.
//
// # Servers
//
// Redis from 7.0 on and Valkey 8, alone, behind Sentinel or as a Cluster, by the client that is
// given. HashKeys or another Prefix changes the names of keys, so every key starts afresh. A user
// of its own needs these rules, where gresil is the Prefix:
//
//	ACL SETUSER limiter on >secret ~gresil:* +eval +evalsha +get +set +del +time +info +ping
//
// With stores/share it needs these too:
//
//	+zadd +zrange +zrem +zremrangebyscore +pexpire
//
// With cooldowns these, of which the first is for the channels:
//
//	&gresil:* +publish +subscribe +unsubscribe +zadd +zrange +zrem +zscore +zremrangebyscore +zremrangebyrank +pexpire
//
// And the client of a Cluster these:
//
//	+cluster|slots +asking
//
// Without INFO the server is not inspected, and [Store.Check] returns an error; decisions work all
// the same. PING is necessary for the messages of cooldowns only.
package redisstore
