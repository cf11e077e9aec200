// Package batch groups calls: code adds single records, and the vendor gets calls with as many records as it accepts, and
// no more calls than its limits permit.
//
//	contacts, err := batch.New(batch.Config[Contact, string]{
//		Name:       "merge_contacts",
//		Option:     func(c Contact) string { return c.List }, // the records of one call have one option
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
// records, or after Flush. Due groups take turns, one call each. A call is a job of the Engine, which delivers it again if
// its process dies. If each record can be sent by itself, outbound/jobs is enough.
//
// # Records that fail
//
// An error of one [Result] concerns its record, which is sent again with others of its call that failed. An error of the
// whole call sends the same call again, with the same [IdempotencyKey]. If that error is core.Permanent, it can be the
// fault of one record: each half of the call is sent, until the record is found. A refusal by a limit, and an error that
// matches core.ErrRejected, use no attempt, and the wait that they ask for is up to a tenth longer, at most a minute, so
// that calls of many processes do not return together. A record that has used MaxAttempts, or has an error of its own
// that is permanent, has failed. It is kept until Retry or Delete.
//
// # Guarantees
//
// A record that Add accepted is sent at least once, or has failed, or was replaced or deleted by request. n records of an
// option that are due together take n / MaxRecords calls, rounded up. Records are taken in the order of their arrival; calls
// overtake each other. A call whose process died twice is halved, so that a record that ends its process takes no other one
// with it; a call whose last delivery ended so runs while no other one does in its process.
//
// # Failure mode
//
// While the Engine fails, Add returns its error, and Run tries again. A call that has been made is sent again, with the same
// key, if its end cannot be noted before the process ends. Without an Engine, records are lost with the process: call Close
// before.
package batch
