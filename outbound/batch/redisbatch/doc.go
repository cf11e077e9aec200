// Package redisbatch keeps the records of outbound/batch in Redis. They survive the process, and
// batchers in several processes share the groups:
//
//	client := redis.NewClient(&redis.Options{Addr: "redis:6379"})
//	store, err := redisbatch.New(client, redisbatch.Config{})
//	...
//	contacts, err := batch.New(batch.Config[Contact, Reply]{
//		Method: "contacts/merge", Send: merge, Store: store,
//		Pacer: limit, // with a Store of its own, all processes share the rate
//	})
//
// If one process is enough, and it may lose its records when it ends, use the memory of the batcher:
// Store nil.
//
// # Guarantees
//
//   - Each operation is one script: it happens as a whole or not at all, also if the server is
//     killed. Flush of all groups and Retry of many records take several scripts, of 500 groups or
//     records each; every one of them is a whole.
//   - A record that was added is sent at least once. Lease moves records to a batch in the server,
//     which exists until it is settled. If its process is killed meanwhile, another one leases the batch
//     after the time of the lease, with the same ID and the same records. This needs neither a further
//     record nor a process for the purpose. A record that ends its processes fails: see package batch.
//   - Times are those of the server's clock, in microseconds. The clocks of the processes do not matter.
//   - All keys of a method have one hash tag, so a method is on one server of a Cluster. Any string can be a
//     method, an option, a key or an ID, and no two share a key.
//   - Time in the server is bounded: no script walks over keys, and a list is moved in slices of 500. The
//     time of Lease and Settle depends on the records of the batch only (BenchmarkLease). Delete walks
//     over the records with a Call that waits.
//   - Concurrent calls of Add are sent together, up to 256 records or 1 MiB at a time; a single call is
//     sent at once. It uses two connections for that. The order of calls that do not overlap is kept.
//   - Memory in the server is bounded by MaxPending, MaxGroups and MaxFailed of the batcher. A record takes
//     some 50 bytes and its payload; one with a Key, a Call that waits or a payload above 4 KiB 250 to
//     350 bytes. A method without records has no keys, except for two that expire by themselves.
//
// # Failure mode
//
// Every operation returns an error if the server cannot execute it, within the timeouts of the
// client: DialTimeout, ReadTimeout and PoolTimeout of its options, and that of ctx if
// ContextTimeoutEnabled is set. No operation is sent twice by the client: one whose reply was lost
// might have happened. So a record whose Add has failed might be sent, and is sent twice if the caller
// adds it again. The batcher repeats the other operations, which changes nothing if they had
// happened. Results of Calls are removed from the server when the process asks for the next ones, so
// they are not lost with a connection; after ten minutes they expire.
//
// A server that is out of memory accepts no records and no pause; records that it has can be sent and
// settled. Set its maxmemory-policy to noeviction, and appendonly to yes. With appendfsync everysec, a
// crash of the server loses up to a second, and a replica that becomes the primary has lost the
// operations that were not replicated: records that were added then are lost, records that were settled
// then are sent again. If the server loses all its data, its records are lost, except for those in
// flight; nothing gets stuck, and later records are sent. If its clock goes back, records and leases take as much longer;
// if it goes forward, leases expire early, and their records are sent again.
//
// # Servers
//
// Redis from 7.0 on and Valkey 8, alone, behind Sentinel or as a Cluster, by the client that is given. A
// user of its own needs these rules, where gresil is the Prefix:
//
//	ACL SETUSER batches on >secret ~gresil:* +eval +evalsha +time +del +unlink +exists +pexpire
//	+hget +hmget +hgetall +hset +hdel +hlen +hkeys +hexists +hincrby
//	+rpush +lpop +ltrim +lrange +lindex +llen +blmove +zadd +zrem +zscore +zcard +zrange
//
// And the client of a Cluster these:
//
//	+cluster|slots +asking
package redisbatch
