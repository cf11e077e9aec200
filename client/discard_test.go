package client_test

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
)

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestDiscardReadsWithinItsLimitAndCloses(t *testing.T) {
	t.Parallel()
	const limit = client.DefaultDrainBytes
	for name, tc := range map[string]struct {
		body   io.Reader
		length int64
		status int
		drain  client.Drain
		want   int64
	}{
		"small":             {strings.NewReader("hello"), 5, 503, client.Drain{}, 5},
		"just fits":         {bytes.NewReader(make([]byte, limit)), -1, 503, client.Drain{}, limit},
		"endless":           {endless{}, -1, 503, client.Drain{}, limit + 1},
		"endless, own":      {endless{}, -1, 503, client.Drain{Bytes: 10}, 11},
		"says it is longer": {endless{}, limit + 1, 503, client.Drain{}, 0},
		"no bytes":          {strings.NewReader("hello"), 5, 503, client.Drain{Bytes: -1}, 0},
		"no time":           {strings.NewReader("hello"), 5, 503, client.Drain{Time: -1}, 0},
		"upgraded":          {endless{}, -1, 101, client.Drain{}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &body{Reader: tc.body}
			client.Discard(&http.Response{StatusCode: tc.status, ContentLength: tc.length, Body: b}, tc.drain)
			require.Equal(t, tc.want, b.read.Load())
			require.EqualValues(t, 1, b.closes.Load())
		})
	}
	client.Discard(nil, client.Drain{})
	client.Discard(&http.Response{}, client.Drain{})
}

func TestDiscardOfAStalledBodyIsBoundedInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for want, drain := range map[time.Duration]client.Drain{
			client.DefaultDrainTime: {},
			time.Minute:             {Time: time.Minute},
		} {
			b := newStalledBody("some")
			start := time.Now()
			client.Discard(&http.Response{StatusCode: http.StatusServiceUnavailable, ContentLength: -1, Body: b}, drain)
			require.Equal(t, want, time.Since(start))
			require.EqualValues(t, 1, b.closes.Load())
		}
	})
}

// Real sockets, since it is about what a real transport does with them.
func TestDiscardKeepsTheConnectionOfAShortBody(t *testing.T) {
	t.Parallel()
	var conns atomic.Int32
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/long":
			_, _ = io.Copy(w, io.LimitReader(endless{}, 4<<20))
		case "/stalled":
			_, _ = io.WriteString(w, "x")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		default:
			_, _ = io.Copy(w, io.LimitReader(endless{}, client.DefaultDrainBytes))
		}
	}))
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			conns.Add(1)
		}
	}
	srv.Start()
	defer srv.Close()
	tr := &http.Transport{MaxConnsPerHost: 1}
	defer tr.CloseIdleConnections()
	get := func(path string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+path, nil)
		require.NoError(t, err)
		resp, err := tr.RoundTrip(req)
		require.NoError(t, err)
		client.Discard(resp, client.Drain{Time: 100 * time.Millisecond})
	}
	for range 5 {
		get("/")
	}
	require.EqualValues(t, 1, conns.Load())
	get("/long")
	get("/stalled") // on a new connection, since the long one cost its own
	get("/")
	require.EqualValues(t, 3, conns.Load())
}
