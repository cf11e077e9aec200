// Package jobs makes calls that must happen, later, at the rate that a vendor permits. A job is kept until its handler
// has succeeded: in memory, or with asynqjobs in Redis.
//
// A job that a limit refuses runs again when the vendor permits it, and uses no attempt, however often that happens:
//
//	calls, err := jobs.New(jobs.Config{
//		Engine: engine, // of asynqjobs.New; or none: in memory
//		Queues: map[string]jobs.Queue{"telephony": {Gate: telephony, Handler: dial}},
//	})
//	if err != nil {
//		return err
//	}
//	go calls.Run(ctx)
//	id, err := calls.Enqueue(ctx, jobs.Job{Queue: "telephony", Payload: number})
//
// If a call need not outlive the process, use outbound/gate alone: it waits.
//
// # The end of an attempt
//
// The error of the handler decides, also if it is wrapped:
//
//   - nil: the job is done.
//   - core.Permanent: the job has failed.
//   - [RunAt]: the job runs again at that time. No attempt is used.
//   - A refusal by a limit (gate.Config.Classify, also of a request over the Transport of Queue.Gate), or an error that
//     matches core.ErrRejected, as of an open breaker: the job runs again when that permits it, or up to a tenth of the
//     wait later, at most a minute, so that jobs of many processes do not return together. No attempt is used.
//   - Any error after Run's context has ended: the job goes back. No attempt is used.
//   - Any other error, a panic, or more time than Queue.Timeout: the attempt has failed. The job runs again after
//     Queue.Backoff, and after Job.MaxAttempts it has failed.
//
// A job that has failed is kept until [Runner.RunNow] or [Runner.Delete].
//
// # Guarantees
//
// When Enqueue returns nil, the engine has the job. A durable engine delivers it at least once; it is delivered again if
// its process dies before the end is noted, so send Job.ID to the vendor as an idempotency key. A job whose process died
// Queue.MaxDeliveries times has failed. A handler never runs before Job.NotBefore. Jobs begin in the order in which they
// are due. Campaigns that are fed ([Runner.Feed]) take turns. A job that would wait for its gate for more than 2 seconds is not active
// meanwhile, and keeps its place.
//
// # Failure mode
//
// While the engine fails, Enqueue returns its error, Feed waits, and no job begins. A handler that ignores its context keeps its
// place. Memory is bounded by Config.MaxPending in each queue; a Runner that does not run has no goroutine.
package jobs
