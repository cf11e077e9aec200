// Package event keeps the latest of what happened, for a page or a test that
// asks later.
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
// A [Log] is bounded: once it is full, each event takes the place of the oldest
// one, and [Log.Dropped] counts those; a log that is put into a [core.Registry] has
// that number in metrics and warnings. It wakes nobody; who wants to be told uses
// the hooks that fill it. Do not use it where no event may be lost.
//
// Adding takes a lock for the time of a copy and does not allocate once the log
// is full. Reading copies first and then iterates without the lock, so that a slow
// reader holds up nobody and may add events itself.
package event
