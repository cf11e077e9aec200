package timeout

import (
	"context"
	"net/http/httptrace"
	"sync"
	"time"
)

// A wait limits each of several waits of one sort. One that is nil, or has no limit,
// limits nothing.
type wait struct {
	limit  time.Duration
	strike func() // ends a wait that takes too long

	mu    sync.Mutex
	timer *time.Timer // nil before the first
	since time.Time   // the start of the wait in progress, or zero
	over  bool        // there are no more
}

// begin starts the time of a wait.
func (w *wait) begin() {
	if w.limit == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return
	}
	w.since = time.Now()
	if w.timer == nil {
		w.timer = time.AfterFunc(w.limit, w.expire)
	} else {
		w.timer.Reset(w.limit)
	}
}

// end ends the time of a wait, the last one if over.
func (w *wait) end(over bool) {
	if w == nil || w.limit == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.since, w.over = time.Time{}, w.over || over
	if w.timer != nil {
		w.timer.Stop()
	}
}

// expire strikes if the wait in progress is over the limit: the timer may have fired for
// an earlier one. It keeps the lock, so that it does not strike after the end of the wait.
func (w *wait) expire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.since.IsZero() && time.Since(w.since) >= w.limit {
		w.strike()
	}
}

// trace returns a context in which the transport begins the wait for the headers of a
// response at the end of the request. The transports of net/http report that end once
// more where they send a request again.
func (w *wait) trace(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { w.end(false) },
		GotConn: func(httptrace.GotConnInfo) { w.end(false) }, // a request of the dialer may have begun it
		WroteRequest: func(info httptrace.WroteRequestInfo) {
			if info.Err == nil {
				w.begin()
			}
		},
	})
}
