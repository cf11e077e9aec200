package client

import (
	"cmp"
	"context"
	"io"
	"math"
	"net/http"
	"time"

	"github.com/gresil/gresil/internal/request"
)

// Drain limits how much is read of a discarded body, so that its connection can be used
// again. The zero value has the defaults.
type Drain struct {
	// Bytes is the largest number of bytes read. If zero, it is 64 KiB. If
	// negative, nothing is read.
	Bytes int64
	// Time limits the time of reading. If zero, it is 500ms. If negative,
	// nothing is read.
	Time time.Duration
}

// Discard reads the rest of the body within the limits and closes it. If the body ends
// within them, its connection can be used again; if it is longer, stalls or never ends,
// the connection is lost. A body whose Content-Length is above the limit is not read at
// all, nor is that of an upgraded connection. When the time is over, or the context of
// resp.Request has ended, the body is closed while it is being read, which the bodies of
// net/http allow. A nil resp is ignored.
func Discard(resp *http.Response, limit Drain) {
	if resp == nil || resp.Body == nil {
		return
	}
	limit.Bytes, limit.Time = cmp.Or(limit.Bytes, 64<<10), cmp.Or(limit.Time, request.DrainTime)
	body := &onceClose{ReadCloser: resp.Body}
	defer func() { _ = body.Close() }() // its error means nothing to the caller
	if limit.Bytes < 0 || limit.Time < 0 || resp.Body == http.NoBody ||
		resp.ContentLength > limit.Bytes || resp.StatusCode == http.StatusSwitchingProtocols {
		return
	}
	late := time.AfterFunc(limit.Time, func() { _ = body.Close() })
	defer late.Stop()
	if resp.Request != nil {
		ctx := request.Context(resp.Request)
		defer request.Release(ctx)
		defer context.AfterFunc(ctx, func() { _ = body.Close() })()
	}
	most := min(limit.Bytes, math.MaxInt64-1) + 1 // one more, to see the end of one that just fits
	_, _ = io.CopyN(io.Discard, resp.Body, most)
}
