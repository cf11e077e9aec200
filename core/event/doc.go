// Package event keeps the latest events, for a page or a test that reads them
// later.
//
//	log, err := event.New[string](1000)
//	if err != nil {
//		return err
//	}
//	retries.Observe(retry.Hooks{Exhausted: func(_ context.Context, info retry.Info) {
//		log.Add(fmt.Sprint("gave up: ", info.Err))
//	}})
//	for id, text := range log.Since(0) {
//		fmt.Println(id, text)
//	}
//
// A [Log] is bounded: once it is full, each event replaces the oldest one, and
// [Log.Dropped] counts the replaced events; a log in a [core.Registry] has that number
// in metrics and warnings. It wakes no reader: to be notified, use the hooks that fill
// it. Do not use it where every event must be kept.
//
// Adding takes a lock for the time of a copy and does not allocate once the log
// is full. Reading copies first and then iterates without the lock, so that a slow
// reader delays no writer and may add events itself.
package event
