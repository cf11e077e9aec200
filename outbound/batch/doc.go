// Package batch groups calls. Code adds single records; the vendor gets calls with many of them, and no more
// calls in a minute than it accepts.
//
//	limit, err := pace.New(pace.Config{
//		Name:  "crm",
//		Rates: []pace.Rate{{Calls: 100, Per: time.Minute}}, // of each method
//		Store: limits, // of stores/redisstore: all processes share the rate
//	})
//	if err != nil {
//		return err
//	}
//	contacts, err := batch.New(batch.Config[Contact, string]{
//		Name:       "merge_contacts",
//		Option:     func(c Contact) string { return c.List }, // one call has one option
//		MaxRecords: 200,
//		Pacer:      limit,
//		Store:      groups, // of outbound/batch/redisbatch: records survive the process
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
// [Batcher.Add] puts a record into the group of its option. A group is due if its oldest record is as
// old as FlushAfter, if it has FlushSize records, or after [Batcher.Flush]. [Batcher.Run] sends due
// groups: it waits for a permit of the Pacer, takes the oldest records of one group from the store, calls
// Send, and settles each record. Due groups take turns, one call at a time.
//
// If the vendor accepts many calls with one record each, outbound/pace is enough. Records that must be sent together have
// to be grouped before they are added.
//
// # Records that fail
//
//   - An error of one [Result] concerns its record: it is sent again with the others of its call that
//     failed, after Backoff, as another call.
//   - An error of the whole call sends the same call again, alone, after Backoff. A method
//     RetryAfter() time.Duration of the error delays this further.
//   - An error of the whole call that is [core.Permanent], such as a status 400, can be the fault of one
//     record: each half of the call is sent, until the record is found. This takes up to 2·log2 of
//     MaxRecords further calls, each with a permit.
//   - A call during which the process ends is sent again after Lease by another process. If that ends too,
//     each half of the call is sent, and so on, until a single record is left. That has failed after MaxAttempts
//     processes. So it takes no other record with it. Such calls are sent one at a time in a process, so a
//     process that is killed for another reason lets no record fail. One that waits for its turn counts for Concurrency.
//   - A record has failed when its error is permanent or MaxAttempts are used up. Its Call gets the error.
//     The group keeps the record, up to MaxFailed, for [Batcher.Retry].
//
// # Guarantees
//
//   - Every record that Add returned without an error is sent at least once, or fails, or is replaced or
//     deleted by request, as long as the store keeps it.
//   - A record is sent twice only if a process ends or stands still between its call and the
//     settlement, if the store fails for longer than the lease, or if the vendor executed a call that
//     returned an error. Such calls have the same [IdempotencyKey], unless they were halved meanwhile.
//   - n records of an option that are there at a flush take n / MaxRecords calls, rounded up, also with
//     several processes, if none fails and MaxBytes does not apply.
//   - Each call takes one permit of the Pacer, those for records that are sent again included. So the
//     promise of the Pacer holds for all batchers, processes and direct calls that share it. The
//     permit is checked right before the call.
//   - Records of one option are taken in the order of their arrival. Calls can overtake each other,
//     except with a Concurrency of 1 and one process.
//   - With k due options, each has at least one call in k.
//   - Between two processes that share a group, all operations on it are atomic; the store chooses the
//     next group.
//   - User code can panic: Send is recovered, and its records are sent again.
//   - Only Run and waiting Calls start goroutines. Memory is bounded by MaxPending,
//     MaxGroups and MaxFailed. A record in memory costs 2 allocations (BenchmarkAdd).
//
// # Failure mode
//
// If the store fails, Add returns [ErrStore], and Run tries again. A batch in flight is settled when the
// store is back; after two lease times Run gives it up, and it is sent again when its lease has expired. A
// lease is renewed while its call runs; a process that finds that it stood still for longer than its
// lease does not send. A batch of a process that has stopped is taken by another one, or by its
// successor, after Lease; this needs no further Add.
//
// Without a Store, records are lost with the process: call [Batcher.Drain] before it ends.
package batch
