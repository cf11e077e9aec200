package client_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/resiltest"
)

func TestDiscard(t *testing.T) {
	t.Parallel()
	const limit = 64 << 10
	hello, endless := "hello", strings.Repeat("x", 2*limit)
	for name, tc := range map[string]struct {
		body   string
		length int64
		status int
		want   int64
	}{
		"small":             {hello, 5, 503, 5},
		"just fits":         {strings.Repeat("x", limit), -1, 503, limit},
		"endless":           {endless, -1, 503, limit + 1},
		"says it is longer": {endless, limit + 1, 503, 0},
		"upgraded":          {endless, -1, 101, 0},
	} {
		b := resiltest.NewBody(tc.body)
		client.Discard(&http.Response{StatusCode: tc.status, ContentLength: tc.length, Body: b})
		require.Equal(t, tc.want, b.BytesRead(), name)
		require.Equal(t, 1, b.Closes(), name)
	}
	client.Discard(nil)
	client.Discard(&http.Response{})
}

func TestDiscard_StalledBody(t *testing.T) {
	t.Parallel()
	for want, timeout := range map[time.Duration]time.Duration{500 * time.Millisecond: time.Hour, 100 * time.Millisecond: 100 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			pipe, _ := io.Pipe() // it ends when it is closed
			b := resiltest.WrapBody(pipe)
			start := time.Now()
			client.Discard(&http.Response{StatusCode: http.StatusServiceUnavailable, ContentLength: -1, Body: b, Request: request(t, http.MethodGet, nil).WithContext(ctx)})
			require.Equal(t, want, time.Since(start))
			require.Equal(t, 1, b.Closes())
		})
	}
}

// Real sockets, since it is about what a real transport does with them.
func TestDiscard_Connection(t *testing.T) {
	t.Parallel()
	short := resiltest.Reply{Body: strings.Repeat("x", 64<<10)}
	long := resiltest.Reply{Body: strings.Repeat("x", 4<<20)}
	stalled := resiltest.Reply{Body: "x", Stall: -1}
	srv := resiltest.Serve(t, core.Must(net.Listen("tcp", "127.0.0.1:0")), resiltest.NewScript(short, short, short, short, short, long, stalled, short))
	tr := srv.Transport()
	tr.MaxConnsPerHost = 1
	get := func() int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL, nil)
		require.NoError(t, err)
		resp, err := tr.RoundTrip(req)
		require.NoError(t, err)
		client.Discard(resp)
		return int(srv.Total.Load())
	}
	for range 5 {
		require.Equal(t, 1, get())
	}
	require.Equal(t, 1, get(), "the long one costs its connection")
	require.Equal(t, 2, get(), "and so does the stalled one")
	require.Equal(t, 3, get())
}
