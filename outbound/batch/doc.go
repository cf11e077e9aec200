// Package batch groups calls: your code adds single records. The vendor gets calls with as many records as it accepts,
// and no more calls than its limits permit.
//
//	contacts, err := batch.New(batch.Config[Contact, string]{
//		Name:       "merge_contacts",
//		Option:     func(c Contact) string { return c.List }, // the records of one call have the same option
//		MaxRecords: 200,
//		Gate:       responsys,
//		Engine:     engine, // of asynqjobs.New: records survive the process
//		Send: func(ctx context.Context, list string, all []Contact) ([]batch.Result[string], error) {
//			return crm.Merge(ctx, list, all, batch.IdempotencyKey(ctx))
//		},
//	})
//	if err != nil {
//		return err
//	}
//	go contacts.Run(ctx)
//
//	id, err := contacts.Add(ctx, contact)      // it is sent within a minute
//	result, err := contacts.Call(ctx, contact) // waits for the result of this record
//
// A group holds the records of one option. It is due if its oldest record is as old as FlushAfter, if it has FlushSize
// records, or after Flush. Due groups take turns, one call each. A call is a job of the Engine, which delivers it again
// if its process dies. If each record can be sent in a call of its own, outbound/jobs is enough.
//
// # Records that fail
//
// After an error of one [Result], its record is sent again, with others of its call that failed. After an error of the
// whole call, the same call is sent again, with the same [IdempotencyKey]. If that error is core.Permanent, a single
// record can be at fault: each half of the call is sent by itself, and so on until the record is found. After an answer with
// gate.Signal.Permanent or Executed, an error of the call is that of all its records, which have failed. A call that waits for
// another attempt is halved too if SetConfig has lowered MaxRecords or MaxBytes below its size. A refusal by a limit, and an error
// that matches core.ErrRejected, use no attempt. The wait that they ask for is extended by up to a tenth, at most a minute, so
// that calls of many processes do not return together. A record has failed when it has used MaxAttempts, or its own error is
// permanent. It is kept until Retry or Delete.
//
// # Guarantees
//
// A record that Add accepted is sent at least once, unless it fails, or is replaced or deleted by request. If n records of an option are
// due together, they take n / MaxRecords calls, rounded up. Records are taken in the order of their arrival, but calls can overtake each
// other. A call whose process died twice is halved, so that a record that ends its process does not make other records fail. A call whose
// last process died runs alone in the next, but for calls that have waited for a minute and have ended no process.
//
// # Failure mode
//
// While the Engine fails, Add returns its error, and Run tries again. A call that was made is sent again, with the same key, if the Engine
// could not note its end before the process ended. Without an Engine, records are lost with the process: call Close before it ends.
package batch
