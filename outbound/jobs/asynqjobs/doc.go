// Package asynqjobs is an engine of outbound/jobs that keeps the jobs in Redis 6.2 or later. It uses
// github.com/hibiken/asynq for its broker, leases and inspector:
//
//	engine, err := asynqjobs.New(redis.NewClient(&redis.Options{Addr: addr}), asynqjobs.Config{})
//	if err != nil {
//		return err
//	}
//	calls, err := jobs.New(jobs.Config{Engine: engine, Queues: queues})
//
// The aggregation and the limits of asynq are not used: rates are those of outbound/pace, in the
// handler. Tools of asynq show the queues; a job is a task whose ID and queue are those of the job, and
// whose type is its Kind. In a Redis Cluster each queue is on one node.
//
// # Differences from plain asynq
//
//   - asynq keeps times in whole seconds, rounded down, and a task can be early by a second. Here a job
//     is at most a second and PollScheduled late, and never early. A wait of up to Config.Inline is
//     exact, in the process.
//   - asynq looks for tasks once a second, and for scheduled ones every 5 seconds. Here the defaults
//     are 25 and 200 milliseconds, which is about 50 commands a second for each idle queue and process.
//   - A limited job, and the lease of a process that died, count neither as a retry nor as a failure,
//     and a job is not archived while it is limited, whatever its MaxAttempts.
//   - Each queue has a server of its own in each process.
//   - A hold is a pause of asynq that expires, so it ends without any process. The pause of a person is
//     neither replaced nor ended by it. While a queue is held, the pause command of asynq's own tools
//     reports that it is paused already: use Pause of this package.
//   - A handler is not abandoned at a timeout, so it never runs twice in one process for that reason.
//     Tasks of other clients run too, but by the rules of asynq: each has a timeout after which its
//     handler is abandoned, and one that has used its MaxRetry is archived when it is limited. Let
//     them have MaxRetry(math.MaxInt32).
//   - Jobs that are due in the same second begin in any order.
//
// # Guarantees
//
//   - A job is in Redis when Enqueue returns nil, and as durable as Redis is: use appendonly, and
//     appendfsync always if a crash of the machine must lose nothing.
//   - If a process dies, its jobs run again 50 to 70 seconds later in another one, or if there is
//     none, once one is started: a lease takes 30 seconds, its margin 25, and each process looks every
//     5 seconds. The vendor may have seen the calls: send Job.ID as an idempotency key.
//   - Job.Losses counts this. Before the last loss that is permitted, a job runs while no other such job does in its
//     process. So a job that ends the process takes no other with it. If an asynq server
//     without this package works on the queue too, what it redelivers does not count.
//   - If a process loses Redis for 30 seconds, the contexts of its handlers end, and the jobs run
//     again elsewhere.
//   - Clocks of the processes should agree. If that of one is ahead, NotBefore holds nevertheless up to
//     a difference of Config.Inline, but a job that was limited is early by the difference. From 50
//     seconds on, jobs that run are taken for lost, and run twice.
//   - A job needs about 600 bytes of Redis, and its payload. Use Runner.Feed for campaigns.
//
// # Failure mode
//
// Every operation returns an error if the server cannot execute it, within the timeouts of the client
// (DialTimeout, ReadTimeout and PoolTimeout of its options), and that of ctx if ContextTimeoutEnabled is
// set. RunNow, Delete and List are of asynq's inspector, which has no context: only the timeouts of the
// client end them. If ctx has ended, the error is its cause. An operation whose reply was lost might have
// happened.
//
// After some errors of Redis a task can stay active without a lease; asynq never redelivers it.
// QueueInfo.Stuck counts such jobs; [Engine.Repair], or Config.Repair, brings them back.
package asynqjobs
