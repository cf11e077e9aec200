// Package asynqjobs is an engine of outbound/jobs and outbound/batch that keeps everything in Redis 6.2 or later. It
// uses the broker, leases and inspector of github.com/hibiken/asynq, but not its aggregator and its limits.
//
//	engine, err := asynqjobs.New(redis.NewClient(&redis.Options{Addr: addr}), asynqjobs.Config{})
//
// Tools of asynq show the queues: a job is a task with its ID. A failed job is shown as a retry in the distant future, since asynq drops
// archived tasks. The groups of outbound/batch are in separate keys, whose names begin with Config.Prefix. In a Redis Cluster each queue
// is on one node.
//
// An idle queue costs almost nothing: a process looks at all of its queues together, with one command every Config.Poll, and runs an asynq
// server for a queue only while the queue has work. In a Cluster there is one command for each node, which checks each queue separately.
//
// # Guarantees
//
//   - A job is in Redis when Enqueue returns nil, and as durable as Redis is: use appendonly, and appendfsync always if a
//     crash of the machine must lose nothing. Set the maxmemory-policy to noeviction: a server that evicts keys loses jobs, and can stop
//     their queue.
//   - A job is never early, and with the default Poll up to 1.3 seconds late, as asynq keeps whole seconds. A wait of up to 2 seconds for a
//     limit or by RunAt is exact.
//   - If a process dies, its jobs run again about a minute later in another one, or if there is none, once one is
//     started. Each of them then runs alone in its process, so that only the job that ends processes is charged for it. Other jobs of the
//     engine wait for such a job for up to a minute each, even if its vendor is held; then they run beside it, except those that must run
//     alone too. Jobs of another engine in the process do not wait, so use one.
//   - If a process loses Redis for 30 seconds, the contexts of its handlers end, and the jobs run again elsewhere.
//   - Neither a limited job nor the death of a process counts as a retry or a failure of asynq.
//   - A hold of a vendor is a pause of asynq that expires, so no process is needed to end it. It neither replaces nor ends the pause of an
//     operator.
//   - Processes that share a queue can together exceed jobs.Config.MaxPending a little.
//   - The clocks of the processes should agree. NotBefore is observed up to a difference of 2 seconds. From 50 seconds on, running jobs are
//     taken for lost, and run twice.
//
// Tasks of other clients run too, but by the rules of asynq: each has a timeout after which its handler is abandoned, and a task that has
// used its MaxRetry is archived when it is limited. Enqueue them with MaxRetry(math.MaxInt32).
//
// # Failure mode
//
// An operation that the server cannot execute returns an error within the timeouts of the client, and within the deadline of ctx if the
// client's ContextTimeoutEnabled is set; listing jobs checks ctx between pages only. An operation whose reply was lost may have been
// executed. Run continues when Redis is back. A task that is active without a lease, which happens after some errors of Redis, runs again
// too.
package asynqjobs
