// Package jobs makes calls that must happen, later and at the rate that a vendor permits: a job is
// kept until its handler has succeeded, in memory or, with an engine such as asynqjobs, in Redis.
//
// A limit makes most queues of jobs lose or waste calls: a limited job is a failed one, uses up its
// attempts, and comes back at a random time. Here a limited job runs again at its slot, and uses no
// attempt, however often that happens:
//
//	engine, err := asynqjobs.New(rdb, asynqjobs.Config{}) // or none: in memory
//	if err != nil {
//		return err
//	}
//	calls, err := jobs.New(jobs.Config{
//		Engine: engine,
//		Queues: map[string]jobs.Queue{
//			"telephony": {Concurrency: 50, Handler: func(ctx context.Context, job jobs.Job) error {
//				if _, err := vendor.Wait(ctx, "", 1); err != nil { // of outbound/pace
//					return err // limited: the job runs again at its slot
//				}
//				return dial(ctx, job.ID, job.Payload)
//			}},
//		},
//	})
//	if err != nil {
//		return err
//	}
//	go calls.Run(ctx)
//	id, err := calls.Enqueue(ctx, jobs.Job{Queue: "telephony", Payload: number})
//
// If a call need not outlive the process, call outbound/gate directly: it waits.
//
// # The end of an attempt
//
// The error of a handler decides, also if it is wrapped:
//
//   - nil: the job is done.
//   - [core.Permanent]: the job is kept as failed.
//   - [RunAt](t): the job runs again at t. No attempt is used.
//   - An error with a RetryAfter of 0 or more, see [core.RetryAfter]: a limit, a cooldown or an open
//     breaker asks for that wait, or the vendor did. The job runs again then, or after Queue.Spread.
//     No attempt is used. If the wait is longer than Queue.Hold, the whole queue is held.
//   - Another error that matches [core.ErrRejected]: the call was not made. The job runs again after
//     Queue.Backoff. No attempt is used.
//   - Another error with a negative RetryAfter: the job is kept as failed.
//   - Any other error after the context ended because the process stops: the job goes back. No attempt
//     is used.
//   - Any other error, a panic, and an attempt that takes longer than Queue.Timeout: the attempt has
//     failed. The job runs again after Queue.Backoff, and is kept as failed after Job.MaxAttempts.
//
// # One queue for each limit
//
// A queue is a bulkhead. If each limit of a vendor has a queue, a vendor that cools down for 15 minutes
// delays no other, and its queue is held once instead of running each of its jobs in vain.
//
// # Campaigns
//
// [Runner.Feed] takes the jobs of a campaign from an iterator about a minute ahead of the calls, so that
// a million of them need little memory. Campaigns take turns, and [Runner.Cancel] deletes the few jobs that
// wait.
//
// # Guarantees
//
//   - When Enqueue returns nil, the engine has the job. Of a durable engine, it is delivered at least
//     once. It can be delivered again although its handler has succeeded: if the process dies, or
//     loses the store, before the engine has noted the end. Send Job.ID to the vendor as an
//     idempotency key.
//   - A handler never runs before Job.NotBefore or the time of RunAt, by the clock of its process. In
//     memory it runs at that time; each engine documents its precision.
//   - Jobs of a queue begin in the order in which they are due, as far as Concurrency permits.
//   - A job whose handler panics or ends its goroutine is not lost.
//   - A job that ends its process runs again in another one, and is kept as failed after Job.MaxAttempts
//     processes. Its last run begins when no other such job runs in the process, and counts for Concurrency while it
//     waits for that. So it takes no other job with it.
//   - A Runner that is not running has no goroutine. Memory is bounded by the engine; Feed has one job.
//
// # Failure mode
//
// If the engine fails, Enqueue returns its error, Feed waits, and no new job begins until it is back.
// [Memory] loses all jobs with the process.
package jobs
