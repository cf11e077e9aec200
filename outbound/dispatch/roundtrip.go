package dispatch

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/blame"
	"github.com/gresil/gresil/internal/h2err"
	"github.com/gresil/gresil/internal/roundtrip"
)

// RoundTripper returns a transport whose requests are calls of d: a connection of d is a
// place that a request holds until the body of its response is closed or read to its end,
// or its context ends. The sockets are those of base. If base is nil, it is a clone of
// [http.DefaultTransport]. If key is nil, the key is the zero K.
//
// If the vendor refuses a request because of a limit (Config.Classify, applied to the
// [*StatusError] of a response from the status 400 on), it is sent again, whatever its method: a
// vendor that answers so has not executed it. A status from 500 on other than 503, and
// ENHANCE_YOUR_CALM of HTTP/2, do not say that, so such a request is sent again only if it
// is [client.Idempotent]. A request with a body is sent
// again only if it has GetBody, or if nothing of the body was read. The last response is returned as it came. Waiting is not
// an attempt, and a timeout per attempt of the base does not include it.
func RoundTripper[K comparable, C any](d *Dispatcher[K, C], base http.RoundTripper, key func(*http.Request) K) http.RoundTripper {
	if base == nil {
		base = client.New(nil)
	}
	return &transport[K, C]{d, base, key}
}

type transport[K comparable, C any] struct {
	d    *Dispatcher[K, C]
	base http.RoundTripper
	key  func(*http.Request) K
}

// CloseIdleConnections passes the call on.
func (t *transport[K, C]) CloseIdleConnections() { roundtrip.CloseIdleConnections(t.base) }

// RoundTrip sends req when the vendor permits it.
func (t *transport[K, C]) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	replay := client.NewReplay(req, 0)
	var key K
	var c *call[K, C]
	var attempt *http.Request
	kept, returned := false, false // by the body; normally
	defer func() {
		replay.Close()
		if !returned {
			roundtrip.CloseBody(attempt) // the base has panicked, and might not have closed it
		}
		if !kept && c != nil {
			c.finish()
		}
	}()
	if t.key != nil {
		key = t.key(req)
	}
	c, err := t.d.begin(ctx, key)
	if err != nil {
		returned = true
		return nil, err
	}
	resp, err := t.send(c, req, replay, &attempt) //nolint:contextcheck // that of c
	if returned = true; err != nil || resp == nil {
		return resp, err
	}
	kept = true
	end := sync.OnceFunc(c.finish)
	stop := context.AfterFunc(c, end) //nolint:contextcheck // also if Close cancels the call
	client.OnBodyEnd(resp, func() {
		stop()
		end()
	})
	return resp, nil
}

// send makes the attempts of a request.
func (t *transport[K, C]) send(c *call[K, C], req *http.Request, replay *client.Replay, last **http.Request) (*http.Response, error) {
	var open *http.Response
	defer func() {
		if open != nil && open.Body != nil { // a function of the user's did not return
			_ = open.Body.Close()
		}
	}()
	for sent := false; ; sent = true {
		if err := c.admit(); err != nil {
			if !sent {
				err = notSent(c, err)
			}
			return nil, err
		}
		attempt, err := replay.Attempt(c)
		if err != nil { // of GetBody; nothing was sent
			c.step(core.Ignored, core.Ignored)
			return nil, err
		}
		*last = attempt
		resp, err := t.base.RoundTrip(attempt)
		roundtrip.Restore(resp, attempt, req)
		open = resp
		verdict, answered := err, err == nil
		var since time.Time
		if answered {
			if e := check(resp, c.holdEarly); e != nil {
				verdict, since = e, e.arrived
			}
		}
		again, judged := c.judge(verdict, answered, since)
		if again && (replay.Ready() != nil || maybeExecuted(resp, err) && !client.Idempotent(req)) {
			c.giveUp(verdict)
			again = false
		}
		open = nil
		switch {
		case again:
			client.Discard(resp)
		case err != nil && judged != nil:
			return nil, judged
		default:
			return resp, err
		}
	}
}

// maybeExecuted reports whether the vendor may have executed a request that it limits.
func maybeExecuted(resp *http.Response, err error) bool {
	if err != nil {
		return h2err.Throttled(err)
	}
	return resp.StatusCode >= http.StatusInternalServerError && resp.StatusCode != http.StatusServiceUnavailable
}

// notSent marks an error of Dial or of the limiter for the layers above: nothing of the
// request was sent. The failure of a limiter's store says nothing about the vendor.
func notSent(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil, errors.Is(err, core.ErrRejected):
		return err
	case errors.Is(err, ratelimit.ErrStore):
		return &blame.Error{Err: err, NotSent: true}
	}
	return &blame.Error{Err: err, Outcome: core.Failure, NotSent: true}
}
