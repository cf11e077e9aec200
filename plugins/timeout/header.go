package timeout

import (
	"context"
	"net/http/httptrace"
	"sync"
	"time"
)

// A headerWait limits the time from the end of a request to the headers of its
// response. A nil one has no limit.
type headerWait struct {
	limit  time.Duration
	strike func()

	mu    sync.Mutex
	timer *time.Timer // nil until a request is written
	over  bool        // the headers arrived, or the exchange has ended
}

// trace returns a context in which the transport reports the end of the request. The
// transports of net/http report it once more where they send a request again.
func (h *headerWait) trace(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { h.stop(false) },
		GotConn: func(httptrace.GotConnInfo) { h.stop(false) }, // a request of the dialer may have begun it
		WroteRequest: func(info httptrace.WroteRequestInfo) {
			if info.Err == nil {
				h.begin()
			}
		},
	})
}

func (h *headerWait) begin() {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.over:
	case h.timer == nil:
		h.timer = time.AfterFunc(h.limit, h.expire)
	default:
		h.timer.Reset(h.limit)
	}
}

// stop stops the timer, finally if over.
func (h *headerWait) stop(over bool) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = h.over || over
	if h.timer != nil {
		h.timer.Stop()
	}
}

// expire keeps the lock, so that it does not strike after the headers arrived.
func (h *headerWait) expire() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.over {
		h.strike()
	}
}
