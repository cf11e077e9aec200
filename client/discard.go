package client

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/gresil/gresil/internal/roundtrip"
)

// The limits of Discard.
const (
	drainBytes = 64 << 10
	drainTime  = 500 * time.Millisecond
)

// Discard reads the rest of a body and closes it, so that the connection can be used again. It gives up the connection if there are more
// than 64 KiB left, if reading takes longer than half a second, or when the context of resp.Request ends. Then the body is closed while it
// is being read, which bodies of net/http allow. A nil resp is ignored.
func Discard(resp *http.Response) {
	if resp == nil || resp.Body == nil {
		return
	}
	end := sync.OnceFunc(func() { roundtrip.CloseResponse(resp) })
	defer end()
	if resp.Body == http.NoBody || resp.ContentLength > drainBytes || resp.StatusCode == http.StatusSwitchingProtocols {
		return
	}
	defer time.AfterFunc(drainTime, end).Stop()
	if resp.Request != nil {
		defer context.AfterFunc(resp.Request.Context(), end)()
	}
	_, _ = io.CopyN(io.Discard, resp.Body, drainBytes+1) // one more, to see the end of a body that just fits
}
