package client_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/internal/resiltest"
)

func TestDiscardReadsWithinItsLimitAndCloses(t *testing.T) {
	t.Parallel()
	const limit = 64 << 10
	hello, endless := resiltest.Reply{Body: "hello"}, resiltest.Reply{Endless: true}
	for name, tc := range map[string]struct {
		body   resiltest.Reply
		length int64
		status int
		drain  client.Drain
		want   int64
	}{
		"small":             {hello, 5, 503, client.Drain{}, 5},
		"just fits":         {resiltest.Reply{Body: strings.Repeat("x", limit)}, -1, 503, client.Drain{}, limit},
		"endless":           {endless, -1, 503, client.Drain{}, limit + 1},
		"endless, own":      {endless, -1, 503, client.Drain{Bytes: 10}, 11},
		"says it is longer": {endless, limit + 1, 503, client.Drain{}, 0},
		"no bytes":          {hello, 5, 503, client.Drain{Bytes: -1}, 0},
		"no time":           {hello, 5, 503, client.Drain{Time: -1}, 0},
		"upgraded":          {endless, -1, 101, client.Drain{}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := tc.body.NewBody(t.Context())
			client.Discard(&http.Response{StatusCode: tc.status, ContentLength: tc.length, Body: b}, tc.drain)
			require.Equal(t, tc.want, b.BytesRead())
			require.Equal(t, 1, b.Closes())
		})
	}
	client.Discard(nil, client.Drain{})
	client.Discard(&http.Response{}, client.Drain{})
}

func TestDiscardOfAStalledBodyIsBoundedInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for want, drain := range map[time.Duration]client.Drain{
			500 * time.Millisecond: {},
			time.Minute:            {Time: time.Minute},
		} {
			b := resiltest.Reply{Body: "some", Stall: -1}.NewBody(t.Context())
			start := time.Now()
			client.Discard(&http.Response{StatusCode: http.StatusServiceUnavailable, ContentLength: -1, Body: b}, drain)
			require.Equal(t, want, time.Since(start))
			require.Equal(t, 1, b.Closes())
		}
	})
}

// Real sockets, since it is about what a real transport does with them.
func TestDiscardEndsWithTheRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		b := resiltest.Reply{Body: "x", Stall: -1}.NewBody(context.Background()) // it ends when it is closed
		start := time.Now()
		client.Discard(&http.Response{Body: b, ContentLength: -1, Request: request(t, http.MethodGet, nil).WithContext(ctx)}, client.Drain{Time: time.Hour})
		require.Equal(t, time.Second, time.Since(start))
		require.NotZero(t, b.Closes())
	})
}

func TestDiscardKeepsTheConnectionOfAShortBody(t *testing.T) {
	t.Parallel()
	short := resiltest.Reply{Body: strings.Repeat("x", 64<<10)}
	long := resiltest.Reply{Body: strings.Repeat("x", 4<<20)}
	stalled := resiltest.Reply{Body: "x", Stall: -1}
	srv := resiltest.NewServer(t, resiltest.NewScript(short, short, short, short, short, long, stalled, short))
	tr := srv.Transport()
	tr.MaxConnsPerHost = 1
	get := func() int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL, nil)
		require.NoError(t, err)
		resp, err := tr.RoundTrip(req)
		require.NoError(t, err)
		client.Discard(resp, client.Drain{Time: 2 * time.Second})
		_, conns := srv.Conns()
		return conns
	}
	for range 5 {
		require.Equal(t, 1, get())
	}
	require.Equal(t, 1, get(), "the long one costs its connection")
	require.Equal(t, 2, get(), "and so does the stalled one")
	require.Equal(t, 3, get())
}
