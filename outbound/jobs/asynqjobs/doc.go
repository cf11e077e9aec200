// Package asynqjobs is an engine of outbound/jobs and outbound/batch that keeps everything in Redis 6.2 or later. It uses
// github.com/hibiken/asynq for its broker, leases and inspector; its aggregator and its limits are not used.
//
//	engine, err := asynqjobs.New(redis.NewClient(&redis.Options{Addr: addr}), asynqjobs.Config{})
//
// Tools of asynq show the queues: a job is a task with its ID. One that has failed is shown as a retry in the distant future, since asynq
// forgets what it has archived. The groups of outbound/batch are beside them, with names that begin with gresil:groups:. In a
// Redis Cluster each queue is on one node.
//
// Idle queues cost nothing by themselves: a process looks at all of its queues together, each Config.Poll, and runs an asynq server
// for a queue only while it has work. In a Cluster that is one command for each queue.
//
// # Guarantees
//
//   - A job is in Redis when Enqueue returns nil, and as durable as Redis is: use appendonly, and appendfsync always if a
//     crash of the machine must lose nothing.
//   - A job is never early, and up to 1.3 seconds late, as asynq keeps whole seconds. A wait of up to 2 seconds is exact.
//   - If a process dies, its jobs run again about a minute later in another one, or if there is none, once one is started.
//     Each of them then runs alone in its process, so that only the one that ends processes is charged.
//   - If a process loses Redis for 30 seconds, the contexts of its handlers end, and the jobs run again elsewhere.
//   - A limited job, and the death of a process, count neither as a retry nor as a failure of asynq.
//   - A hold of a vendor is a pause of asynq that expires, so it ends without any process. The pause of a person is neither
//     replaced nor ended by it.
//   - Processes that share a queue can exceed jobs.Config.MaxPending a little together.
//   - Clocks of the processes should agree: NotBefore holds up to a difference of 2 seconds, and from 50 seconds on, jobs that
//     run are taken for lost, and run twice.
//
// Tasks of other clients run too, but by the rules of asynq: each has a timeout after which its handler is abandoned, and one
// that has used its MaxRetry is archived when it is limited. Let them have MaxRetry(math.MaxInt32).
//
// # Failure mode
//
// Every operation returns an error if the server cannot execute it, within the timeouts of the client, and that of ctx if its
// ContextTimeoutEnabled is set; a list of jobs has no context. An operation whose reply was lost might have happened. Run goes on
// when Redis is back. A task that is active without a lease, as after some errors of Redis, runs again too.
package asynqjobs
