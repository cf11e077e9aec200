// Package jobs makes calls later, at the rate that a vendor permits. A job is kept until its handler has succeeded: in
// memory, or with asynqjobs in Redis.
//
// A job that a limit refuses runs again when the vendor permits it. That never uses an attempt:
//
//	calls, err := jobs.New(jobs.Config{
//		Engine: engine, // of asynqjobs.New; if nil, jobs are in memory
//		Queues: map[string]jobs.Queue{"telephony": {Gate: telephony, Handler: dial}},
//	})
//	if err != nil {
//		return err
//	}
//	go calls.Run(ctx)
//	id, err := calls.Enqueue(ctx, jobs.Job{Queue: "telephony", Payload: number})
//
// If a call need not outlive the process, use outbound/gate alone: with it, the caller waits.
//
// # The end of an attempt
//
// The error of the handler, which can be wrapped, decides what happens to the job:
//
//   - nil: the job is done.
//   - core.Permanent, or an error after an answer with gate.Signal.Permanent or Executed to a call of Queue.Gate: the job has
//     failed. [RunAt] goes before the latter.
//   - [RunAt]: the job runs again at that time. No attempt is used.
//   - A refusal by a limit (gate.Config.Classify, also of a request over the Transport of Queue.Gate), or an error that
//     matches core.ErrRejected, such as that of an open breaker: the job runs again after the wait that the error
//     gives, or after Queue.Backoff if it gives none. The wait of an error is extended by up to a tenth, at most a
//     minute, so that jobs of many processes do not return together. No attempt is used.
//   - Any other error after Run's context has ended: the job goes back to the queue. No attempt is used.
//   - Any other error, a panic, or more time than Queue.Timeout: the attempt has failed. The job runs again after
//     Queue.Backoff, and after Job.MaxAttempts it has failed.
//
// A failed job is kept until [Runner.RunNow] or [Runner.Delete].
//
// # Guarantees
//
// When Enqueue returns nil, the engine has the job. A durable engine delivers it at least once. It is delivered again if its process dies
// before the engine has noted its end, so send Job.ID to the vendor as an idempotency key. A job whose process died Queue.MaxDeliveries
// times in a row has failed. A handler never runs before Job.NotBefore. Jobs are taken in the order in which they become due; up to
// Queue.Concurrency of them begin in no particular order. Campaigns that are fed ([Runner.Feed]) take turns. A job that would wait for its
// gate for more than 2 seconds goes back to the queue meanwhile: in memory to its place, on asynq behind the jobs that are pending.
//
// # Failure mode
//
// While the engine fails, Enqueue returns its error, Feed waits, and no job begins. A handler that ignores its context keeps occupying its
// place. Config.MaxPending bounds the memory of each queue, except for done jobs with a Retain. A Runner that does not run has no
// goroutine.
package jobs
